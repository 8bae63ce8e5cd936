"""The configuration keys of the identity provider."""

from typing import Literal

import msgspec


class IdpServer(msgspec.Struct, frozen=True, kw_only=True):
    """[server], the identity provider's part."""

    jwt_signing_algorithm: Literal["ES256", "RS256"] = "ES256"
    """The algorithm of tokens; clients that ask for the other one get it."""
    auth_rate_limit: int = 30
    """Sign-in attempts from one address in 300 s, with ten requests each that may wait for them; 0 switches the limits off."""


class RealmSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[server], what the identity provider reads of it."""

    realm: str | None = None


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[session]: the browser session."""

    ttl: int = 28800
    """Seconds after which a session ends."""
    idle_ttl: int = 3600
    """Seconds without a request after which it ends."""


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[tokens]: lifetimes in seconds."""

    access_token_ttl: int = 900
    """Of access tokens."""
    refresh_grace_seconds: int = 0
    """How long the token before the current one may be presented again by the same client and gets the very same successor; 0 to 10."""
    id_token_ttl: int = 900
    """Of ID tokens."""
    code_ttl: int = 60
    """Of authorization codes."""
    par_ttl: int = 60
    """Of pushed authorization requests."""
    refresh_idle_ttl: int = 1209600
    """Without a use, a refresh family ends."""
    refresh_absolute_ttl: int = 7776000
    """A refresh family ends."""
    consent_ttl: int = 600
    """How long the consent page may be answered."""

    def __post_init__(self) -> None:
        if not 0 <= self.refresh_grace_seconds <= 10:
            raise ValueError(f"refresh_grace_seconds: {self.refresh_grace_seconds}: expected 0 to 10")


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[oauth]: protocol switches."""

    require_pkce: Literal["public", "all", "never"] = "public"
    """Which clients must use PKCE (RFC 7636); S256 alone is offered."""
    allow_private_use_schemes: bool = False
    """Whether redirect URIs may have a private-use scheme (RFC 8252 s7.1)."""
    allow_private_logout_hosts: bool = False
    """Whether back-channel logout notifications may go to addresses that are not public."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """[[rbac.role]]: who may do what in the admin API."""

    name: str
    permissions: tuple[str, ...] = ()
    """Permission names, `*`, or `<resource>:*`."""
    users: tuple[str, ...] = ()
    """Short names or name@REALM."""
    groups: tuple[str, ...] = ()


class Rbac(msgspec.Struct, frozen=True, kw_only=True):
    """[rbac]: roles of the admin API."""

    role: tuple[Role, ...] = ()
    """Roles; without any, every admin call is refused."""


class WebUi(msgspec.Struct, frozen=True, kw_only=True):
    """[webui]: how pages look. The keys belong to the management interface; the pages of the identity provider follow them without it."""

    logo_url: str | None = None
    """An image on every page."""
    default_theme: Literal["light", "dark"] | None = None
    """The theme of the pages; the browser's choice when left out."""
    display_name: str | None = None
    """What the service calls itself; the host of the issuer when left out."""
