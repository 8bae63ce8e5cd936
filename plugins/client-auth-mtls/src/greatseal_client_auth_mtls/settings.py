"""The configuration keys of client certificates."""

from pathlib import Path

import msgspec


class MtlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[oauth], the part for certificates of clients."""

    client_ca_file: Path | None = None
    """PEM certificates of every CA that issues certificates to clients; without it there is no tls_client_auth."""


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """[server], by which a certificate arrives: TLS of our own, or a proxy that has the TLS."""

    trusted_proxies: tuple[str, ...] = ()
    tls_cert_file: Path | None = None
