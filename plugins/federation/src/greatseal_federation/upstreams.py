"""The providers: those of the configuration, and those that a directory names."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.messages import Message
from greatseal.api.problems import NotFound
from greatseal.api.upstreams import NamedUpstream, UpstreamSource
from greatseal.host import Host
from greatseal_federation.settings import ENDPOINTS, ClientAuth, Endpoint, FederationSettings, UpstreamTable, presets

TENANT = "{tenantid}"
"""What stands in the issuer of metadata that are those of many tenants."""
SCOPES = ("openid", "email", "profile")


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """One provider, with all that is known of it before it is asked. ``discovers`` tells whether it has metadata.

    ``again`` is the value of ``prompt`` with which it asks people again, where that is not ``login``.
    """

    id: str
    display_name: str
    issuer: str
    client_id: str
    scopes: tuple[str, ...]
    source: str = "config"
    protocol: Literal["openid", "oauth"] = "openid"
    discovers: bool = True
    endpoints: Mapping[Endpoint, str] = {}
    client_secret: Secret | None = None
    client_key: str | None = None
    client_auth: ClientAuth | None = None
    assertion_audience: Literal["issuer", "token_endpoint"] = "issuer"
    default_acr: str | None = None
    default_amr: tuple[str, ...] = ()
    acr_values: tuple[str, ...] = ()
    assume_auth_time: bool = False
    again: str | None = None
    also_issuers: tuple[str, ...] = ()
    tenant_claim: str | None = None
    tenants: tuple[str, ...] = ()
    require: Mapping[str, str] = {}
    parameters: Mapping[str, str] = {}
    subject_claim: str = "sub"
    username_claim: str = "preferred_username"
    groups_claim: str = "groups"
    groups: Mapping[str, str] = {}
    link_email_domains: tuple[str, ...] = ()
    realm: str | None = None
    end_session: bool = True
    self_service: bool = False
    allow_private_hosts: bool = False

    @property
    def callback_path(self) -> str:
        """Below the issuer of this service."""
        return f"/internal/callback/{self.id}"


class Upstreams:
    """Finds them by id."""

    def __init__(self, host: Host) -> None:
        self._host = host
        settings = host.settings(FederationSettings)
        self._configured = {table.id: configured(table) for table in settings.upstream_idps}
        self._private = settings.allow_private_hosts
        self._assumed = settings.assume_auth_time
        self._made: dict[int, tuple[NamedUpstream, Upstream]] = {}
        """What was made of a provider of a source, by the identity of what that gave."""

    def all(self) -> Sequence[Upstream]:
        """Those of the configuration first."""
        return (*self._configured.values(), *self.named())

    def named(self) -> Sequence[Upstream]:
        """Those that sources name, as they were read last."""
        found = {id(one): (one, name) for name, source in self._sources().items() for one in source.upstreams() if is_usable(one)}
        self._made = {key: self._made.get(key) or (one, self._of_source(one, name)) for key, (one, name) in found.items()}
        return tuple(made for _, made in self._made.values() if made.id not in self._configured)

    def _of_source(self, named: NamedUpstream, source: str) -> Upstream:
        return of_source(named, source, private=self._private, assumed=named.id in self._assumed)

    def find(self, id: str) -> Upstream | None:
        """The provider of an id, None when there is none now."""
        return self._configured.get(id) or next((one for one in self.named() if one.id == id), None)

    def source(self, upstream: Upstream) -> UpstreamSource:
        """Who named a provider that is none of the configuration."""
        return self._sources()[upstream.source]

    def _sources(self) -> Mapping[str, UpstreamSource]:
        return self._host.components(UpstreamSource)

    def get(self, id: str) -> Upstream:
        """As :meth:`find`. Raises NotFound."""
        found = self.find(id)
        if found is None:
            raise NotFound(Message("this service has no such provider"))
        return found


def configured(table: UpstreamTable) -> Upstream:
    """What the configuration says, and what the preset does where it is silent."""
    preset = presets()[table.preset] if table.preset is not None else {}
    given = {name: getattr(table, name) for name in Upstream.__struct_fields__ if name in UpstreamTable.__struct_fields__}
    known: dict[str, Any] = {**preset, **{name: value for name, value in given.items() if value is not None}}
    sent = known.pop("sent", ())
    endpoints = {name: url for name in ENDPOINTS if (url := getattr(table, name) or known.pop(name, None)) is not None}
    for name in ENDPOINTS:
        known.pop(name, None)
    asked = {name: table.require[name] for name in sent if name in table.require}
    known["scopes"] = tuple(known.get("scopes") or SCOPES)
    known["display_name"] = known.get("display_name") or table.id
    known["also_issuers"] = tuple(known.get("also_issuers", ()))
    return Upstream(
        **{**known, "endpoints": endpoints, "parameters": {**asked, **table.parameters}, "discovers": known.get("protocol") != "oauth"}
    )


def is_usable(named: NamedUpstream) -> bool:
    """Whether a browser can be sent there: by metadata, or with all that is needed without."""
    return bool(named.issuer or (named.authorization_endpoint and named.token_endpoint and named.userinfo_endpoint))


def of_source(named: NamedUpstream, source: str, *, private: bool, assumed: bool) -> Upstream:
    """What a source says. Without an issuer nothing tells what an ID token must say: userinfo says who somebody is."""
    openid = named.issuer is not None
    origin = urlsplit(named.authorization_endpoint or "")
    endpoints: dict[Endpoint, str] = {} if openid else {name: url for name in ENDPOINTS if (url := getattr(named, name, None)) is not None}
    return Upstream(
        id=named.id,
        display_name=named.display_name,
        issuer=named.issuer or f"{origin.scheme}://{origin.netloc}",
        client_id=named.client_id,
        scopes=named.scopes or SCOPES,
        source=source,
        protocol="openid" if openid else "oauth",
        discovers=openid,
        endpoints=endpoints,
        client_secret=named.client_secret,
        client_auth=None if openid or named.client_secret is None else "client_secret_post",
        default_acr=named.default_acr,
        default_amr=named.default_amr,
        assume_auth_time=assumed,
        subject_claim=named.subject_claim,
        allow_private_hosts=private,
    )
