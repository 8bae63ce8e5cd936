"""Passkeys' hooks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import Check, EventType, Lifespan, Owns, Reads, Schema
from greatseal.api.http import Call, Discovery, Handler, Reply, Route
from greatseal.api.identity import LoginOptions
from greatseal.api.languages import Catalogue
from greatseal.api.problems import Problem
from greatseal.api.services import DIRECTORIES, LOGIN, NOTICES, PAGES
from greatseal.host import Host
from greatseal_passkey.local import LocalPasskeys
from greatseal_passkey.settings import IpaPasskeys, Look, PasskeyLimit, PasskeySettings, problems, relying_party
from greatseal_passkey.tables import SCHEMA

if TYPE_CHECKING:
    import click

    from greatseal_passkey.assembly import Assembly

OFF = (
    ("POST", "/api/auth/passkey/begin"),
    ("POST", "/api/auth/passkey/complete"),
    ("POST", "/api/auth/passkey/register/begin"),
    ("POST", "/api/auth/passkey/register/complete"),
    ("GET", "/api/auth/passkeys"),
    ("PUT", "/api/auth/passkeys/{id}"),
    ("DELETE", "/api/auth/passkeys/{id}"),
)
"""What says that passkeys are off."""


class NotConfigured(Problem):
    """Passkeys are off."""

    status, error = 501, "not_implemented"


class Plugin:
    """Sign-in with passkeys (WebAuthn Level 3)."""

    requires = (DIRECTORIES, LOGIN, PAGES)
    uses = (NOTICES,)

    def __init__(self) -> None:
        self._assembly: Assembly | None = None

    def assembly(self, host: Host) -> "Assembly | None":
        """The parts, made when the first hook needs them; None where passkeys are off, and nothing is imported."""
        party = relying_party(host)
        if self._assembly is None and party is not None:
            from greatseal_passkey.assembly import Assembly

            self._assembly = Assembly(host, party)
        return self._assembly

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("passkey", PasskeySettings), Owns("ipa", IpaPasskeys), Reads("server", PasskeyLimit), Reads("webui", Look)]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_passkey")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("passkey_registered", "idp", "A person registered a passkey; detail has the beginning of its id."),
            EventType("passkey_renamed", "idp", "A person gave a passkey another name; detail has the beginning of its id."),
            EventType("passkey_deleted", "idp", "A passkey was deleted; detail has the beginning of its id."),
            EventType("passkey_refused", "idp", "A person tried to register a device that may not be used here; detail says why."),
            EventType(
                "passkey_suspected", "idp", "The signature counter of a passkey went back: there may be a copy. Nobody was signed in."
            ),
        ]

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        assembly = self.assembly(host)
        return [LocalPasskeys(host), *(() if assembly is None else assembly.components)]

    @hookimpl
    def login_options(self, host: Host) -> Sequence[LoginOptions]:
        assembly = self.assembly(host)
        return [] if assembly is None else [assembly.option]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        assembly = self.assembly(host)
        if assembly is not None:
            return assembly.routes()
        off = Handler("passkeys are off, for everybody")
        return [Route(method, path, _off, auth=off, summary="Passkeys are off.") for method, path in OFF]

    @hookimpl
    def ctl(self) -> "Sequence[click.Command]":
        from greatseal_passkey.ctl import COMMANDS

        return COMMANDS

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        return [Discovery("features", lambda: {"passkey": relying_party(host) is not None})]

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        if found := problems(host):
            return found
        assembly = self.assembly(host)
        return [] if assembly is None or assembly.health is None else assembly.health.problems()

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        assembly = self.assembly(host)
        return [] if assembly is None or assembly.health is None else [Check(name="passkey models", run=assembly.health.run, ready=False)]

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        assembly = self.assembly(host)

        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            if assembly is None:
                host.log.warning("passkeys are off: set [passkey] rp_id, or [ipa] passkey_rp_id, to the domain that they are made for")
            else:
                await assembly.open()
            yield

        return [Lifespan(name="passkey", open=opened)]


async def _off(_call: Call) -> Reply:
    raise NotConfigured("passkeys are not configured here")
