"""``greatseal log monitor``: follow any tiled log from a terminal or a timer. It needs no configuration."""

import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import click
import msgspec

from greatseal.api.problems import StartProblem
from greatseal.command import one_line_each
from greatseal.net import SystemResolver
from greatseal_mtc.entries import Entry, matches, read_entry
from greatseal_mtc.hashes import HASHES
from greatseal_mtc.monitor import Away, Follower, HttpSource, Lie, Seen, describe, load, save
from greatseal_mtc.note import BadNote, NoteKey

__all__ = ["monitor"]

LIED = 3
"""The exit code of a log that is not what it signed."""


class Following(msgspec.Struct, frozen=True, kw_only=True):
    """What the command was asked for."""

    state: Path
    domains: tuple[str, ...]
    every_entry: bool
    from_now: bool


@click.command("monitor")
@click.argument("url")
@click.option("--state", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file that keeps what was seen last.")
@click.option("--key", "vkeys", multiple=True, metavar="VKEY", help="A key of the log; may be repeated.")
@click.option("--keys", "key_file", type=click.Path(path_type=Path, exists=True), help="A file with keys of the log, one a line.")
@click.option("--witness", "witnesses", multiple=True, metavar="VKEY", help="A witness of the log; may be repeated.")
@click.option("--quorum", type=click.IntRange(min=0), help="How many of the witnesses must have cosigned; all when left out.")
@click.option("--domain", "domains", multiple=True, metavar="NAME", help="Print entries with this name or one below it; may be repeated.")
@click.option("--entries", "every_entry", is_flag=True, help="Print every new entry.")
@click.option("--from-now", is_flag=True, help="Where nothing was seen before, begin with the log as it is, and read what comes then.")
@click.option("--every", type=click.IntRange(min=1), metavar="SECONDS", help="Go on, and look again after so many seconds.")
@click.option("--hash", "hash_name", type=click.Choice(list(HASHES)), default="sha256", show_default=True, help="The hash of the tree.")
@click.option("--ca-file", type=click.Path(path_type=Path, exists=True), help="Roots to trust for https, instead of the system's.")
@one_line_each
def monitor(  # noqa: PLR0917  # the options of a command
    url: str,
    state: Path,
    vkeys: tuple[str, ...],
    key_file: Path | None,
    witnesses: tuple[str, ...],
    quorum: int | None,
    domains: tuple[str, ...],
    every_entry: bool,
    from_now: bool,
    every: int | None,
    hash_name: str,
    ca_file: Path | None,
) -> None:
    """Follow the tiled log at URL, ours or another's: read each new entry and check it against what the log signed.

    Exit codes: 0 the log is as it should be, 1 it could not be asked now, 2 bad usage, 3 the log lied. What proves that is printed, and
    kept beside the state file.
    """
    try:
        keys = parsed([*vkeys, *(key_file.read_text().split("\n") if key_file else ())])
        watching = parsed(witnesses)
        source = HttpSource(url, SystemResolver(), ca_file=ca_file)
    except (BadNote, ValueError, OSError) as error:
        raise StartProblem(str(error)) from None
    if not keys:
        raise StartProblem("a log is known by its keys: give --key or --keys; those of Greatseal are at <log>/vkey")
    if not state.parent.is_dir():
        raise StartProblem(f"--state: there is no folder {state.parent}")
    wanted = len(watching) if quorum is None else quorum
    if wanted > len(watching):
        raise StartProblem(f"--quorum {wanted}: only {len(watching)} witnesses are given")
    follower = Follower(source, HASHES[hash_name], keys, witnesses=watching, quorum=wanted)
    following = Following(state=state, domains=domains, every_entry=every_entry, from_now=from_now)
    try:
        sys.exit(asyncio.run(follow(follower, following, every)))
    except KeyboardInterrupt:
        sys.exit(0)


async def follow(follower: Follower, following: Following, every: int | None) -> int:
    """One look, or one after the other; the exit code."""
    while True:
        began = time.monotonic()
        try:
            await look(follower, following)
            code = 0
        except Away as away:
            click.echo(f"greatseal: {away}", err=True)
            code = 1
        except Lie as lie:
            told(lie, following.state)
            return LIED
        if every is None:
            return code
        await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))


