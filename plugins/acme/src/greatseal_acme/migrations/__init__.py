"""Schema versions of the ACME tables."""
