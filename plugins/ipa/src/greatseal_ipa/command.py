"""``greatseal ipa setup``: what a FreeIPA server must know of this service, and what of it is missing."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from greatseal.api import kerberos
from greatseal.api.problems import StartProblem, Unavailable
from greatseal.api.services import NEGOTIATE
from greatseal.command import command
from greatseal.host import Host
from greatseal_ipa.settings import Keytab

if TYPE_CHECKING:
    from greatseal_ipa.library import Link, Outcome
    from greatseal_ipa.plugin import Plugin
    from greatseal_ipa.setup import Step, Wanted


@click.group("ipa")
def ipa() -> None:
    """The FreeIPA server beside which the service runs."""


@command(ipa, "setup", feature="ipa", writes=False, store=False)
@click.option("--apply", "applied", is_flag=True, help="Make what is missing.")
@click.option(
    "--admin-dn", metavar="DN", help="Who looks and changes; the password is asked for. Left out: the owner of your Kerberos ticket."
)
@click.option("--client-id", metavar="ID", help="The client here that FreeIPA is to use: a public one with the device flow.")
async def setup(_: "Plugin", host: Host, applied: bool, admin_dn: str | None, client_id: str | None) -> None:
    """Look whether FreeIPA has what the service needs, and say the command for each thing that is missing."""
    from greatseal_ipa.assembly import Assembly, problems
    from greatseal_ipa.library import Refused, Unusable
    from greatseal_ipa.setup import Setup

    # First: no password of an administrator goes to a server that the service itself would refuse.
    if wrong := problems(host):
        raise StartProblem(*wrong)
    made = Assembly(host)
    if made.settings.schema != "freeipa":
        raise StartProblem(f'this is for a FreeIPA server, and [ipa] schema is "{made.settings.schema}"')
    wanted = _wanted(host, made.reader.schema.base_dn, client_id)
    bind = _by_ticket() if admin_dn is None else _by_password(admin_dn)

    def look(link: "Link", outcome: "Outcome") -> None:
        if not outcome.ok:
            raise StartProblem(f"the directory does not take who you are: {outcome.message or outcome.code}")
        try:
            missing = sum(not _is_there(step, applied=applied) for step in Setup(wanted, link).steps())
        except (Refused, Unusable) as error:
            raise StartProblem(f"the directory cannot be looked at: {error}") from None
        if missing:
            raise StartProblem(f"{missing} missing: do what is said above{'' if applied else ', or run this with --apply'}")

    try:
        await made.pool.as_other(bind, look)
    finally:
        made.pool.close()


def _wanted(host: Host, suffix: str, client_id: str | None) -> "Wanted":
    from greatseal_ipa.setup import Wanted

    in_force = host.configuration()
    return Wanted(
        base_url=host.base_url,
        host=(urlsplit(host.base_url).hostname or "").lower(),
        realm=host.realm,
        suffix=suffix,
        keytab=host.settings(Keytab).keytab_file,
        unusable=partial(_unusable, host.optional_service(NEGOTIATE)),
        # A section has its keys where its feature is enabled.
        codes="otp" in in_force,
        passkeys="passkey" in in_force and bool(in_force.get("ipa", {}).get("passkey_rp_id") or in_force["passkey"].get("rp_id")),
        client_id=client_id,
    )


def _unusable(negotiator: kerberos.Negotiator | None) -> str:
    state = kerberos.NotConfigured() if negotiator is None else negotiator.state
    if isinstance(state, kerberos.Ready):
        return ""
    nobody = "tickets are not accepted: enable the plugin gssapi, and write [gssapi]"
    return state.reason if isinstance(state, kerberos.Unusable) else nobody


def _by_ticket() -> "Callable[[Link], Outcome]":
    if find_spec("gssapi") is None:
        raise StartProblem("a Kerberos ticket needs greatseal-gssapi: install it, or name an entry with --admin-dn")
    from greatseal_ipa.library import NoTicket

    def bind(link: "Link") -> "Outcome":
        try:
            return link.bind_gssapi(None)
        except NoTicket as none:
            # Whoever types this has one ticket for all servers: none of the others is tried.
            raise Unavailable(f"{none}; or name an entry with --admin-dn") from none

    return bind


def _by_password(dn: str) -> "Callable[[Link], Outcome]":
    password: str = click.prompt(f"Password of {dn}", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not password:
        raise StartProblem("the password is empty, and that is nobody's")
    return lambda link: link.bind(dn, password)


def _is_there(step: "Step", *, applied: bool) -> bool:
    """Whether the step is there in the end. Raises StartProblem when it cannot be made: the next ones build on it."""
    if step.there:
        click.echo(f"ok       {step.name}")
        return True
    if not applied or not (step.make or step.run):
        click.echo("\n         ".join((f"missing  {step.name}", *step.commands, *([step.why] if step.why else []))))
        return False
    if step.make:
        _check(step, step.make())
    else:
        _run(step)
    click.echo(f"made     {step.name}")
    return True


def _check(step: "Step", outcomes: "Sequence[Outcome]") -> None:
    from greatseal_ipa.setup import ALREADY

    for outcome in outcomes:
        if not outcome.ok and outcome.code not in ALREADY:
            raise StartProblem(f"{step.name}: the directory refuses it: {outcome.message or outcome.code}")


def _run(step: "Step") -> None:
    try:
        done = subprocess.run(step.run, check=False)  # noqa: S603  # a program of FreeIPA with names of our own configuration
    except FileNotFoundError:
        raise StartProblem(f"{step.name}: {step.run[0]} is not installed; type where it is: {step.commands[0]}") from None
    if done.returncode != 0:
        raise StartProblem(f"{step.name}: {step.commands[0]} ended with {done.returncode}")
    if step.wrong and (wrong := step.wrong()):
        raise StartProblem(f"{step.name}: {step.commands[0]} is done, and {wrong}")
