"""The configuration keys of http-01."""

import msgspec


class HttpValidation(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: where the answer to http-01 is looked for."""

    http_validation_port: int = 80
    """The port that is asked first; 80 for everybody on the internet (RFC 8555 s8.3)."""
    http_validation_allow_private_ips: bool = False
    """Whether private, loopback and other special-purpose addresses may be asked, on any port."""

    def __post_init__(self) -> None:
        if not 0 < self.http_validation_port < 65536:
            raise ValueError("http_validation_port: a port is between 1 and 65535")
