"""``greatseal trust``: a machine trusts the certificates of a CA whose fingerprint somebody brought by another way."""

import http.client
import re
import ssl
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import ParamSpec, TypedDict, Unpack
from urllib.parse import urlsplit

import click
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.jose.acceptance import accept_public_key
from greatseal_ca.trust_stores import StoreProblem, TrustStore, stores

P = ParamSpec("P")
SECONDS = 30.0
LARGEST = 65_536
ROOT = "/ca/root.pem"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class Fingerprint(click.ParamType[str]):
    """64 hexadecimal digits, with colons or without, also the whole line of ``openssl x509 -fingerprint -sha256``."""

    name = "SHA-256"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        digits = value.rpartition("=")[2].strip().removeprefix("SHA256:").replace(":", "").replace(" ", "").lower()
        if not re.fullmatch("[0-9a-f]+", digits, re.ASCII) or len(digits) != 64:
            of = " (40 are those of SHA-1, which proves nothing)" if len(digits) == 40 else ""
            self.fail(f"{value!r}: expected the SHA-256 of the root certificate, 64 hexadecimal digits{of}", param, ctx)
        return digits


class StoreName(click.ParamType[str]):
    """A name that is safe as a file name and as an alias."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _NAME.fullmatch(value):
            self.fail(f"{value!r}: expected lower-case letters, digits, dots, hyphens, at most 64", param, ctx)
        return value


class Where(TypedDict):
    """What the options say of the stores."""

    chosen: tuple[str, ...]
    python: str
    keystore: Path | None
    dry: bool


_OPTIONS = (
    click.option(
        "--store",
        "chosen",
        type=click.Choice(("system", "python", "java")),
        multiple=True,
        default=("system",),
        show_default=True,
        help="Which store; may be repeated.",
    ),
    click.option("--python", default="python3", show_default=True, metavar="PATH", help="The Python whose package certifi is meant."),
    click.option("--keystore", type=click.Path(path_type=Path), help="A key store of Java instead of its cacerts."),
    click.option("--dry-run", "dry", is_flag=True, help="Say what would be done, and change nothing."),
)


def where_options(command: Callable[P, None]) -> Callable[P, None]:
    """The options that :class:`Where` holds."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group()
def trust() -> None:
    """Have this machine trust the certificates of a CA, or trust them no more."""


@trust.command()
@click.argument("url")
@click.option("--fingerprint", type=Fingerprint(), required=True, help="SHA-256 of the root certificate, from the operator of the CA.")
@click.option("--name", type=StoreName(), help="What it is called in the stores; by default after the host.")
@where_options
def install(url: str, fingerprint: str, name: str | None, **where: Unpack[Where]) -> None:
    """Fetch the root certificate from URL, the address of the service or of the file, and add it if it has the fingerprint."""

    def steps() -> Iterator[str]:
        root = checked(fetched(url), fingerprint)
        called = name or StoreName().convert(f"greatseal-{urlsplit(url).hostname}", None, None)
        for store in _stores(where):
            yield store.add(called, root, dry=where["dry"])

    _tell(steps(), dry=where["dry"])


@trust.command()
@click.argument("name", type=StoreName())
@where_options
def remove(name: str, **where: Unpack[Where]) -> None:
    """Take the root certificate NAME out again."""

    def steps() -> Iterator[str]:
        for store in _stores(where):
            yield store.remove(name, dry=where["dry"])

    _tell(steps(), dry=where["dry"])


def fetched(url: str) -> bytes:
    """The file with the root certificate. Nothing of the connection is trusted: the fingerprint is what counts. Raises StoreProblem."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise StoreProblem(f"{url}: expected https://... or http://...")
    place = url if parts.path not in {"", "/"} else f"{url.rstrip('/')}{ROOT}"
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=unchecked))
    try:
        with opener.open(place, timeout=SECONDS) as answer:
            body: bytes = answer.read(LARGEST + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise StoreProblem(f"{place} cannot be fetched: {error}") from None
    if len(body) > LARGEST:
        raise StoreProblem(f"{place}: more than {LARGEST} bytes, which is no root certificate")
    return body


def checked(body: bytes, fingerprint: str) -> x509.Certificate:
    """The certificate of that fingerprint, which must be a root that is worth its name today. Raises StoreProblem."""
    found = []
    for pem in _PEM.findall(body):
        try:
            found.append(x509.load_pem_x509_certificate(pem))
        except ValueError as error:
            raise StoreProblem(f"what was fetched is no certificate: {error}") from None
    if not found:
        raise StoreProblem("what was fetched is no certificate in PEM; give the address of the service, or of its root.pem")
    digests = [sha256(one.public_bytes(Encoding.DER)).hexdigest() for one in found]
    for certificate, digest in zip(found, digests, strict=True):
        if compare_digest(digest, fingerprint):
            if wrong := wrong_with(certificate):
                raise StoreProblem(f"the certificate of that fingerprint {wrong}; nothing was changed")
            return certificate
    raise StoreProblem(
        f"the fingerprint is another one: found {', '.join(digests)}, expected {fingerprint}; "
        "nothing was changed. Ask the operator again: somebody may sit in between"
    )


def wrong_with(certificate: x509.Certificate) -> str:
    """Why it is no root to trust, empty for nothing."""
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        accept_public_key(certificate.public_key())
        certificate.verify_directly_issued_by(certificate)
    except x509.ExtensionNotFound:
        return "is no CA's: it has no basicConstraints"
    except InvalidSignature:
        return "is signed by another key than its own"
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        return f"is no root: {error}"
    if not basic.ca:
        return "is no CA's"
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        return f"is good from {certificate.not_valid_before_utc} to {certificate.not_valid_after_utc} only"
    return ""


def _stores(where: Where) -> Sequence[TrustStore]:
    return stores(where["chosen"], python=where["python"], keystore=where["keystore"])


def _tell(steps: Iterator[str], *, dry: bool) -> None:
    try:
        for done in steps:
            click.echo(f"not done: {done}" if dry else done)
    except StoreProblem as problem:
        click.echo(f"greatseal: {problem}", err=True)
        sys.exit(1)
