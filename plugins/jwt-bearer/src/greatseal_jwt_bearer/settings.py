"""The configuration keys of trusted issuers: `[[jwt_bearer.issuers]]`."""

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from greatseal.jose.keysets import read_key_set

_SUBJECT = re.compile(r"username|map|workload|claim:[\x21-\x7e]{1,100}")
_HTTPS = re.compile(r"https://[!$-\[\]-~]+")
_WORKLOAD = re.compile(r"[^*]+\*?")


class IssuerTable(msgspec.Struct, frozen=True, kw_only=True):
    """[[jwt_bearer.issuers]]: an issuer whose tokens say who somebody is."""

    issuer: str
    """The `iss` of its tokens, to the letter: an https URL."""
    subject: str
    """Whom its tokens mean: `"username"` (`sub` is a name in the directory), `"claim:<name>"` (that claim is one), `"map"`
    (`people` says it) or `"workload"` (no person: a program, one of `workloads`)."""
    jwks_uri: str | None = None
    """Where its keys are, an https URL; this or `jwks`."""
    jwks: Mapping[str, Any] | None = None
    """Its public keys themselves, as a JWK Set: for an issuer that this service cannot reach."""
    people: Mapping[str, str] = {}
    """For `subject = "map"`: the username for each `sub`; all others are refused."""
    workloads: tuple[str, ...] = ()
    """For `subject = "workload"`: each `sub` that may come; one that ends in `*` stands for all that begin so."""
    require: Mapping[str, str] = {}
    """Claims that a token must have, with these texts."""
    audiences: tuple[str, ...] = ()
    """What `aud` may name instead of the issuer or token endpoint of this service."""
    scopes: tuple[str, ...] | None = None
    """The scopes that a token for a subject of the issuer may have; those of the client when left out."""
    clients: tuple[str, ...] | None = None
    """The ids of the clients that may bring its tokens; every client with the grant when left out."""
    max_lifetime: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 3600
    """Seconds that one of its tokens may live."""

    def __post_init__(self) -> None:
        _check_url("issuer", self.issuer, query=False)
        if (self.jwks_uri is None) == (self.jwks is None):
            raise ValueError("jwks_uri or jwks: expected one of them")
        if self.jwks_uri is not None:
            _check_url("jwks_uri", self.jwks_uri, query=True)
        if self.jwks is not None:
            _check_keys(self.jwks)
        self._check_subject()

    def _check_subject(self) -> None:
        if not _SUBJECT.fullmatch(self.subject):
            raise ValueError('subject: expected "username", "claim:<name>", "map" or "workload"')
        if bool(self.people) != (self.subject == "map"):
            raise ValueError('people: given for subject = "map", and for no other')
        if bool(self.workloads) != (self.subject == "workload"):
            raise ValueError('workloads: given for subject = "workload", and for no other; an issuer may vouch for programs of anybody')
        if not all(map(_WORKLOAD.fullmatch, self.workloads)):
            raise ValueError("workloads: expected subjects, with * at their end at most, and more than *")


class BearerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[jwt_bearer]: who else may say who somebody is."""

    issuers: tuple[IssuerTable, ...] = ()
    """Trusted issuers; without any, no assertion is taken."""

    def __post_init__(self) -> None:
        names = [one.issuer for one in self.issuers]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"issuers: {twice[0]!r} is there twice")


class JwksSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[oauth], the part for keys behind URLs."""

    allow_private_jwks_hosts: bool = False
    """Whether a client's jwks_uri may lead to a private address; for clients inside the organisation's own network."""


def _check_url(key: str, url: str, *, query: bool) -> None:
    try:
        parts = urlsplit(url)
        plain = parts.username is None and not parts.fragment and (query or not parts.query) and bool(parts.hostname)
        parts.port  # noqa: B018  # raises for one that is no number
    except ValueError:
        plain = False
    if not plain or not _HTTPS.fullmatch(url):
        raise ValueError(f"{key}: expected an https:// URL without user, {'' if query else 'query, '}fragment and blanks")


def _check_keys(jwks: Mapping[str, Any]) -> None:
    try:
        read_key_set(jwks)
    except ValueError as error:
        raise ValueError(f"jwks: {error}") from None
