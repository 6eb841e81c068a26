"""The proxy as an HTTP service, and its client."""
