"""The tkauth-01 challenge (RFC 9447): claim constraints that an authority vouches for."""

from greatseal_tkauth_01.plugin import Plugin

__all__ = ["Plugin"]
