"""``greatseal ca``: the CAs of a service, their keys and certificates, beside the service or while it is stopped."""

import getpass
import os
from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.api.problems import NotFound, StartProblem
from greatseal.api.store import Refuse, Tx
from greatseal.command import command
from greatseal.host import Host
from greatseal_ca.authority import find_root
from greatseal_ca.cross_signing import YEAR, YEARS
from greatseal_ca.generations import Asked, adopt, asked, cross_certificates, generations
from greatseal_ca.inventory import as_pem
from greatseal_ca.plugin import Parts, Plugin
from greatseal_ca.profiles import X509
from greatseal_ca.revocation import REASONS
from greatseal_ca.root import ROOT
from greatseal_ca.settings import CaSettings
from greatseal_ca.start import fingerprint
from greatseal_ca.usages import key_type_of
from greatseal_ca.validity import as_datetime

CA = click.option("--ca", "ca_id", metavar="ID", help="The CA; the default one when left out.")


@click.group()
def ca() -> None:
    """The CAs of a service: certificates, keys, and what is done with them while the service is stopped."""


@command(ca, "show", feature="ca", writes=False)
async def show(plugin: Plugin, host: Host) -> None:
    """Show the CAs with their certificates and keys, newest first. It may run beside the service."""
    parts = plugin.parts(host)
    for ca_id, settings in parts.cas.items():
        default = " (default)" if ca_id == parts.authorities.default_id else ""
        click.echo(f"CA {ca_id}{default}, profiles {', '.join(parts.profiles.of(ca_id)) or 'none'}")
        for line in await _shown(host, settings):
            click.echo(f"  {line}")


@command(ca, "export", feature="ca", writes=False)
@CA
@click.option("--root", "what", flag_value="root", help="The root certificate alone.")
@click.option("--csr", "what", flag_value="csr", help="The request that waits for its certificate.")
@click.option("--cross", "what", flag_value="cross", help="The cross-certificates that its root signed.")
async def export(plugin: Plugin, host: Host, ca_id: str | None, what: str | None) -> None:
    """Print the chain of a CA in PEM, issuing certificate first, or another thing that is public. Keys are never printed."""
    settings = _settings(plugin.parts(host), ca_id)
    if what == "csr":
        if (question := await host.db.read(asked, settings.id)) is None:
            raise StartProblem(f"[ca] {settings.id}: no request waits for its certificate; make one with: greatseal ca renew --csr")
        click.echo(_csr(question), nl=False)
        return
    if what == "cross":
        found = await host.db.read(cross_certificates)
        click.echo(as_pem([der for issuer, _, der in found if issuer == settings.id]), nl=False)
        return
    chain = await _chain(host, settings)
    click.echo(as_pem(chain[-1:] if what == "root" else chain), nl=False)


@command(ca, "renew", feature="ca", writes=True)
@CA
@click.option("--same-key", is_flag=True, help="Keep the key; left out, a new one is made.")
@click.option("--csr", "elsewhere", is_flag=True, help="Print a request for a root elsewhere, instead of a certificate by the root here.")
@click.option("--discard", is_flag=True, help="Give up the request that waits for its certificate.")
async def renew(plugin: Plugin, host: Host, ca_id: str | None, *, same_key: bool, elsewhere: bool, discard: bool) -> None:
    """Give a CA its next issuing certificate. The service must be stopped; certificates of before stay valid."""
    parts = plugin.parts(host)
    id = _settings(parts, ca_id).id
    if discard:
        click.echo("the request is given up" if await parts.ceremonies.discard(id) else "no request waits")
    elif elsewhere:
        click.echo(_csr(await parts.ceremonies.request(id, same_key=same_key)), nl=False)
    else:
        made = await parts.ceremonies.renew(id, same_key=same_key)
        certificate = x509.load_der_x509_certificate(made.der)
        click.echo(f"CA {id}: generation {made.number}, {certificate.subject.rfc4514_string()}, {_until(certificate)}")


@command(ca, "import", feature="ca", writes=True)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@CA
async def bring(plugin: Plugin, host: Host, file: Path, ca_id: str | None) -> None:
    """Put in force the certificate that a root elsewhere gave for the request. The service must be stopped.

    FILE is PEM: that certificate first, those above it after it, the root last.
    """
    parts = plugin.parts(host)
    id = _settings(parts, ca_id).id
    click.echo(f"CA {id}: generation {await parts.ceremonies.bring(id, _read(file))} signs from the next start on")


@command(ca, "cross-sign", feature="ca", writes=True)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@CA
@click.option("--years", type=click.IntRange(1, 100), default=YEARS, show_default=True, help="How long it lives at most.")
@click.option("--path-length", type=click.IntRange(0, 10), help="How many CAs may follow; left out, as many as the other CA says itself.")
async def cross_sign(plugin: Plugin, host: Host, file: Path, ca_id: str | None, *, years: int, path_length: int | None) -> None:
    """Print a cross-certificate for another CA by the root of this one. The service must be stopped.

    FILE is the certificate of the other CA, or a request of it, in PEM or DER.
    """
    parts = plugin.parts(host)
    id = _settings(parts, ca_id).id
    made = await parts.ceremonies.cross(id, _read(file), days=years * YEAR, path_length=path_length, by=_operator())
    assert made.der is not None
    click.echo(as_pem([made.der]), nl=False)


