"""The hooks of OpenID Federation."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.clients import ClientAuthMethod, ClientResolver
from greatseal.api.declarations import Check, EventType, Lifespan, Owns, Placement
from greatseal.api.http import Discovery, Route
from greatseal.api.services import CLIENTS, METADATA, RESOLVER
from greatseal.host import Host
from greatseal.jose.keysets import read_key_set
from greatseal_openid_federation.clients import METHOD, FederationClients
from greatseal_openid_federation.health import FederationHealth
from greatseal_openid_federation.keys import EntityKeys
from greatseal_openid_federation.marks import TrustMarks
from greatseal_openid_federation.publishing import EntityDocuments
from greatseal_openid_federation.requests import AutomaticRegistration, opens_requests
from greatseal_openid_federation.resolution import Federation
from greatseal_openid_federation.routes import KeysAdmin
from greatseal_openid_federation.settings import EntitySettings

if TYPE_CHECKING:
    import click


class Plugin:
    """What this service is in federations, and the clients that they bring."""

    requires = (CLIENTS, METADATA, RESOLVER)

    def __init__(self) -> None:
        self._keys: EntityKeys | None = None
        self._federation: Federation | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("federation", EntitySettings)]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("entity_key_made", "idp", "A federation key was made; detail has its kid."),
            EventType("entity_key_revoked", "idp", "A federation key was revoked; detail has its kid."),
        ]

    @hookimpl
    def ctl(self) -> "Sequence[click.Command]":
        from greatseal_openid_federation.ctl import COMMANDS

        return COMMANDS

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        documents = EntityDocuments(host, host.service(METADATA), self.keys(host), _marks(host), host.settings(EntitySettings))
        return [*documents.routes(), *KeysAdmin(host, self.keys(host)).routes()]

    @hookimpl
    def client_resolvers(self, host: Host) -> Sequence[ClientResolver]:
        if not _registers(host):
            return []
        return [FederationClients(host, host.service(CLIENTS), self.federation(host), host.settings(EntitySettings).client_scopes)]

    @hookimpl
    def extensions(self, host: Host) -> Sequence[Extension[Any]]:
        return [AutomaticRegistration(host)] if _registers(host) else []

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        def members() -> dict[str, object]:
            """How a client of a federation is registered (OpenID Federation s5.1.3)."""
            return {"client_registration_types_supported": ["automatic"]} if _registers(host) else {}

        return [Discovery("oauth", members), Discovery("openid", members)]

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            await self.keys(host).open()
            yield

        return [Lifespan(name="openid-federation", open=opened, placement=Placement.NODE)]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        return FederationHealth(host, self.federation(host), self.keys(host), _marks(host)).checks()

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        settings = host.settings(EntitySettings)
        wrong = []
        if host.issuer in (*settings.authority_hints, *(one.entity_id for one in settings.trust_anchors)):
            wrong.append("[federation] authority_hints, trust_anchors: this service is no superior of itself; take it out")
        if settings.trust_anchors and METHOD not in host.components(ClientAuthMethod):
            wrong.append(f"[federation] trust_anchors: clients of a federation prove themselves by {METHOD}; enable client-auth-jwt")
        return wrong

    @hookimpl
    def notes(self, host: Host) -> Sequence[str]:
        if not _registers(host) or opens_requests(host):
            return []
        return ["clients of a federation can push their requests alone, for signed ones the plugin jar is needed"]

    def keys(self, host: Host) -> EntityKeys:
        """The federation keys."""
        if self._keys is None:
            self._keys = EntityKeys(host)
        return self._keys

    def federation(self, host: Host) -> Federation:
        """What finds trust chains."""
        if self._federation is None:
            settings = host.settings(EntitySettings)
            anchors = {one.entity_id: read_key_set(one.jwks) for one in settings.trust_anchors}
            self._federation = Federation(host, host.service(RESOLVER), anchors, allow_private=settings.allow_private_entity_hosts)
        return self._federation


def _registers(host: Host) -> bool:
    settings = host.settings(EntitySettings)
    return settings.entity_enabled and bool(settings.trust_anchors)


def _marks(host: Host) -> TrustMarks:
    return TrustMarks(host, host.settings(EntitySettings).trust_marks)
