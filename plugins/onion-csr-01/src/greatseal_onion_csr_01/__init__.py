"""The onion-csr-01 challenge (RFC 9799 s3.2)."""

from greatseal_onion_csr_01.plugin import Plugin

__all__ = ["Plugin"]
