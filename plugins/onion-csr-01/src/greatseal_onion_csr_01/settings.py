"""The configuration keys of onion-csr-01."""

import msgspec


class OnionAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """[acme]: which onion addresses are taken for such."""

    onion_verify_checksum: bool = True
    """Whether the checksum in an onion address must be right; Tor connects to no address with a wrong one."""
