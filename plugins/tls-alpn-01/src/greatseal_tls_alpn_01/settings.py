"""The configuration keys of tls-alpn-01."""

import msgspec


class TlsAlpnValidation(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: where the answer to tls-alpn-01 is looked for."""

    tls_alpn_validation_port: int = 443
    """The port whose certificate is looked at; 443 for everybody on the internet (RFC 8737 s3)."""

    def __post_init__(self) -> None:
        if not 0 < self.tls_alpn_validation_port < 65536:
            raise ValueError("tls_alpn_validation_port: a port is between 1 and 65535")


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """[server], read: one rule says which addresses may be probed, whatever the challenge."""

    http_validation_allow_private_ips: bool = False
    """Whether private, loopback and other special-purpose addresses may be asked, on any port."""
