"""Client-initiated backchannel authentication (OpenID Connect CIBA Core 1.0)."""

from greatseal_ciba.plugin import Plugin

__all__ = ["Plugin"]
