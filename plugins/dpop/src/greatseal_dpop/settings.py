"""The configuration keys of DPoP."""

import msgspec


class DpopSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[oauth], the part for proofs."""

    dpop_nonce: bool = False
    """Whether each proof must hold a nonce of this service (RFC 9449 s8): proofs cannot be made in advance, nor outlive a restart."""
