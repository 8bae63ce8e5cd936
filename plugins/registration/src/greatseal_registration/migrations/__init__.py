"""Schema versions of the tables of registration."""
