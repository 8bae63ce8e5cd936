"""``greatseal log``: what is done with logs at a terminal."""

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.api.issuance import Certificate
from greatseal.api.log import LogCorrupt
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, NotFound, Problem, StartProblem
from greatseal.api.services import ISSUANCE
from greatseal.command import command
from greatseal.host import Host
from greatseal_mtc.checking import Checking, Wrong
from greatseal_mtc.following import monitor
from greatseal_mtc.keys import open_keys
from greatseal_mtc.logs import Logs
from greatseal_mtc.note import Note
from greatseal_mtc.page.look_up import serial_in
from greatseal_mtc.plugin import Plugin
from greatseal_mtc.proving import log_proof
from greatseal_mtc.recording import MTC, Numbers, find, is_waiting, numbers_of, open_number, recorded_size
from greatseal_mtc.state import RECOVER
from greatseal_mtc.stored_checkpoints import Stored, newest_of, witnesses_of
from greatseal_mtc.stored_landmarks import active
from greatseal_mtc.views import LogView

__all__ = ["log"]

LAST_NUMBER = 65_535
CA = click.option("--ca", "ca_id", metavar="ID", help="The CA; the default one when left out.")


@click.group()
def log() -> None:
    """Logs of certificates: those of this service, and any other one."""


log.add_command(monitor)


@command(log, "show", feature="mtc", writes=False)
async def show(plugin: Plugin, host: Host) -> None:
    """Show the logs: size, root, last checkpoint, keys. It may run beside the service."""
    logs = _logs(plugin, host)
    for ca_id in logs.settings:
        for line in await _shown(host, logs, ca_id):
            click.echo(line)


