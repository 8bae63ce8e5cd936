"""ACME (RFC 8555) in front of the certificate authority."""

from greatseal_acme.plugin import Plugin

__all__ = ["Plugin"]
