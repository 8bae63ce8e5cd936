"""The hooks of upstream providers."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import Check, EventType, Job, Lifespan, Owns, PermissionName, Reads, Schema
from greatseal.api.directory import Directory
from greatseal.api.http import Discovery, Route
from greatseal.api.identity import LoginOptions
from greatseal.api.languages import Catalogue
from greatseal.api.services import AUTHORIZATIONS, DIRECTORIES, LOGIN, NOTICES, PAGES, RESOLVER
from greatseal.api.tokens import ClaimsProvider
from greatseal.host import Host
from greatseal_federation.people import FederatedClaims, FederatedPeople
from greatseal_federation.settings import FederationSettings, StartLimit
from greatseal_federation.tables import SCHEMA

if TYPE_CHECKING:
    import click

    from greatseal_federation.assembly import Assembly

CARRY_ON = 60.0
"""Seconds between two runs of the job."""


class Plugin:
    """Sign-in through other OpenID providers."""

    requires = (AUTHORIZATIONS, DIRECTORIES, LOGIN, PAGES)
    uses = (NOTICES, RESOLVER)

    def __init__(self) -> None:
        self._assembly: Assembly | None = None

    def assembly(self, host: Host) -> "Assembly":
        """The parts, made when the first hook needs them."""
        if self._assembly is None:
            from greatseal_federation.assembly import Assembly

            self._assembly = Assembly(host)
        return self._assembly

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("federation", FederationSettings), Reads("server", StartLimit)]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_federation")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def permissions(self) -> Sequence[PermissionName]:
        return [
            PermissionName("federation:read", "See upstream providers and linked accounts."),
            PermissionName("federation:write", "Link and unlink accounts of upstream providers, and say what their sign-ins count for."),
        ]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("federated_account_linked", "idp", "An account of another provider became a person's; detail has provider and sub."),
            EventType("federated_account_unlinked", "idp", "The link of an account was deleted; its sessions end."),
            EventType("federated_account_disabled", "idp", "A linked account was switched off; its sessions end."),
            EventType("backchannel_logout_in", "idp", "A provider said that somebody signed out there; detail says whose sessions ended."),
            EventType("frontchannel_logout_in", "idp", "A page of a provider said so; detail says whose sessions ended."),
            EventType("ipa_idp_acr_updated", "idp", "What sign-ins at a provider of the directory count for was changed; detail is JSON."),
            EventType("federated_account_enabled", "idp", "A linked account was switched on again."),
        ]

    @hookimpl
    def ctl(self) -> "Sequence[click.Command]":
        from greatseal_federation.ctl import COMMANDS

        return COMMANDS

    @hookimpl
    def directories(self, host: Host) -> Sequence[Directory]:
        return [FederatedPeople(host, realm) for realm in _realms(host)]

    @hookimpl
    def claims(self, host: Host) -> Sequence[ClaimsProvider]:
        realms = _realms(host)
        return [FederatedClaims(host, realms)] if realms else []

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        return self.assembly(host).components

    @hookimpl
    def login_options(self, host: Host) -> Sequence[LoginOptions]:
        return [self.assembly(host).options]

    @hookimpl
    def operations(self, host: Host) -> Sequence[Callable[..., Any]]:
        return [self.assembly(host).mapping.take_name]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        return self.assembly(host).routes

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        return [Discovery("features", lambda: {"federation": bool(self.assembly(host).upstreams.all())})]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        return [
            f"[[federation.upstream_idps]] {one.id}: realm is that of this service, {host.realm}, whose people others know: choose another"
            for one in host.settings(FederationSettings).upstream_idps
            if one.realm is not None and one.realm == host.realm.upper()
        ]

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            made = self.assembly(host)
            await made.proofs.open(made.upstreams.all())
            yield

        return [Lifespan(name="federation", open=opened)]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        return [Check(name="federation", run=self.assembly(host).check.run, ready=False)]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return [Job(name="federation-sessions", every=CARRY_ON, run=self.assembly(host).sessions.carry_on)]


def _realms(host: Host) -> Sequence[str]:
    """In which providers make people."""
    found = (one.realm for one in host.settings(FederationSettings).upstream_idps)
    return tuple(dict.fromkeys(realm for realm in found if realm is not None))
