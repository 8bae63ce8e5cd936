"""The OCSP responder: a signer of its own for every CA, and answers that are remembered until something changes (RFC 6960, RFC 5019)."""

from binascii import a2b_base64
from collections import defaultdict
from hashlib import sha1

import msgspec
from cryptography import x509
from sqlalchemy import select

from greatseal import der
from greatseal.api.http import Call, Reply
from greatseal.api.keys import Signer
from greatseal.api.moments import SECOND
from greatseal.api.problems import NotFound, Unavailable
from greatseal.api.store import Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_ca import ocsp
from greatseal_ca.algorithms import HASHES
from greatseal_ca.lists import Signing
from greatseal_ca.ocsp import Answer, Asked, CertId, Malformed, Status
from greatseal_ca.profiles import X509
from greatseal_ca.revocation import REVOKED, told
from greatseal_ca.tables import certificate

REQUEST, RESPONSE = "application/ocsp-request", "application/ocsp-response"
LIFE = 12 * 3600 * SECOND
"""From thisUpdate to nextUpdate."""
REMEMBERED = LIFE // 2
"""How long one answer is given to all who ask the same, so that nobody gets one that ends soon."""
_CACHED = (("Cache-Control", f"public, no-transform, must-revalidate, max-age={(LIFE - REMEMBERED) // SECOND}"),)
"""For answers that many get: none of them ends before this is over. It stands above Expires (RFC 9111 s5.3), which is left out."""
MOST = 20_000
"""Answers that are remembered: 20 MB."""

_STATUS = select(certificate.c.status, certificate.c.kid, certificate.c.revoked_at, certificate.c.created_at, certificate.c.reason).where(
    certificate.c.serial == param("serial"), certificate.c.ca_id == param("ca_id"), certificate.c.issue_as == X509
)


