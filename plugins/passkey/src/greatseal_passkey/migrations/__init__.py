"""Schema versions of CIBA."""