@command(log, "verify", feature="mtc", writes=False)
@CA
async def verify(plugin: Plugin, host: Host, ca_id: str | None) -> None:
    """Check whole logs: entries, tiles, checkpoints, and the certificates of the database. It may run beside the service.

    Exit code 1 says that something is wrong; the line says what, and the first entry that it concerns.
    """
    logs = _logs(plugin, host)
    for id in [_id(logs, ca_id)] if ca_id else logs.settings:
        view, numbers = await _view(host, logs, id)
        keys = await open_keys(host, id, logs.settings[id], {})
        operator = keys.note_key(logs.place(id).origin(numbers))
        checking = Checking(host, host.service(ISSUANCE), id, view, [operator])
        try:
            with click.progressbar(length=view.size, label=view.name, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
                checked = await checking.run(bar.update)
        except Wrong as wrong:
            first = "" if wrong.index is None else f"; the first index that is wrong is {wrong.index}"
            raise LogCorrupt(f"log {view.name}: {wrong}{first}") from None
        click.echo(
            f"log {view.name}: {checked.entries} entries are as they should be, {checked.certificates} with their certificate in the "
            f"database, {checked.checkpoints} checkpoints"
        )


@command(log, "prove", feature="mtc", writes=False)
@CA
@click.argument("certificate")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write; standard output when left out.")
async def prove(plugin: Plugin, host: Host, ca_id: str | None, certificate: str, out: Path | None) -> None:
    """Write the proof that CERTIFICATE is in the log, as a C2SP tlog-proof. It may run beside the service.

    CERTIFICATE is a file with it in PEM or DER, its id, or its serial number in hexadecimal.
    """
    logs = _logs(plugin, host)
    id = _id(logs, ca_id)
    found = await _certificate(host, id, certificate)
    entry = await host.db.read(find, found.id)
    if entry is None or entry.log_number is None:
        raise NotFound("the certificate is not in the log yet")
    view = logs.view_of(id, entry.log_number)
    if not await view.refresh():
        raise LogCorrupt(f"log {view.name} is not there")
    proof = (await log_proof(host, view, entry)).encoded
    if out is None:
        click.echo(proof.decode(), nl=False)
        return
    _write(out, proof)
    click.echo(f"the proof for entry {entry.index} of log {view.name} is in {out}")


@command(log, "recover", feature="mtc", writes=True)
@CA
@click.option("--yes", is_flag=True, help="Do not ask.")
async def recover(plugin: Plugin, host: Host, ca_id: str | None, *, yes: bool) -> None:
    """Open the next log number of a CA whose log is lost, damaged or forked. The service must be stopped.

    It says first what it will do, and asks. There is no way back: the log of before is never written again.
    """
    logs = _logs(plugin, host)
    id = _id(logs, ca_id)
    numbers = await host.db.read(numbers_of, id)
    if numbers is None:
        raise StartProblem(_none_yet(id))
    number = numbers.current
    if number >= LAST_NUMBER:
        raise StartProblem(f"CA {id!r}: {LAST_NUMBER} is the last log number; it needs another trust anchor ID")
    for line in await _before_recovery(host, logs, id, number):
        click.echo(line)
    if not yes:
        click.confirm(f"Open log {number + 1} of CA {id}?", abort=True)
    opened = await host.db.write(open_number, id, number + 1, by="greatseal log recover")
    click.echo(f"CA {id} writes log {opened.current} from the next start on. Tell the operators of its witnesses and monitors.")


def _logs(plugin: Plugin, host: Host) -> Logs:
    """Those of the configuration. Raises StartProblem where it has none."""
    parts = plugin.parts(host)
    if parts is None or not parts.logs.settings:
        raise StartProblem("no CA of the configuration has a log; give it the section [mtc]")
    return parts.logs


def _id(logs: Logs, ca_id: str | None) -> str:
    """The CA that is meant. Raises StartProblem where it has no log."""
    chosen = logs.default_id if ca_id is None else ca_id
    if chosen not in logs.settings:
        raise StartProblem(f"CA {chosen!r} has no log; CAs with one: {', '.join(logs.settings) or 'none'}")
    return chosen


async def _view(host: Host, logs: Logs, ca_id: str) -> tuple[LogView, Numbers]:
    """The log that the CA writes. Raises StartProblem before there is one, and LogCorrupt for one that was lost."""
    numbers = await host.db.read(numbers_of, ca_id)
    if numbers is None:
        raise StartProblem(_none_yet(ca_id))
    view = logs.view_of(ca_id, numbers.current)
    if not await view.refresh():
        if had := await _had(host, ca_id, numbers.current):
            raise LogCorrupt(f"log {view.name} is empty, and had {had} entries: it was lost; {RECOVER}")
        raise StartProblem(_none_yet(ca_id))
    return view, numbers


async def _had(host: Host, ca_id: str, number: int) -> int:
    """How many entries the log has at least, as the database knows it."""
    newest = await host.db.read(newest_of, ca_id, number)
    return max(await host.db.read(recorded_size, ca_id, number), 0 if newest is None else newest.size)


def _none_yet(ca_id: str) -> str:
    return f"CA {ca_id!r} has no log yet: the next start makes it"


async def _shown(host: Host, logs: Logs, ca_id: str) -> Iterable[str]:
    settings, numbers = logs.settings[ca_id], await host.db.read(numbers_of, ca_id)
    default = " (default)" if ca_id == logs.default_id else ""
    if numbers is None:
        return [f"CA {ca_id}{default}: no log yet"]
    number, origin = numbers.current, logs.place(ca_id).origin(numbers)
    view = logs.view_of(ca_id, number)
    there = await view.refresh()
    newest = await host.db.read(newest_of, ca_id, number)
    keys = await open_keys(host, ca_id, settings, {})
    landmarks = await host.db.read(active, ca_id, number)
    had = 0 if there else await _had(host, ca_id, number)
    missing = f"  the log is empty, and had {had} entries: it was lost; {RECOVER}" if had else "  nothing was written yet"
    waiting = "certificates wait for the log" if await host.db.read(is_waiting, ca_id) else "no certificate waits for the log"
    return [
        f"CA {ca_id}{default}: log {number}, trust anchor ID {settings.anchor.ascii}, {settings.hash_alg}, {settings.dialect}",
        f"  origin {origin}",
        f"  {view.size} entries, root {view.root.hex()}" if there else missing,
        *([] if newest is None else await _checkpoint(host, newest)),
        f"  {len(landmarks)} landmarks" + (f", the last of {landmarks[-1].tree_size} entries" if landmarks else ""),
        f"  {waiting}",
        f"  {keys.note_key(origin).vkey}",
        f"  {keys.cosigner_note_key(settings.anchor.name).vkey}",
    ]


async def _checkpoint(host: Host, newest: Stored) -> list[str]:
    lines: Mapping[str, tuple[str, bool]] = await host.db.read(witnesses_of, newest.ca_id, newest.sequence_no)
    names = {one.name for line, _ in lines.values() for one in Note.parse(b"x\n\n" + line.encode()).signatures}
    when = datetime.fromtimestamp(newest.created_at // SECOND, UTC)
    witnessed = ", ".join(sorted(names)) or "no witness"
    return [f"  checkpoint {newest.sequence_no}: {newest.size} entries, {when:%Y-%m-%d %H:%M} UTC, cosigned by {witnessed}"]


async def _certificate(host: Host, ca_id: str, text: str) -> Certificate:
    """The certificate that is meant by a file, an id or a serial number. Raises NotFound and BadRequest."""
    issuance, der = host.service(ISSUANCE), _read(Path(text))
    if der is not None:
        found = await host.db.read(issuance.identical, ca_id, der)
    elif (found := await issuance.certificate(text)) is None:
        serial = _serial(text)
        found = await host.db.read(issuance.find, ca_id, serial, "x509") or await host.db.read(issuance.find, ca_id, serial, MTC)
    if found is None or found.ca_id != ca_id:
        raise NotFound(f"CA {ca_id} has not issued that certificate")
    return found


def _serial(text: str) -> bytes:
    try:
        return serial_in(text)
    except BadRequest as error:
        raise BadRequest(f"{text} is no file that can be read and no id of a certificate; {error.detail}") from None


def _read(path: Path) -> bytes | None:
    """The certificate of a file, in DER; None where there is no such file. Raises BadRequest."""
    try:
        sent = path.read_bytes()
    except OSError:
        return None
    try:
        read = x509.load_der_x509_certificate(sent) if sent[:1] == b"0" else x509.load_pem_x509_certificate(sent)
    except ValueError as error:
        raise BadRequest(f"{path} has no certificate: {error}") from None
    return read.public_bytes(Encoding.DER)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}") from None


async def _before_recovery(host: Host, logs: Logs, ca_id: str, number: int) -> list[str]:
    """What is known of the log that is given up, and what follows."""
    newest = await host.db.read(newest_of, ca_id, number)
    indices = await host.db.read(recorded_size, ca_id, number)
    view = logs.view_of(ca_id, number)
    try:
        there = f"has {view.size} entries" if await view.refresh() else "is not there"
    except Problem as problem:
        there = f"cannot be read: {problem.cause or problem.detail}"
    signed = "no checkpoint of it was signed" if newest is None else f"its last checkpoint has {newest.size} entries"
    return [
        f"CA {ca_id} writes log {number}. It {there}; {signed}; indices below {indices} were given to certificates.",
        f"Log {number} is never written again. Log {number + 1} begins with nothing, under an origin of its own.",
        "Certificates that were issued stay as they are: what they prove is in them.",
        "Ordinary ones that have no index yet, or no standalone certificate, go into the new log.",
        f"All indices of log {number} that the database knows no certificate of are told as revoked from then on.",
        "Landmarks begin anew, so certificates that rest on landmarks of the old log get no new ones.",
        "Relying parties take certificates of the new log by the CA certificate that they have, if it is of one of the four logs before.",
        "Witnesses and monitors do not know the new origin until their operators add it.",
    ]
