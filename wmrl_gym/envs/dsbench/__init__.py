"""DSBench's data-modelling tasks as an environment, from its own files."""
