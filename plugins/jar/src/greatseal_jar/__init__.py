"""Signed authorization requests (RFC 9101), and signed authorization responses (JARM)."""

from greatseal_jar.plugin import Plugin

__all__ = ["Plugin"]
