"""The configuration keys of the kernel itself."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from greatseal.api.declarations import Secret

BodyBytes = Annotated[int, msgspec.Meta(ge=16_384, le=16_777_216)]
"""ACME sends a certificate request in base64url twice: one with an ML-DSA-87 key takes 14 kB. A body is held in memory as a whole."""


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
    state_dir: Path | None = None
    """The folder of keys and other files of the service. Left out: that of the SQLite file, else $STATE_DIRECTORY (systemd), else var
    where the base URL is on loopback."""
    max_body_bytes: BodyBytes = 65536
    """The largest request body: 16 kB, which ACME needs, to 16 MB."""


class Admin(msgspec.Struct, frozen=True, kw_only=True):
    """[admin]: the administrative listener; without the section it does not run."""

    listen: str
    """host:port or unix:/path; another address than loopback needs TLS."""
    metrics_token: Secret | None = None
    """What a scraper sends as its bearer token for /metrics; on loopback and a Unix socket it needs none."""
    tls_cert_file: Path | None = None
    """PEM certificate chain for TLS."""
    tls_key_file: Path | None = None
    """PEM private key for it."""
    client_ca_file: Path | None = None
    """PEM certificates of the CAs whose clients may show a certificate; asks for tls_cert_file. Who of them may what, others decide."""
    audit_max_events: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many audit events are kept, 1000 at least; 0: as many as the database holds."""
    audit_overflow: Literal["drop_oldest", "halt"] = "halt"
    """What happens at so many: drop_oldest drops the oldest; halt refuses whatever writes an event, with 503, until there may be more."""

    def __post_init__(self) -> None:
        if 0 < self.audit_max_events < 1000:
            raise ValueError("audit_max_events: expected 0 or at least 1000")
        if self.audit_overflow == "drop_oldest" and not self.audit_max_events:
            raise ValueError("audit_overflow: drop_oldest needs audit_max_events, or nothing would ever be dropped")


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


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """[webui], what the start page follows."""

    default_theme: Literal["light", "dark"] | None = None
    """The theme of the pages; the browser's choice when left out."""
    display_name: str | None = None
    """What the service calls itself; the host of the issuer when left out."""
    accent_color: Annotated[str, msgspec.Meta(pattern=r"^#[0-9a-fA-F]{6}$")] | None = None
    """The colour of links and buttons, such as #7a1fa2; blue when left out. Where it would be hard to read it is made darker or lighter."""
    languages: tuple[str, ...] = ()
    """The languages of pages and mails, such as de and en: the first for whoever wishes no other. All that there are when left out."""