@command(ca, "revoke", feature="ca", writes=True)
@click.argument("serial")
@CA
@click.option("--reason", type=click.Choice([*REASONS]), help="Why; left out, none is given.")
@click.option("--issued-as", "issue_as", default=X509, show_default=True, help="What signed it; root for certificates of CAs.")
async def revoke(plugin: Plugin, host: Host, serial: str, ca_id: str | None, *, reason: str | None, issue_as: str) -> None:
    """Revoke a certificate for good, by its serial in hexadecimal. The service must be stopped."""
    parts = plugin.parts(host)
    id = _settings(parts, ca_id).id
    try:
        number = bytes.fromhex(serial.replace(":", "")).lstrip(b"\0")
    except ValueError:
        raise StartProblem("SERIAL: expected hexadecimal digits, two for each octet, with or without colons") from None

    def take_back(tx: Tx) -> None:
        found = parts.issuance.find(tx, id, number, issue_as)
        if found is None and issue_as == ROOT and adopt(tx, id, number, host.handles.new_id()):
            found = parts.issuance.find(tx, id, number, issue_as)
        if found is None:
            raise Refuse(NotFound(f"CA {id} has no certificate of this serial"))
        parts.issuance.revoke(tx, found.id, None if reason is None else REASONS[reason], by=_operator())

    await host.db.write(take_back)
    click.echo(f"certificate {number.hex()} of CA {id} is revoked; its revocation list says so from the next start on")


@command(ca, "crl", feature="ca", writes=True)
@CA
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="FOLDER", help="Where the lists go.")
async def crl(plugin: Plugin, host: Host, ca_id: str | None, out: Path) -> None:
    """Make the revocation lists of a CA now and write them in DER, for a place elsewhere. The service must be stopped.

    The list of number N is <CA>-N.crl; 0 is that of the root, about certificates of CAs.
    """
    parts = plugin.parts(host)
    id = _settings(parts, ca_id).id
    await parts.authorities.open(host, parts.inventory)
    await parts.status.open()
    for number, served in parts.lists.served(id):
        file = out / f"{id}-{number}.crl"
        _write(file, served.der)
        click.echo(f"{file}: number {served.number}, good until {as_datetime(served.next_update):%Y-%m-%dT%H:%M:%SZ}")


async def _shown(host: Host, settings: CaSettings) -> list[str]:
    lines = []
    issuing, roots = [await host.db.read(generations, settings.id, role) for role in ("issuing", "root")]
    waiting = await host.db.read(asked, settings.id)
    if settings.key_file:
        lines += [f"key in {settings.key_file}", *_of_files(settings)]
    elif not issuing:
        lines.append("not made yet" if waiting else "not made yet; the first start makes it")
    for one in issuing:
        lines.append(f"issuing certificate, generation {one.number}, key {one.kid}")
        lines += [f"  {line}" for line in _described(one.der)]
        lines += [f"  under {line}" for above in one.above for line in _described(above)[:1]]
    for one in roots:
        gone = "" if await find_root(host, settings) else ", which is gone"
        lines += [f"root certificate, made here, key {one.kid}{gone}", *(f"  {line}" for line in _described(one.der))]
    if waiting:
        where = "elsewhere" if waiting.elsewhere else "here"
        lines.append(f"a request of {as_datetime(waiting.created_at):%Y-%m-%d} waits for its certificate by a root {where}")
    return lines


def _of_files(settings: CaSettings) -> list[str]:
    assert settings.cert_file is not None
    try:
        chain = x509.load_pem_x509_certificates(settings.cert_file.read_bytes())
    except (OSError, ValueError) as error:
        return [f"certificates in {settings.cert_file}, which cannot be read: {error}"]
    described = [line for one in chain for line in _described(one.public_bytes(Encoding.DER))]
    return [f"certificates in {settings.cert_file}", *(f"  {line}" for line in described)]


def _described(der: bytes) -> list[str]:
    certificate = x509.load_der_x509_certificate(der)
    number = certificate.serial_number
    serial = number.to_bytes((number.bit_length() + 7) // 8, "big").hex()  # whole octets: `ca revoke` reads them
    return [
        f"{certificate.subject.rfc4514_string()}",
        f"serial {serial}, {_until(certificate)}, {_key_type(certificate)}",
        f"SHA-256 {fingerprint(der)}",
    ]


def _key_type(certificate: x509.Certificate) -> str:
    return key_type_of(certificate.public_key())


def _until(certificate: x509.Certificate) -> str:
    return f"{certificate.not_valid_before_utc:%Y-%m-%d} to {certificate.not_valid_after_utc:%Y-%m-%d}"


async def _chain(host: Host, settings: CaSettings) -> list[bytes]:
    """What the CA signs with now, and those above it."""
    if settings.cert_file:
        try:
            return [one.public_bytes(Encoding.DER) for one in x509.load_pem_x509_certificates(settings.cert_file.read_bytes())]
        except (OSError, ValueError) as error:
            raise StartProblem(f"[ca] {settings.id}: {settings.cert_file} cannot be read as PEM certificates: {error}") from None
    if not (issuing := await host.db.read(generations, settings.id, "issuing")):
        raise StartProblem(f"[ca] {settings.id}: it has no certificate yet; the first start makes it, or: greatseal ca import")
    root = [one.der for one in await host.db.read(generations, settings.id, "root")][-1:]
    return [issuing[0].der, *(issuing[0].above or root)]


def _settings(parts: Parts, ca_id: str | None) -> CaSettings:
    found = parts.cas.get(ca_id or parts.authorities.default_id)
    if found is None:
        raise StartProblem(f"there is no CA {ca_id!r}; there is {', '.join(parts.cas)}")
    return found


def _csr(question: Asked) -> str:
    return x509.load_der_x509_csr(question.csr).public_bytes(Encoding.PEM).decode()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StartProblem(f"{file} cannot be read: {error.strerror}") from None


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise StartProblem(f"{file} cannot be written: {error.strerror}") from None


def _operator() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container without that user
        return f"uid {os.getuid()}"


COMMANDS = (ca,)
