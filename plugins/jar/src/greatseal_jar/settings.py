"""The configuration keys that this plugin reads."""

import msgspec


class JwksSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[oauth], the part for keys of clients."""

    allow_private_jwks_hosts: bool = False
    """Whether a client's jwks_uri may lead to a private address; for clients inside the organisation's own network."""
