"""The FAPI 2.0 profiles of the OpenID Foundation as one switch of a client."""

from greatseal_fapi.plugin import Plugin

__all__ = ["Plugin"]
