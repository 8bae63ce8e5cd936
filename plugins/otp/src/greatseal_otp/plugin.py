"""The hooks of one-time codes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from greatseal import hookimpl
from greatseal.api.components import Component
from greatseal.api.declarations import EventType, Job, Owns, Reads, Schema
from greatseal.api.http import Route
from greatseal.api.identity import Authenticator
from greatseal.api.languages import Catalogue
from greatseal.api.services import DIRECTORIES, LOGIN, NOTICES, PAGES
from greatseal.host import Host
from greatseal_otp.settings import Look, OtpSettings
from greatseal_otp.tables import SCHEMA

if TYPE_CHECKING:
    import click

    from greatseal_otp.parts import Parts

SWEEP = 600.0
"""Seconds between two runs of the job."""


class Plugin:
    """One-time codes beside the password, and recovery codes."""

    requires = (DIRECTORIES, LOGIN, PAGES)
    uses = (NOTICES,)

    def __init__(self) -> None:
        self._parts: Parts | None = None

    def parts(self, host: Host) -> "Parts":
        """The parts, made when the first hook needs them."""
        if self._parts is None:
            from greatseal_otp.parts import Parts

            self._parts = Parts(host)
        return self._parts

    @hookimpl
    def settings(self) -> Sequence[Owns | Reads]:
        return [Owns("otp", OtpSettings), Reads("webui", Look)]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_otp")]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("otp_token_created", "idp", "A person made a one-time code token; detail is its id."),
            EventType("otp_token_confirmed", "idp", "The first code of a token was given: it must be used from now on; detail is its id."),
            EventType("otp_token_deleted", "idp", "A token was deleted; the principal is who did it, where that was not its person."),
            EventType("otp_device_remembered", "idp", "A browser is not asked for a code for some days; detail is its id."),
            EventType("otp_device_forgotten", "idp", "It is asked again: by its person, or since the password or the apps changed."),
            EventType("otp_locked", "idp", "A hundred wrong codes in a row: no code of the person is good until an administrator helps."),
            EventType("otp_recovery_codes_created", "idp", "A person made recovery codes; those before are worthless."),
            EventType("otp_recovery_code_used", "idp", "A recovery code was used in place of a code; detail says how many are left."),
        ]

    @hookimpl
    def authenticators(self, host: Host) -> Sequence[Authenticator[Any]]:
        return [self.parts(host).authenticator]

    @hookimpl
    def components(self, host: Host) -> Sequence[Component]:
        return self.parts(host).components

    @hookimpl
    def operations(self, host: Host) -> Sequence[Callable[..., Any]]:
        return self.parts(host).operations

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        return self.parts(host).routes

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return [Job(name="otp-tokens", every=SWEEP, run=self.parts(host).sweep, jitter=60.0)]

    @hookimpl
    def ctl(self) -> "Sequence[click.Command]":
        from greatseal_otp.ctl import COMMANDS

        return COMMANDS
