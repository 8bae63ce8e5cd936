"""The configuration keys of upstream providers: `[[federation.upstream_idps]]`."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from greatseal.api.declarations import Secret

ClientAuth = Literal["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]
Endpoint = Literal["authorization_endpoint", "token_endpoint", "userinfo_endpoint", "emails_endpoint", "jwks_uri", "end_session_endpoint"]

OF_DIRECTORY = "ipa-"
"""How the ids of providers begin that a directory names."""
_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_URL = re.compile(r"https?://[!$-;=?-\[\]_a-z~]+")
_VALUE = re.compile(r"[\x21-\x7e]{1,256}")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,128}")
_DOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")
_REALM = re.compile(r"[A-Z0-9][A-Z0-9.-]{0,126}")
_OURS = frozenset(
    {
        "acr_values", "claims", "client_assertion", "client_id", "client_secret", "code_challenge", "code_challenge_method", "login_hint",
        "max_age", "nonce", "redirect_uri", "request", "request_uri", "response_mode", "response_type", "scope", "state",
    }
)  # fmt: skip
"""Parameters of an authorization request that this service sets itself."""
ENDPOINTS: tuple[Endpoint, ...] = (
    "authorization_endpoint",
    "token_endpoint",
    "userinfo_endpoint",
    "emails_endpoint",
    "jwks_uri",
    "end_session_endpoint",
)


class UpstreamTable(msgspec.Struct, frozen=True, kw_only=True):
    """[[federation.upstream_idps]]: a provider that people of this service may sign in with."""

    id: str
    """Its name in URLs and in the list of linked accounts: lower-case letters, digits and hyphens. It stays: links hang on it."""
    client_id: str
    """What this service is called there."""
    preset: Literal["google", "entra", "github", "gitlab", "keycloak", "okta"] | None = None
    """The kind of provider, where it is one of these: what is special about it is known then."""
    display_name: str | None = None
    """The words of its button; those of the preset when left out, else the id."""
    issuer: str | None = None
    """Its issuer, to the letter as its metadata has it; that of the preset when left out."""
    client_secret: Secret | None = None
    """The secret that was agreed on with it."""
    client_key: str | None = None
    """The private key by which this service proves itself there (`private_key_jwt`): a PEM file, or `<key store>:<key>`."""
    client_auth: ClientAuth | None = None
    """How this service proves itself; when left out by `client_key` or `client_secret`, as the provider's metadata allows."""
    scopes: tuple[str, ...] | None = None
    """What is asked for; `openid`, `email` and `profile` when left out and the preset says nothing else."""
    default_acr: str | None = None
    """The authentication class of a sign-in there, unless it is one of `acr_values`."""
    default_amr: tuple[str, ...] = ()
    """Authentication methods of a sign-in there, when the provider names none."""
    acr_values: tuple[str, ...] = ()
    """Authentication classes for which the provider's word counts. One that an application needs is asked for there."""
    assume_auth_time: bool = False
    """Whether the moment of the answer is taken as the moment of sign-in when the provider names none (`auth_time`). Whoever has an open
    session there then signs in anew by a click."""
    link_email_domains: tuple[str, ...] = ()
    """Domains of e-mail addresses that the provider may vouch for: a verified one links a new account there with the one person here
    who has it. Without any, nobody is linked by e-mail."""
    realm: str | None = None
    """The realm in which somebody who is not linked becomes a person of this service, at the first sign-in, such as
    `PARTNER.EXAMPLE`. When left out, nobody does."""
    username_claim: str | None = None
    """The claim of which the name of such a person is made; when left out that of the preset, else `preferred_username`."""
    groups_claim: str = "groups"
    """The claim that lists the groups of such a person there."""
    groups: Mapping[str, str] = {}
    """The group of this service for a group there, for such persons; all others are passed over."""
    require: Mapping[str, str] = {}
    """Claims that a person must have, with these texts, such as `hd = "example.org"` of Google."""
    tenants: tuple[str, ...] = ()
    """Of Microsoft Entra, where `issuer` is that of `organizations` or `common`: the ids of the tenants whose people may sign in."""
    parameters: Mapping[str, str] = {}
    """Further parameters of the authorization request, such as `prompt = "select_account"`."""
    end_session: bool = True
    """Whether who signs out here is sent there to sign out too, where the provider has a place for it."""
    self_service: bool = False
    """Whether people link accounts there with theirs by themselves, on the account page."""
    authorization_endpoint: str | None = None
    """Where browsers are sent; when left out that of the metadata or the preset."""
    token_endpoint: str | None = None
    """Where codes are redeemed; when left out that of the metadata or the preset."""
    userinfo_endpoint: str | None = None
    """Where claims are asked for; when left out that of the metadata or the preset."""
    emails_endpoint: str | None = None
    """Where e-mail addresses are asked for, as GitHub lists them; when left out that of the preset."""
    jwks_uri: str | None = None
    """Where its keys are; when left out that of the metadata."""
    end_session_endpoint: str | None = None
    """Where people sign out there; when left out that of the metadata."""
    allow_private_hosts: bool = False
    """Whether its endpoints may have addresses that are not public; for a provider inside the organisation's own network."""

    def __post_init__(self) -> None:
        if _ID.fullmatch(self.id) is None or self.id.startswith(OF_DIRECTORY):
            raise ValueError(f"id: expected lower-case letters, digits and hyphens, and not {OF_DIRECTORY}, which is of the directory")
        if not _VALUE.fullmatch(self.client_id):
            raise ValueError("client_id: expected visible ASCII")
        self._check_urls()
        self._check_proof()
        self._check_people()
        for key, values in (("acr_values", self.acr_values), ("default_amr", self.default_amr), ("scopes", self.scopes or ())):
            if not all(_SCOPE.fullmatch(value) for value in values):
                raise ValueError(f"{key}: expected words without blanks")
        if self.default_acr is not None and not _VALUE.fullmatch(self.default_acr):
            raise ValueError("default_acr: expected a word without blanks")
        if ours := sorted(_OURS & self.parameters.keys()):
            raise ValueError(f"parameters: {ours[0]} is set by this service itself")

    def _check_urls(self) -> None:
        issuer = self.issuer or presets()[self.preset or "keycloak"].get("issuer")
        if issuer is None:
            raise ValueError("issuer: expected the URL that the provider's metadata has as its issuer")
        check_url("issuer", issuer, query=False)
        for key in ENDPOINTS:
            if (url := getattr(self, key)) is not None:
                check_url(key, url, query=True)
        if self.tenants and self.preset != "entra":
            raise ValueError('tenants: for preset = "entra" alone')

    def _check_proof(self) -> None:
        if self.client_secret is not None and self.client_key is not None:
            raise ValueError("client_secret and client_key: expected one of them")
        if self.client_auth == "private_key_jwt" and self.client_key is None:
            raise ValueError("client_key: private_key_jwt needs it")
        if self.client_auth in {"client_secret_basic", "client_secret_post"} and self.client_secret is None:
            raise ValueError(f"client_secret: {self.client_auth} needs it")

    def _check_people(self) -> None:
        if not all(_DOMAIN.fullmatch(domain) for domain in self.link_email_domains):
            raise ValueError('link_email_domains: expected domains in lower case, such as "example.org"')
        if self.realm is not None and _REALM.fullmatch(self.realm) is None:
            raise ValueError("realm: expected capitals, digits, dots and hyphens, such as PARTNER.EXAMPLE")
        if self.groups and self.realm is None:
            raise ValueError("groups: for people whom the provider makes, which realm switches on; others have those of their directory")


class FederationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[federation]: with whom else people may sign in."""

    upstream_idps: tuple[UpstreamTable, ...] = ()
    """Upstream providers, in the order of their buttons."""
    allow_private_hosts: bool = False
    """Whether providers that a directory names may have addresses that are not public."""
    assume_auth_time: tuple[str, ...] = ()
    """Ids of providers that a directory names, such as `ipa-github`, to which `assume_auth_time` applies."""

    def __post_init__(self) -> None:
        if not all(id.startswith(OF_DIRECTORY) for id in self.assume_auth_time):
            raise ValueError(f"assume_auth_time: expected ids that begin with {OF_DIRECTORY}; other providers have it in their table")
        ids = [one.id for one in self.upstream_idps]
        if twice := sorted({id for id in ids if ids.count(id) > 1}):
            raise ValueError(f"upstream_idps: the id {twice[0]!r} is there twice")


class StartLimit(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the limit of sign-ins, by which their beginnings are limited too."""

    auth_rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 30
    """Sign-in attempts from one address in 300 s; 0 switches the limits off."""


@cache
def presets() -> Mapping[str, Mapping[str, Any]]:
    """What is special about each kind of provider (presets.toml)."""
    return tomllib.loads(resources.files("greatseal_federation").joinpath("presets.toml").read_text("utf-8"))


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine by its name: where http will do, for trials."""
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "127.0.0.1", "::1"} or host.endswith(".localhost")


def check_url(key: str, url: str, *, query: bool) -> None:
    """Raise ValueError unless it is an https URL, or an http one of this machine, without user and fragment."""
    try:
        parts = urlsplit(url)
        plain = parts.username is None and not parts.fragment and (query or not parts.query) and bool(parts.hostname)
        parts.port  # noqa: B018  # raises for one that is no number
    except ValueError:
        plain = False
    if not plain or not _URL.fullmatch(url) or not (url.startswith("https:") or is_loopback(url)):
        raise ValueError(f"{key}: expected an https:// URL without user, {'' if query else 'query, '}fragment and blanks")
