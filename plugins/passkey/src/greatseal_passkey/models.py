"""The models of devices that may be used, from a file of the FIDO Metadata Service (FIDO Metadata Service 3.1), or one like it.

The file is the signed BLOB as it is published, or the JSON that is in one: a list of a few models, written by hand. It is read again when
it changed.
"""

from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.x509 import Certificate

from greatseal.host import Host
from greatseal.jose.acceptance import accept_public_key
from greatseal.jose.compact import parse_compact
from greatseal_passkey.chains import NoChain, check_chain
from greatseal_passkey.settings import PasskeySettings

LARGEST = 64 * 1024 * 1024
PUBLISHER = "mds.fidoalliance.org"
"""Whose the certificate is that signs a BLOB (s3.1.7)."""
BAD = frozenset(
    {
        "ATTESTATION_KEY_COMPROMISE",
        "REVOKED",
        "USER_KEY_PHYSICAL_COMPROMISE",
        "USER_KEY_REMOTE_COMPROMISE",
        "USER_VERIFICATION_BYPASS",
    }
)
"""Reports after which nobody is to trust a model (s3.1.4), unless a later one says something else."""


class BadMetadata(ValueError):
    """The file is no metadata, or not the publisher's. The text is for the administrator."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of device: what it is called, whose certificates vouch for it, and why it is not to be trusted, where that is so."""

    name: str
    roots: tuple[Certificate, ...]
    distrusted: str | None = None


class _Statement(msgspec.Struct, frozen=True, rename="camel"):
    description: str = ""
    attestation_root_certificates: tuple[str, ...] = ()


class _Report(msgspec.Struct, frozen=True):
    status: str


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    metadata_statement: _Statement
    aaguid: str | None = None
    attestation_certificate_key_identifiers: tuple[str, ...] = ()
    status_reports: tuple[_Report, ...] = ()


class _Payload(msgspec.Struct, frozen=True, rename="camel"):
    entries: tuple[_Entry, ...]
    next_update: date | None = None


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says: models by AAGUID, those of U2F by the identifiers of their keys (SHA-1, hexadecimal), and until when it is new."""

    by_aaguid: Mapping[str, Model]
    by_key: Mapping[str, Model]
    next_update: date | None


class Models:
    """Those of the file."""

    def __init__(self, host: Host) -> None:
        settings = host.settings(PasskeySettings)
        assert settings.metadata_file is not None  # as the settings saw to
        self._host = host
        self._file = settings.metadata_file
        self._authorities = settings.metadata_ca_file
        self._wanted = frozenset(settings.models)
        self._stamp: tuple[int, int] | None = None
        self._known: Known | None = None

    def known(self) -> Known:
        """What the file says now. One that does not read any more leaves what it said before. Raises BadMetadata and OSError at first."""
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                self._stamp = stamp
                self._known = self._read()
        except (OSError, BadMetadata) as error:
            if self._known is None:
                self._stamp = None
                raise
            self._host.log.warning("the models of passkeys cannot be read; they stay as they were", file=str(self._file), reason=str(error))
        assert self._known is not None  # it was read, or the exception went on
        return self._known

    def _read(self) -> Known:
        known = read(_content(self._file), self._trusted(), self._host.clock.now())
        if not self._wanted:
            return known
        if missing := self._wanted - known.by_aaguid.keys():
            raise BadMetadata(f"models: {min(missing)} is not in it")
        return msgspec.structs.replace(known, by_key={}, by_aaguid={id: known.by_aaguid[id] for id in self._wanted})

    def _trusted(self) -> tuple[Certificate, ...]:
        if self._authorities is None:
            return ()
        try:
            return tuple(x509.load_pem_x509_certificates(self._authorities.read_bytes()))
        except ValueError as error:
            raise BadMetadata(f"{self._authorities}: expected certificates in PEM: {error}") from None


def read(content: bytes, authorities: tuple[Certificate, ...], now: int) -> Known:
    """The models of a file's content. Raises BadMetadata."""
    payload = content if content.lstrip()[:1] == b"{" else _signed(content, authorities, now)
    try:
        said = msgspec.json.decode(payload, type=_Payload)
        by_aaguid, by_key = {}, {}
        for entry in said.entries:
            model = _model(entry)
            if entry.aaguid is not None:
                by_aaguid[str(UUID(entry.aaguid))] = model
            by_key.update(dict.fromkeys((one.lower() for one in entry.attestation_certificate_key_identifiers), model))
    except (ValueError, RecursionError) as error:
        raise BadMetadata(f"it is no metadata of FIDO: {error}") from None
    return Known(by_aaguid=by_aaguid, by_key=by_key, next_update=said.next_update)


def _content(file: Path) -> bytes:
    with file.open("rb") as opened:
        content = opened.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise BadMetadata(f"{file}: it has more than {LARGEST} bytes")
    return content


def _signed(content: bytes, authorities: tuple[Certificate, ...], now: int) -> bytes:
    """The payload of a BLOB, whose signature is of its publisher. Raises BadMetadata."""
    if not authorities:
        raise BadMetadata("it is a signed BLOB: metadata_ca_file must name the certificate of who vouches for its publisher")
    try:
        jws = parse_compact(content.decode("ascii").strip())
        chain = [x509.load_der_x509_certificate(b64decode(one, validate=True)) for one in jws.header["x5c"]]
        check_chain(chain, authorities, now)
        names = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
        jws.verify(accept_public_key(chain[0].public_key()))
    except (ValueError, KeyError, TypeError, IndexError, NoChain, x509.ExtensionNotFound) as error:
        raise BadMetadata(f"its signature is not good: {error}") from None
    if PUBLISHER not in names:
        raise BadMetadata(f"its certificate is not that of {PUBLISHER}")
    return jws.payload


def _model(entry: _Entry) -> Model:
    statement = entry.metadata_statement
    encoded = ("".join(one.split()) for one in statement.attestation_root_certificates)
    roots = tuple(x509.load_der_x509_certificate(b64decode(one, validate=True)) for one in encoded)
    last = entry.status_reports[-1].status if entry.status_reports else ""
    name = "".join(character for character in statement.description[:64] if character.isprintable()).strip()
    return Model(name=name, roots=roots, distrusted=last if last in BAD else None)


def is_old(known: Known, now: int) -> bool:
    """Whether a newer file should be there by now."""
    return known.next_update is not None and datetime.fromtimestamp(now / 1_000_000, UTC).date() > known.next_update
