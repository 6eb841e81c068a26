"""Static analysis of scripts that read tables, fit models and write a file. It imports nothing else of this package."""