class Delegated(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs the answers of a CA. ``algorithm`` is a DER AlgorithmIdentifier."""

    signer: Signer
    certificate: x509.Certificate
    der: bytes
    algorithm: bytes

    @property
    def key_hash(self) -> bytes:
        """How answers name it."""
        return sha1(public_bits(self.certificate), usedforsecurity=False).digest()


class _Remembered(msgspec.Struct, frozen=True):
    """An answer, when it was made, and of which certificate it tells."""

    body: bytes
    since: int
    named: str


class _Issuing(msgspec.Struct, frozen=True):
    """A CA as requests name it, and who answers for it."""

    kid: str
    hashes: dict[str, tuple[bytes, bytes]]
    delegated: Delegated
    key_hash: bytes
    certificates: bytes


class Responder:
    """Answers for the CAs of this service."""

    def __init__(self, host: Host, *, most: int = MOST) -> None:
        self._host = host
        self._most = most
        self._issuing: defaultdict[str, dict[str, _Issuing]] = defaultdict(dict)
        self._remembered: dict[tuple[str, bytes], _Remembered] = {}
        self._naming: defaultdict[str, set[tuple[str, bytes]]] = defaultdict(set)
        self._changes = 0
        host.changes.subscribe(REVOKED, self._forget)

    def serve(self, ca_id: str, signing: Signing, delegated: Delegated) -> None:
        """Answer for a CA from now on with that signer. Answers of the one before stay good as long as they say."""
        hashes = dict(ocsp.issuer_hashes(signing.subject, public_bits(signing.certificate)))
        kid, certificates = signing.signer.info.kid, ocsp.certificates(delegated.der)
        self._issuing[ca_id][kid] = _Issuing(kid, hashes, delegated, delegated.key_hash, certificates)

    async def post(self, call: Call, ca_id: str) -> Reply:
        """RFC 6960 appendix A.1: the request is the body."""
        return Reply(body=await self.answer(ca_id, await call.raw()), content_type=RESPONSE)

    async def get(self, ca_id: str, path: str) -> Reply:
        """RFC 6960 appendix A.1: the request is in the path, in base64; the answer may be kept by caches (RFC 5019 s6)."""
        try:
            data = a2b_base64(path, strict_mode=True)
        except ValueError:
            data = b""
        body = await self.answer(ca_id, data)
        headers = _CACHED if (ca_id, data) in self._remembered else ()
        return Reply(body=body, content_type=RESPONSE, headers=headers)

    async def answer(self, ca_id: str, data: bytes) -> bytes:
        """The answer to a request: a remembered one, or one that is made now."""
        found = self._remembered.get((ca_id, data))
        if found is not None and 0 <= self._host.clock.now() - found.since < REMEMBERED:
            return found.body
        if not (keys := self._issuing.get(ca_id)):
            raise NotFound("there is no such CA")
        try:
            asked = ocsp.parse(data)
        except Malformed:
            return ocsp.error(ocsp.MALFORMED)
        issuing = next((one for one in keys.values() if all(_is_of(one, asked_for) for asked_for in asked.certificates)), None)
        if issuing is None:
            return ocsp.error(ocsp.UNAUTHORIZED)
        try:
            return await self._made(ca_id, issuing, asked, data)
        except Unavailable:
            return ocsp.error(ocsp.TRY_LATER)

    async def _made(self, ca_id: str, issuing: _Issuing, asked: Asked, data: bytes) -> bytes:
        before, now = self._changes, self._host.clock.now()
        found = [await self._host.db.read(_status, ca_id, issuing.kid, one) for one in asked.certificates]
        since = now - now % SECOND
        delegated = issuing.delegated
        answer = Answer(
            key_hash=issuing.key_hash,
            algorithm=delegated.algorithm,
            certificates=issuing.certificates,
            statuses=tuple(found),
            produced_at=since,
            next_update=since + LIFE,
            nonce=asked.nonce,
        )
        body = ocsp.compose(answer)
        signature = await delegated.signer.sign(body, hash_alg=HASHES[delegated.algorithm])
        whole = ocsp.whole(body, answer, signature)
        # Something may have been revoked while it was signed, and one that is unknown now may be issued next.
        if asked.nonce is None and before == self._changes and found[0].known and ocsp.is_plain(data, asked):
            self._remember((ca_id, data), _Remembered(whole, since, told(ca_id, found[0].id.serial.lstrip(b"\0").hex())))
        return whole

    def _remember(self, key: tuple[str, bytes], answer: _Remembered) -> None:
        if key in self._remembered:
            self._drop(key)
        while len(self._remembered) >= self._most:
            self._drop(next(iter(self._remembered)))
        self._remembered[key] = answer
        self._naming[answer.named].add(key)

    def _forget(self, name: str) -> None:
        self._changes += 1
        for key in tuple(self._naming.get(name, ())):
            self._drop(key)

    def _drop(self, key: tuple[str, bytes]) -> None:
        name = self._remembered.pop(key).named
        self._naming[name].discard(key)
        if not self._naming[name]:
            del self._naming[name]


def public_bits(certificate: x509.Certificate) -> bytes:
    """What CertIDs and responder names hash of a key: the content of the BIT STRING in its SubjectPublicKeyInfo."""
    tbs = der.children(certificate.tbs_certificate_bytes)
    return der.content(der.children(tbs[6])[1])[1:]  # version, serial, algorithm, issuer, validity, subject, key


def _is_of(issuing: _Issuing, asked: CertId) -> bool:
    return issuing.hashes.get(asked.hash_name) == (asked.name_hash, asked.key_hash)


def _status(tx: Tx, ca_id: str, kid: str, asked: CertId) -> Status:
    """What the inventory says: a certificate that may exist, though nobody knows it, counts as revoked."""
    row = tx.one(_STATUS, serial=asked.serial.lstrip(b"\0").hex(), ca_id=ca_id) if asked.serial[0] < 0x80 else None
    if row is None or row.kid != kid or row.status == "signing":
        return Status(asked, known=False)
    if row.status == "issued":
        return Status(asked)
    since = row.revoked_at or row.created_at
    return Status(asked, revoked_at=since - since % SECOND, reason=row.reason)
