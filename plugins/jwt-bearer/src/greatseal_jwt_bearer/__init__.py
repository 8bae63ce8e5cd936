"""Assertions of issuers that are trusted, for tokens of this one (RFC 7523 s2.1)."""

from greatseal_jwt_bearer.plugin import Plugin

__all__ = ["Plugin"]
