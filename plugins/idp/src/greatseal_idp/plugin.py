"""The identity provider's hooks."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from greatseal import hookimpl
from greatseal.api.clients import ClientAuthMethod
from greatseal.api.components import Component
from greatseal.api.declarations import Check, EventType, Job, Lifespan, Owns, PermissionName, Reads, Schema, ScopeDefinition
from greatseal.api.directory import Directory
from greatseal.api.http import AuthScheme, Discovery, Route
from greatseal.api.identity import Authenticator, LoginOptions
from greatseal.api.languages import Catalogue
from greatseal.api.messages import Message
from greatseal.api.pages import StartLine, StartPart
from greatseal.api.services import (
    AUTHORIZATIONS,
    CLIENTS,
    DIRECTORIES,
    FAMILIES,
    LOGIN,
    METADATA,
    NOTICES,
    PAGES,
    RESOLVER,
    TOKENS,
    ServiceKey,
)
from greatseal.api.tokens import ClaimsProvider, Grant
from greatseal.host import Host
from greatseal_idp import admin, extensions
from greatseal_idp.assembly import Assembly
from greatseal_idp.authorize import events as authorize
from greatseal_idp.claims import OWN
from greatseal_idp.clients import fields
from greatseal_idp.clients.health import ClientHealth
from greatseal_idp.discovery import MEMBERS
from greatseal_idp.pages.return_to import ACCOUNT
from greatseal_idp.rbac import unknown_permissions
from greatseal_idp.scopes import SYSTEM_SCOPES
from greatseal_idp.sessions import events as sessions
from greatseal_idp.sessions import ladder
from greatseal_idp.settings import IdpServer, OAuthSettings, Rbac, Rung, SessionSettings, TokenSettings, WebUi
from greatseal_idp.tables import SCHEMA
from greatseal_idp.token import events as token

if TYPE_CHECKING:
    import click


class Plugin:
    """The identity provider: OAuth 2.0 and OpenID Connect, sign-in, sessions, consent, administration."""

    uses = (NOTICES, RESOLVER)

    def __init__(self) -> None:
        self._assembly: Assembly | None = None

    def assembly(self, host: Host) -> Assembly:
        """The parts, made when the first hook needs them."""
        if self._assembly is None:
            self._assembly = Assembly(host)
        return self._assembly

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [
            Owns("server", IdpServer),
            Owns("session", SessionSettings),
            Owns("tokens", TokenSettings),
            Owns("oauth", OAuthSettings),
            Owns("rbac", Rbac),
            Owns("acr[]", Rung),
            Owns("webui", WebUi),
        ]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_idp")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def ctl(self) -> "Sequence[click.Command]":
        from greatseal_idp.ctl import COMMANDS

        return COMMANDS

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("client_created", "idp", "A client was made by the admin API."),
            EventType("client_registered", "idp", "A client registered itself."),
            EventType("client_updated", "idp", "A client was changed."),
            EventType("client_deleted", "idp", "A client was deleted, with its consents and refresh families."),
            EventType("scope_updated", "idp", "A custom scope was made or changed; detail is its name."),
            EventType("scope_deleted", "idp", "A custom scope was deleted; detail is its name."),
            EventType("key_rotated", "idp", "A new signing key became active."),
            EventType("key_revoked", "idp", "A signing key was revoked."),
            *sessions.EVENTS,
            *token.EVENTS,
            *authorize.EVENTS,
            *admin.AUDIT_EVENTS,
        ]

    @hookimpl
    def permissions(self) -> Sequence[PermissionName]:
        return admin.PERMISSIONS

    @hookimpl
    def scopes(self) -> Sequence[ScopeDefinition]:
        return SYSTEM_SCOPES

    @hookimpl
    def services(self, host: Host) -> Mapping[ServiceKey[Any], Callable[[], object]]:
        return {
            AUTHORIZATIONS: lambda: self.assembly(host).proposals,
            CLIENTS: lambda: self.assembly(host).clients,
            DIRECTORIES: lambda: self.assembly(host).directories,
            FAMILIES: lambda: self.assembly(host).families,
            LOGIN: lambda: self.assembly(host).login,
            METADATA: lambda: self.assembly(host).discovery,
            PAGES: lambda: self.assembly(host).pages,
            TOKENS: lambda: self.assembly(host).tokens,
        }

    @hookimpl
    def client_auth_methods(self, host: Host) -> Sequence[ClientAuthMethod[Any]]:
        return self.assembly(host).methods

    @hookimpl
    def auth_schemes(self, host: Host) -> Sequence[AuthScheme]:
        return self.assembly(host).schemes

    @hookimpl
    def grants(self, host: Host) -> Sequence[Grant[Any]]:
        return self.assembly(host).grants

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        return self.assembly(host).routes()

    @hookimpl
    def claims(self, host: Host) -> Sequence[ClaimsProvider]:
        return self.assembly(host).own_claims

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        return self.assembly(host).account_parts

    @hookimpl
    def discovery(self) -> Sequence[Discovery]:
        return [Discovery(document, partial(MEMBERS.__getitem__, document)) for document in MEMBERS]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        found = self.assembly(host).extensions.found
        return [*unknown_permissions(host), *ladder.problems(host), *fields.problems(host), *extensions.problems(host, found, OWN)]

    @hookimpl
    def start_page(self, host: Host) -> Sequence[StartPart]:
        return [StartPart(title=Message("Sign in"), lines=lambda: _start_lines(host.issuer))]

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            await self.assembly(host).open()
            if not (host.components(Authenticator) or host.components(LoginOptions)):
                host.log.warning("nobody can sign in here: enable a plugin with passwords, such as users-file, or other ways")
            if not host.components(Directory):
                host.log.warning("no directory knows any people: enable a plugin that has them, such as users-file")
            yield

        return [Lifespan(name="idp", open=opened)]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        return ClientHealth(host).checks()

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return self.assembly(host).jobs()


def _start_lines(issuer: str) -> list[StartLine]:
    return [
        StartLine(words=Message("Your account: who you are here, and what you allowed applications"), link=issuer + ACCOUNT),
        StartLine(words=Message("For applications, the issuer of OpenID Connect and OAuth 2.0:"), value=issuer),
        StartLine(words=Message("Its discovery document"), link=f"{issuer}/.well-known/openid-configuration"),
    ]
