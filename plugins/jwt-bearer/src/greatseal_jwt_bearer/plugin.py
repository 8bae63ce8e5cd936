"""Assertions of trusted issuers (RFC 7523 s2.1)."""

from collections.abc import Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.components import Component
from greatseal.api.declarations import EventType, Owns, Reads
from greatseal.api.services import DIRECTORIES, RESOLVER, TOKENS
from greatseal.api.tokens import Grant
from greatseal.host import Host
from greatseal.net import RemoteKeys
from greatseal_jwt_bearer.grant import JwtBearer
from greatseal_jwt_bearer.issuers import ConfiguredIssuer
from greatseal_jwt_bearer.registration import Bearers
from greatseal_jwt_bearer.settings import BearerSettings, JwksSettings


class Plugin:
    """Tokens for whom another issuer vouches."""

    requires = (DIRECTORIES, RESOLVER, TOKENS)

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("jwt_bearer", BearerSettings), Reads("oauth", JwksSettings)]

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        allow_private = host.settings(JwksSettings).allow_private_jwks_hosts
        keys = RemoteKeys(host.service(RESOLVER), host.clock, allow_private=allow_private)
        directories = host.service(DIRECTORIES)
        return [ConfiguredIssuer(table, host, keys, directories) for table in host.settings(BearerSettings).issuers]

    @hookimpl
    def grants(self, host: Host) -> Sequence[Grant[Any]]:
        return [JwtBearer(host, host.service(TOKENS))]

    @hookimpl
    def extensions(self) -> Sequence[Extension[Any]]:
        return [Bearers()]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType(
                "jwt_bearer", "idp", "A client brought an assertion of a trusted issuer; sub is its subject there, principal the one here."
            ),
            EventType("jwt_bearer_failure", "idp", "A client brought an assertion that is not good; detail says why."),
        ]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        if any(one.issuer == host.issuer for one in host.settings(BearerSettings).issuers):
            return ["[jwt_bearer] issuers: this service is among them; its own tokens are exchanged by the plugin token-exchange"]
        return []