async def look(follower: Follower, following: Following) -> None:
    """Read what is new and keep it. Raises Lie and Away."""
    try:
        seen = load(following.state, follower.hash)
    except ValueError as error:
        raise StartProblem(str(error)) from None
    except OSError as error:
        raise StartProblem(f"{following.state} cannot be read: {error.strerror}") from None
    if seen is None and following.from_now:
        _keep(following.state, begun := await follower.begin())
        click.echo(f"{describe(begun)}; entries are read from here on")
        return
    if seen is None:
        checkpoint, _ = await follower.checkpoint()
        seen = follower.nothing(checkpoint.origin)
    now = await _step(follower, seen, following)
    if now is not seen:
        _keep(following.state, now)
    click.echo(f"{describe(now)}, {now.size - seen.size} new")


def _keep(state: Path, seen: Seen) -> None:
    try:
        save(state, seen)
    except OSError as error:
        raise StartProblem(f"{state} cannot be written: {error.strerror}") from None


async def _step(follower: Follower, seen: Seen, following: Following) -> Seen:
    expected = (await follower.checkpoint())[0].size - seen.size
    with click.progressbar(length=max(expected, 0), label="entries", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

        async def read(start: int, entries: Sequence[bytes]) -> None:
            if following.domains or following.every_entry:
                for line in lines(start, entries, following):
                    click.echo(line)
            bar.update(len(entries))

        return await follower.step(seen, read)


def lines(start: int, entries: Iterable[bytes], following: Following) -> Iterable[str]:
    """Of the entries that are asked for, one each."""
    for index, entry in enumerate(entries, start):
        try:
            found = read_entry(entry)
        except ValueError:
            if following.every_entry:
                yield f"entry {index}: {len(entry)} bytes that are no certificate"
            continue
        if found is None:
            if following.every_entry:
                yield f"entry {index}: null"
        elif following.every_entry or any(matches(found, domain) for domain in following.domains):
            yield f"entry {index}: {shown(found)}"


def shown(entry: Entry) -> str:
    """Names and validity, in one line that a terminal can show."""
    since, until = (datetime.fromtimestamp(one, UTC).strftime("%Y-%m-%d") for one in (entry.not_before, entry.not_after))
    said = ", ".join(entry.names) or entry.subject or "no name"
    return f"{''.join(one if one.isprintable() else '?' for one in said)}, valid {since} to {until}"


def told(lie: Lie, state: Path) -> None:
    """Say what the log did, and keep the checkpoints that prove it."""
    click.echo(f"greatseal: {lie}", err=True)
    if not lie.notes:
        return
    try:
        evidence = _kept_beside(state, b"\n".join(lie.notes))
    except OSError as error:
        click.echo(f"greatseal: the evidence cannot be written beside {state}: {error.strerror}", err=True)
        click.echo(b"\n".join(lie.notes).decode(errors="backslashreplace"))
    else:
        click.echo(f"greatseal: the checkpoints that it showed are in {evidence}", err=True)


def _kept_beside(state: Path, content: bytes) -> Path:
    """A file with the evidence. None is written over: what a log shows later takes nothing away of what it showed before."""
    for number in count(1):
        evidence = state.with_name(f"{state.name}.evidence{'' if number == 1 else f'.{number}'}")
        try:
            with evidence.open("xb") as file:
                file.write(content)
        except FileExistsError:
            if evidence.read_bytes() != content:
                continue
        return evidence
    raise AssertionError("numbers have no end")


def parsed(vkeys: Iterable[str]) -> list[NoteKey]:
    """Keys by their vkeys, empty lines left out. Raises BadNote."""
    return [NoteKey.parse(line.strip()) for line in vkeys if line.strip()]
