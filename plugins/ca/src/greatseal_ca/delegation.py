"""Certificates of the keys that sign OCSP answers (RFC 6960 s4.2.2.2): recorded before they are signed, each with a key of its own."""

from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_der_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from sqlalchemy import delete, select, update

from greatseal import der, faults
from greatseal.api.issuance import Frame
from greatseal.api.keys import Signer
from greatseal.api.moments import SECOND
from greatseal.api.problems import Internal
from greatseal.api.store import Row, Tx
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal.jose.acceptance import accept_public_key
from greatseal_ca.algorithms import HASHES, signature_algorithm
from greatseal_ca.build import Content, authority_key_identifier, common_name, draw_serial, extension, to_be_signed
from greatseal_ca.inventory import lifetime
from greatseal_ca.lists import Signing
from greatseal_ca.responder import Delegated
from greatseal_ca.tables import responder
from greatseal_ca.usages import key_usage
from greatseal_ca.validity import BACKDATE, DAY, moment_of

LIFE = 14 * DAY
"""A new one is made when half of it is over."""
_EXTENSIONS = (
    extension(x509.BasicConstraints(ca=False, path_length=None), critical=True),
    extension(key_usage(("digitalSignature",)), critical=True),
    extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING])),
    extension(x509.OCSPNoCheck()),
)

_OF_CA = (
    select(responder)
    .where(responder.c.ca_id == param("ca_id"), responder.c.issuer_kid == param("issuer_kid"))
    .order_by(responder.c.not_after.desc())
)
_RESERVE = insert_new(responder)
_SIGNED = update(responder).where(responder.c.serial == param("the_serial")).values(der=param("der"))
_DROP = delete(responder).where(responder.c.ca_id == param("ca_id"), responder.c.not_after < param("passed"))


class Delegation:
    """Makes the signer of a CA's answers, and another one in time."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def signer(self, ca_id: str, signing: Signing) -> Delegated:
        """The one of now, made if there is none that lives long enough. A start that was killed in between goes on where it was."""
        ring = self._host.keys.ring(f"ca:{ca_id}:{signing.signer.info.kid}:ocsp")
        for row in await self._host.db.read(_of_ca, ca_id, signing.signer.info.kid):
            key = next((one for one in ring.all() if one.info.kid == row.kid), None)
            if key is not None and self._lives(row):
                return await self._finished(row, key, signing)
        key = ring.active
        used = {row.kid for row in await self._host.db.read(_of_ca, ca_id, signing.signer.info.kid)}
        if key is None or key.info.kid in used or key.info.algorithm != _key_type(signing):
            key = await ring.make(_key_type(signing))
        faults.point("ca.ocsp.key_made")
        serial = draw_serial()
        tbs = self._composed(key, signing, serial)
        kids = {"issuer_kid": signing.signer.info.kid, "kid": key.info.kid}
        begin, end = lifetime(der.signed(tbs, signing.algorithm, b""))
        row = await self._host.db.write(_reserve, ca_id=ca_id, serial=serial.hex(), **kids, tbs=tbs, not_before=begin, not_after=end)
        faults.point("ca.ocsp.recorded")
        made = await self._finished(row, key, signing)
        for old in ring.all():
            if old.info.kid != key.info.kid:  # what it signed is told with its certificate and stays good
                await ring.revoke(old.info.kid)
        return made

    async def drop_expired(self, ca_id: str) -> None:
        """Forget certificates that have expired: a CA has a few."""
        await self._host.db.write(_drop, ca_id, self._host.clock.passed())

    def is_due(self, delegated: Delegated) -> bool:
        """Whether half of its life is over, or the clock says that it did not begin."""
        begin = moment_of(delegated.certificate.not_valid_before_utc)
        end = moment_of(delegated.certificate.not_valid_after_utc)
        return not begin <= self._host.clock.now() < (begin + end) // 2

    def _lives(self, row: Row) -> bool:
        return bool(row.not_before <= self._host.clock.now() < (row.not_before + row.not_after) // 2)

    async def _finished(self, row: Row, key: Signer, signing: Signing) -> Delegated:
        """Signed if it was not. One that cannot be signed the same way twice was never shown before its row had it."""
        whole = None if row.der is None else bytes(row.der)
        if whole is None:
            tbs = bytes(row.tbs)
            algorithm = der.children(tbs)[2]
            whole = der.signed(tbs, algorithm, await signing.signer.sign(tbs, hash_alg=HASHES[algorithm]))
            faults.point("ca.ocsp.signed")
            _check(whole, signing)
            await self._host.db.write(_keep, row.serial, whole)
        return Delegated(
            signer=key,
            certificate=x509.load_der_x509_certificate(whole),
            der=whole,
            algorithm=signature_algorithm(key.info.algorithm, "sha256"),
        )

    def _composed(self, key: Signer, signing: Signing, serial: bytes) -> bytes:
        """The to-be-signed part."""
        public = accept_public_key(load_der_public_key(key.info.spki))
        now = self._host.clock.now()
        above = signing.certificate
        begin = max(now - now % SECOND - BACKDATE, moment_of(above.not_valid_before_utc))
        end = min(begin + LIFE - SECOND, moment_of(above.not_valid_after_utc))
        content = Content(
            subject=x509.Name([common_name(f"OCSP responder {key.info.kid[:8]}")]),
            public_key=public,
            not_before=begin,
            not_after=end,
            extensions=(*_EXTENSIONS, extension(x509.SubjectKeyIdentifier.from_public_key(public))),
        )
        frame = Frame(
            kid=signing.signer.info.kid,
            issuer=signing.subject,
            algorithm=signing.algorithm,
            serial=serial,
            extensions=(extension(authority_key_identifier(above)),),
        )
        return to_be_signed(content, frame)


def _key_type(signing: Signing) -> str:
    """That of the CA, or P-256 for the slow ones that are no better: an answer is signed for every nonce."""
    algorithm = signing.signer.info.algorithm
    return "ec:P-256" if algorithm.startswith("rsa:") else algorithm


def _check(whole: bytes, signing: Signing) -> None:
    try:
        x509.load_der_x509_certificate(whole).verify_directly_issued_by(signing.certificate)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise Internal(cause=f"the certificate of an OCSP signer is wrong: {error}") from None


def _of_ca(tx: Tx, ca_id: str, issuer_kid: str) -> Sequence[Row]:
    return tx.all(_OF_CA, ca_id=ca_id, issuer_kid=issuer_kid)


def _reserve(tx: Tx, /, *, ca_id: str, issuer_kid: str, serial: str, **values: str | bytes | int) -> Row:
    tx.run(_RESERVE, ca_id=ca_id, issuer_kid=issuer_kid, serial=serial, der=None, **values)
    return next(row for row in tx.all(_OF_CA, ca_id=ca_id, issuer_kid=issuer_kid) if row.serial == serial)


def _keep(tx: Tx, serial: str, whole: bytes) -> None:
    tx.run(_SIGNED, the_serial=serial, der=whole)


def _drop(tx: Tx, ca_id: str, passed: int) -> None:
    tx.run(_DROP, ca_id=ca_id, passed=passed)
