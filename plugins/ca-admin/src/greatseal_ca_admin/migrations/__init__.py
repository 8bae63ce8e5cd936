"""The migrations of the operators."""
