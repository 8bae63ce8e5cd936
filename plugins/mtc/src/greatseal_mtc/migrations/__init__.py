"""Schema versions of one-time codes."""
