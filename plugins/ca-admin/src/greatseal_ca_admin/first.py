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
    """What is wrong with `bootstrap_cert_file`. A file that went away stops the start also where there are operators: whoever names it
    relies on it."""
    file = host.settings(AdminSettings).bootstrap_cert_file
    if file is None or not host.section_present("admin"):
        return []
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
    file = host.settings(AdminSettings).bootstrap_cert_file
    if file is None:
        if not await host.db.read(operators.any_operator):
            host.log.warning("there is no operator: set [admin] bootstrap_cert_file to the certificate of the first administrator")
        return
    certificate = certificate_of(file)
    if await host.db.write(_make_first, host.handles.new_id(), fields_of(certificate)):
        host.log.info("the first administrator was made", file=str(file))


def _make_first(tx: Tx, id: str, fields: Fields) -> bool:
    if operators.any_operator(tx):
        return False
    operators.create(tx, id, fields, by="bootstrap_cert_file")
    return True


def fields_of(certificate: x509.Certificate, name: str | None = None) -> Fields:
    """An administrator with that certificate, named as its common name says where no name is given."""
    der = certificate.public_bytes(Encoding.DER)
    if name is None:
        names = [str(one.value).strip() for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        name = next((one[:64] for one in names if one.isprintable()), "") or ADMINISTRATOR
    return Fields(
        name=name,
        role=ADMINISTRATOR,
        cert_fingerprint=operators.fingerprint_of(der),
        certificate=der,
        gssapi_principal=None,
        eab_kid=None,
        eab_made_at=None,
        ca_id=None,
        active=True,
    )


def _tell(tx: Tx) -> None:
    tx.changed(ROOTS, "")
