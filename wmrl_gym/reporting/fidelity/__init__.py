"""How far a world model's word can be trusted: executed solutions, predictions of them, and what the two say."""
