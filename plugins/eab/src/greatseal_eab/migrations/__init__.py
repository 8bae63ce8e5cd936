"""Schema versions of the EAB tables."""
