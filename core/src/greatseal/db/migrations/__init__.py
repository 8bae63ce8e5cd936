"""Alembic migrations of the kernel's own tables."""
