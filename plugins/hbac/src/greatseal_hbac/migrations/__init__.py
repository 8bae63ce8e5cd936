"""Schema versions of access rules."""
