"""The proxy inside TRL's GRPOTrainer."""
