"""The configuration keys of tkauth-01."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from greatseal.jose.keysets import read_key_set


class AuthorityTable(msgspec.Struct, frozen=True, kw_only=True):
    """[[tkauth.authorities]]: an authority whose tokens are taken."""

    issuer: str
    """The `iss` of its tokens, to the letter."""
    jwks_uri: str | None = None
    """Where its keys are, an https URL; this or `jwks`."""
    jwks: Mapping[str, Any] | None = None
    """Its public keys themselves, as a JWK Set."""
    token_authority: str | None = None
    """Where clients get its tokens, an https URL: shown in the challenge (RFC 9447 s3). The first authority that has one is shown."""
    max_lifetime: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 3600
    """Seconds that one of its tokens may live."""

    def __post_init__(self) -> None:
        if not self.issuer.strip():
            raise ValueError("issuer: expected the iss of the authority's tokens")
        if (self.jwks_uri is None) == (self.jwks is None):
            raise ValueError("jwks_uri or jwks: expected one of them")
        for key, url in (("jwks_uri", self.jwks_uri), ("token_authority", self.token_authority)):
            if url is not None:
                _check_url(key, url)
        if self.jwks is not None:
            try:
                read_key_set(self.jwks)
            except ValueError as error:
                raise ValueError(f"jwks: {error}") from None


class TkauthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[tkauth]: who may say which claim constraints an account gets."""

    authorities: tuple[AuthorityTable, ...] = ()
    """Trusted authorities; without any, the challenge type and its identifiers are not offered."""
    allow_private_jwks_hosts: bool = False
    """Whether a jwks_uri may lead to a private address; for an authority inside the organisation's own network."""

    def __post_init__(self) -> None:
        names = [one.issuer for one in self.authorities]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"authorities: {twice[0]!r} is there twice")


def _check_url(key: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises for one that is no number
        whole = parts.scheme == "https" and bool(parts.hostname) and parts.username is None and not parts.fragment
    except ValueError:
        whole = False
    if not whole or not url.isascii() or any(character.isspace() for character in url):
        raise ValueError(f"{key}: expected an https:// URL without user, fragment and blanks")
