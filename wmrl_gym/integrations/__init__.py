"""The proxy inside other trainers."""
