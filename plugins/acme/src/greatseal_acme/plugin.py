"""ACME (RFC 8555) in front of the certificate authority."""


class Plugin:
    """ACME (RFC 8555) in front of the certificate authority."""
