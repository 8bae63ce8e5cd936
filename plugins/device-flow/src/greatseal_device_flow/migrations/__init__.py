"""Schema versions of the device flow."""
