"""Migrations of the identity provider."""
