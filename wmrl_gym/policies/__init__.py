"""Agents: any causal language model, and the nano agent that ships with the library."""
