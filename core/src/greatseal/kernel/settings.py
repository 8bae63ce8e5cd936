"""The configuration keys of the kernel itself."""

from pathlib import Path

import msgspec


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the service and its main listener."""

    issuer: str | None = None
    """The URL that names this service in tokens; `base_url` when left out."""
    base_url: str | None = None
    """The URL under which clients reach it, without final slash; `issuer` when left out."""
    listen: str = "127.0.0.1:8080"
    """host:port or unix:/path of the main listener."""
    tls_cert_file: Path | None = None
    """PEM certificate chain for TLS on the main listener."""
    tls_key_file: Path | None = None
    """PEM private key for it, readable by its owner alone."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks (CIDR) of reverse proxies whose X-Forwarded-For is believed."""
    realm: str | None = None
    """Kerberos-style realm of users; the host of the base URL in upper case when left out."""
    max_body_bytes: int = 65536
    """The largest request body."""


class Admin(msgspec.Struct, frozen=True, kw_only=True):
    """[admin]: the administrative listener; without the section it does not run."""

    listen: str
    """host:port or unix:/path."""
    tls_cert_file: Path | None = None
    """PEM certificate chain for TLS."""
    tls_key_file: Path | None = None
    """PEM private key for it."""


class Plugins(msgspec.Struct, frozen=True, kw_only=True):
    """[plugins]: which features run."""

    enabled: tuple[str, ...] = ()
    """Feature ids, in order."""
    sets: tuple[str, ...] = ()
    """Bundles whose features are enabled too."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """[cluster]: this node among others."""

    node_id: str = "n1"
    """The label of this node, [a-z0-9]{1,12}; it is in every handle."""
    key_file: Path | None = None
    """The key that seals private keys; made on the first start, mode 0600; cluster.key in the state folder when left out."""
