"""The configuration keys of registration."""

import re
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from greatseal.api.declarations import Secret

LEAST_TOKEN = 22
"""Characters of a registration token: 128 bits in base64url."""
DAY = 86_400
_HOST = re.compile(r"[a-z0-9.-]+(?::[0-9]{1,5})?")


class RegistrationServer(msgspec.Struct, frozen=True, kw_only=True):
    """[server], the part of registration."""

    registration_token: Secret | None = None
    """What `Authorization: Bearer` has at /register (RFC 7591 s3: an initial access token); without it only services register there."""
    registration_management: bool = False
    """Whether a registered client gets a token with which it reads, changes and deletes its registration (RFC 7592)."""

    def __post_init__(self) -> None:
        if self.registration_token is not None and len(self.registration_token.value) < LEAST_TOKEN:
            raise ValueError(f"registration_token: expected {LEAST_TOKEN} characters or more; openssl rand -base64 32 makes one")


class StatementIssuer(msgspec.Struct, frozen=True, kw_only=True):
    """[[registration.software_statement_issuers]]: whose word about a client counts."""

    issuer: str
    """The `iss` of its statements."""
    jwks_uri: str
    """The https URL of its keys."""

    def __post_init__(self) -> None:
        if not self.issuer:
            raise ValueError("issuer: expected the iss of its statements")
        if not self.jwks_uri.startswith("https://"):
            raise ValueError("jwks_uri: expected a URL that begins with https://")


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """[registration]: clients that nobody registered by hand."""

    scopes: tuple[str, ...] = ("openid", "profile", "email")
    """What a client may ask for that names no scopes."""
    resources: tuple[str, ...] = ()
    """The APIs for which these clients may get access tokens (RFC 8707): absolute URIs."""
    rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Registrations from one address in an hour; 0 switches the limit off."""
    max_clients: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 10_000
    """How many clients may have registered themselves here."""
    unused_ttl: int = 90 * DAY
    """Seconds without a token after which such a client is deleted: a day at least; 0 keeps it."""
    software_statement_issuers: tuple[StatementIssuer, ...] = ()
    """Whose software statements are believed (RFC 7591 s2.3); without any, statements are not looked at."""
    require_software_statement: bool = False
    """Whether a client has to bring one."""
    client_id_documents: bool = False
    """Whether the https URL of a client's metadata is a `client_id` (OAuth Client ID Metadata Document)."""
    client_id_hosts: tuple[str, ...] = ()
    """The hosts of such URLs, with their port where it is not 443; empty: any."""
    allow_private_client_id_hosts: bool = False
    """Whether such URLs may lead to addresses that are not public; for clients inside the organisation's own network."""

    def __post_init__(self) -> None:
        if self.unused_ttl and self.unused_ttl < DAY:
            raise ValueError(f"unused_ttl: expected 0, or {DAY} seconds or more")
        for resource in self.resources:
            if not urlsplit(resource).scheme or "#" in resource:
                raise ValueError("resources: expected absolute URIs without a fragment (RFC 8707 s2)")
        for host in self.client_id_hosts:
            if not _HOST.fullmatch(host):
                raise ValueError("client_id_hosts: expected host names in lower case, with a port or without")
        if self.require_software_statement and not self.software_statement_issuers:
            raise ValueError("require_software_statement: nobody is believed; add a [[registration.software_statement_issuers]]")
