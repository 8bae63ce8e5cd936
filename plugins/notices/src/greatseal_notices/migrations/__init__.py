"""Migrations of the tables of notices."""
