"""LIBERO-Long: a robot arm, ten kitchen and living-room tasks, and a verdict that only simulation can give."""
