"""What answers prompts: the engines behind a world model that is a language model."""
