"""The first operator, and whose certificates the listener trusts."""

import asyncio
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal_ca_admin import operators
from greatseal_ca_admin.certificates import in_pem
from greatseal_ca_admin.operators import ADMINISTRATOR, ROOTS, Fields
from greatseal_ca_admin.settings import AdminSettings

MOST_NAME = 64


class Trust:
    """The certificates that operators gave as a whole: each vouches for itself."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._roots: tuple[bytes, ...] = ()
        self._reading = asyncio.Lock()

    def roots(self) -> tuple[bytes, ...]:
        """For the listener."""
        return self._roots

    async def read(self) -> None:
        """From the database, before the listener opens."""
        async with self._reading:  # or an older answer might come after a newer one
            self._roots = tuple(await self._host.db.read(operators.certificates))

    async def again(self) -> None:
        """After operators changed."""
        await self.read()
        await self._host.db.write(_tell)


def certificate_of(file: Path) -> x509.Certificate:
    """The first administrator's. Raises OSError and ValueError."""
    return in_pem(file.read_bytes())


def problems(host: Host) -> list[str]:
    """What is wrong with the first administrator's keys. A file that went away stops the start also where there are operators: whoever
    names it relies on it."""
    if not host.section_present("admin"):
        return []
    settings = host.settings(AdminSettings)
    file = settings.bootstrap_cert_file
    found = [] if file is None else _file_problems(file)
    if settings.bootstrap_principal is not None and not host.section_present("gssapi"):
        found.append(
            "[admin] bootstrap_principal: nobody could sign in with a ticket: enable the plugin gssapi and set [gssapi] keytab_file"
        )
    return found


def _file_problems(file: Path) -> list[str]:
    try:
        certificate_of(file)
    except OSError as error:
        cure = "put it there, or leave the key out once you signed in"
        return [f"[admin] bootstrap_cert_file: {file}: cannot be read: {error.strerror}; {cure}"]
    except ValueError as error:
        return [f"[admin] bootstrap_cert_file: {file}: expected one certificate in PEM, of a key that is accepted: {error}"]
    return []


async def make_first(host: Host) -> None:
    """The first administrator, while there is no operator."""
    settings = host.settings(AdminSettings)
    file, principal = settings.bootstrap_cert_file, settings.bootstrap_principal
    if file is None and principal is None:
        if not await host.db.read(operators.any_operator):
            host.log.warning(
                "there is no operator: set [admin] bootstrap_cert_file or bootstrap_principal to that of the first administrator"
            )
        return
    fields = fields_of(None if file is None else certificate_of(file), principal=principal)
    if await host.db.write(_make_first, host.handles.new_id(), fields):
        host.log.info("the first administrator was made", file=str(file or ""), principal=principal or "")


def _make_first(tx: Tx, id: str, fields: Fields) -> bool:
    if operators.any_operator(tx):
        return False
    operators.create(tx, id, fields, by="bootstrap_cert_file" if fields.certificate is not None else "bootstrap_principal")
    return True


def fields_of(certificate: x509.Certificate | None, name: str | None = None, *, principal: str | None = None) -> Fields:
    """An administrator with a certificate, a Kerberos principal, or both, named as the certificate or else the principal says."""
    der = None if certificate is None else certificate.public_bytes(Encoding.DER)
    return Fields(
        name=name or _common_name(certificate) or (principal or "")[:MOST_NAME] or ADMINISTRATOR,
        role=ADMINISTRATOR,
        cert_fingerprint=None if der is None else operators.fingerprint_of(der),
        certificate=der,
        gssapi_principal=principal,
        eab_kid=None,
        eab_made_at=None,
        ca_id=None,
        active=True,
    )


def _common_name(certificate: x509.Certificate | None) -> str:
    subject = () if certificate is None else certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    names = [str(one.value).strip() for one in subject]
    return next((one[:MOST_NAME] for one in names if one.isprintable()), "")


def _tell(tx: Tx) -> None:
    tx.changed(ROOTS, "")
