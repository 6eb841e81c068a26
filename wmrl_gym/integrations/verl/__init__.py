"""The proxy inside verl."""
