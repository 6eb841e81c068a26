"""A run as an object: its folder, its records, training, evaluation, the arms of a comparison."""
