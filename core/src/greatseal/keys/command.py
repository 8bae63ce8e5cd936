"""``greatseal keys``: public keys that nobody may use any more."""

import getpass
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click

from greatseal.api.keys import BlockedKey
from greatseal.api.problems import StartProblem
from greatseal.api.store import Tx
from greatseal.cli import CONFIG, kernel_of_store, one_line_each, run
from greatseal.kernel.kernel import Kernel
from greatseal.keys.blocked import listed
from greatseal.keys.given import given_key

LONGEST_REASON = 200
GIVEN = click.argument("given", metavar="FILE-OR-HASH")


@click.group()
def keys() -> None:
    """Block public keys whose private half others have.

    A key is given by a file, which may be a certificate, a CSR, a public or private key in PEM or DER, or a JWK; or by the SHA-256 of its
    SubjectPublicKeyInfo in hexadecimal. A blocked key gets no account and no certificate, its account can do nothing more, and it proves
    no client. Certificates that it has are not revoked.
    """


@keys.command()
@GIVEN
@click.option("--reason", required=True, help="Why, such as keyCompromise: shown to whoever uses the key.")
@CONFIG
@one_line_each
def block(given: str, reason: str, path: Path) -> None:
    """Let nobody use a key any more. The service must be stopped."""
    if not reason.isprintable() or not 1 <= len(reason.strip()) <= LONGEST_REASON:
        raise StartProblem(f"--reason: expected one line of 1 to {LONGEST_REASON} characters")
    name, kernel = given_key(given), kernel_of_store(path)

    def add(tx: Tx) -> bool:
        return kernel.blocked_keys.block(tx, name, reason=reason.strip(), by=_operator())

    click.echo(f"{name} {'is blocked' if _write(kernel, add) else 'was blocked before'}")


@keys.command()
@GIVEN
@CONFIG
@one_line_each
def unblock(given: str, path: Path) -> None:
    """Let a key be used again. The service must be stopped."""
    name, kernel = given_key(given), kernel_of_store(path)

    def take_out(tx: Tx) -> bool:
        return kernel.blocked_keys.unblock(tx, name, by=_operator())

    click.echo(f"{name} {'may be used again' if _write(kernel, take_out) else 'is not blocked'}")


@keys.command()
@CONFIG
@one_line_each
def blocked(path: Path) -> None:
    """List the blocked keys, ordered by their SHA-256: when, by whom, why. It may run beside the service."""
    run(_list(kernel_of_store(path)))


def _write(kernel: Kernel, work: Callable[[Tx], bool]) -> bool:
    from greatseal.db.sole import sole

    with sole(kernel.database.url):
        changed: bool = run(_written(kernel, work))
    return changed


async def _written(kernel: Kernel, work: Callable[[Tx], bool]) -> bool:
    from greatseal.kernel.running import with_store

    async with with_store(kernel):
        return await kernel.store.write(work)


async def _list(kernel: Kernel) -> None:
    from greatseal.kernel.running import with_store

    async with with_store(kernel, beside=True):
        after = ""
        while page := await kernel.store.read(listed, after):
            for one in page:
                click.echo(_line(one))
            after = page[-1].spki_sha256


def _line(one: BlockedKey) -> str:
    when = datetime.fromtimestamp(one.blocked_at // 1_000_000, UTC)
    return f"{one.spki_sha256}  {when:%Y-%m-%dT%H:%M:%SZ}  {one.blocked_by}  {one.reason}"


def _operator() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container without that user
        return f"uid {os.getuid()}"
