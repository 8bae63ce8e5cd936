"""Key ceremonies: the next issuing certificate of a CA, by its own root or one elsewhere, and cross-certificates.

Commands do this while the service is stopped; cross-certificates are made by the running service too. What a kill interrupts is finished by
the next of them: the key is in its ring and the request in the database before anything is signed, and the root signs nothing that the
inventory has not recorded.
"""

import asyncio
from collections.abc import Mapping

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.issuance import Certificate, CertificateRequest, IssuanceRequest, Issued, Prepared, Profile
from greatseal.api.keys import Signer
from greatseal.api.problems import BadRequest, Conflict, StartProblem
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal_ca.authorities import Authorities
from greatseal_ca.authority import Made, find_root, key_of, made_days, subject_for
from greatseal_ca.chains import check_chain, constraint_problems, spki_of
from greatseal_ca.generations import FIRST, Asked, Generation, answer, ask, asked, forget, generations, signs, subordinates
from greatseal_ca.issue import CertificateAuthority
from greatseal_ca.profiles import Profiles
from greatseal_ca.requests import read_request, request_of_ca, sign_request
from greatseal_ca.root import ROOT
from greatseal_ca.settings import CaSettings
from greatseal_ca.validity import DAY, as_datetime, moment_of

ISSUING = "issuing"
CROSS = "cross"


class Ceremonies:
    """Those of the CAs of one service."""

    def __init__(
        self,
        host: Host,
        settings: Mapping[str, CaSettings],
        profiles: Profiles,
        authorities: Authorities,
        issuance: CertificateAuthority,
    ) -> None:
        self._host = host
        self._settings = settings
        self._profiles = profiles
        self._authorities = authorities
        self._issuance = issuance
        self._crossing = asyncio.Lock()  # the next one finishes what an interrupted one left, and none that is at work

    async def renew(self, ca_id: str, *, same_key: bool) -> Generation:
        """The next issuing certificate by the CA's own root, for a new key or the same. Raises StartProblem or a Problem.

        It needs the root alone: the key of the issuing certificate may be lost, or blocked.
        """
        ca = self._sealed(ca_id)
        root = await self._open_root(ca)
        before = await self._host.db.read(generations, ca_id, ISSUING)
        if not before:
            raise _wrong(ca_id, "it has no certificate yet; the first start makes root and issuing certificate")
        if before[0].above and before[0].above[-1] != root.der:
            raise _wrong(ca_id, "its root is elsewhere; make a request for it with: greatseal ca renew --csr")
        await self._finish(ca_id)
        question = await self._waiting(ca_id)
        if question and question.elsewhere:
            raise _wrong(ca_id, f"{_of(question)} waits for a certificate from elsewhere; import it, or give it up with --discard")
        if question is None and (after := await self._newest(ca_id)).number != before[0].number:
            return after  # an interrupted command was finished
        if question is None:
            question = await self._ask(ca, await self._key(ca, same_key=same_key), elsewhere=False)
        await self._sign(ca_id, read_request(question.csr), kind=ISSUING, days=made_days(ca), path_length=0)
        return await self._newest(ca_id)

    async def request(self, ca_id: str, *, same_key: bool) -> Asked:
        """A request that a root elsewhere is to sign: the one that waits already, or a new one. No root is made here."""
        ca = self._sealed(ca_id)
        question = await self._waiting(ca_id)
        if question and not question.elsewhere:
            raise _wrong(ca_id, f"{_of(question)} for its own root was interrupted; finish it with: greatseal ca renew")
        if question:
            return question
        return await self._ask(ca, await self._key(ca, same_key=same_key), elsewhere=True)

    async def discard(self, ca_id: str) -> bool:
        """Give up the request that waits; its key is never used. False when there is none."""
        question = await self._waiting(self._known(ca_id).id)
        return question is not None and await self._host.db.write(forget, question)

    async def bring(self, ca_id: str, pem: bytes) -> int:
        """Put in force the certificate that a root elsewhere gave for the request, with those above it; its generation."""
        self._sealed(ca_id)
        question = await self._waiting(ca_id)
        if question is None or not question.elsewhere:
            raise _wrong(ca_id, "no request waits for a certificate; make one with: greatseal ca renew --csr")
        try:
            certificates = x509.load_pem_x509_certificates(pem)
        except ValueError as error:
            raise _wrong(ca_id, f"the file cannot be read as PEM certificates: {error}") from None
        if spki_of(certificates[0]) != read_request(question.csr).spki:
            raise _wrong(ca_id, f"the first certificate is for another key than {_of(question)}")
        try:
            check_chain(certificates, self._host.clock.now())
        except ValueError as error:
            raise _wrong(ca_id, str(error)) from None
        if problems := constraint_problems(certificates, self._profiles.signed(ca_id)):
            raise StartProblem(*(f"[ca] {ca_id}: {problem}" for problem in problems))
        first, *above = (one.public_bytes(Encoding.DER) for one in certificates)
        return await self._host.db.write(answer, question, first, above)

    async def cross(self, ca_id: str, subject: bytes, *, days: int, path_length: int | None, by: str) -> Certificate:
        """A certificate by the root of the CA for another CA, of which ``subject`` is the certificate or a request.

        Raises a Problem: BadRequest for a subject that is none, Conflict for a root that is not here or whose key is blocked.
        """
        async with self._crossing:
            await self._open_signing_root(self._known(ca_id))
            await self._finish(ca_id)
            try:
                request, certificate = request_of_ca(subject)
            except ValueError as error:
                raise BadRequest(f"what was given {error}") from None
            if request.spki in await self._own_keys(ca_id):
                raise BadRequest("what was given is of a key of this CA itself")
            end = moment_of(certificate.not_valid_after_utc) if certificate else None
            if end is not None and end <= self._host.clock.now():
                raise BadRequest("the certificate of the other CA has ended")
            below = _path_length(certificate) if path_length is None else path_length
            return await self._sign(ca_id, request, kind=CROSS, days=days, path_length=below, latest=end, by=by)

    async def _sign(
        self,
        ca_id: str,
        csr: CertificateRequest,
        *,
        kind: str,
        days: int,
        path_length: int,
        latest: int | None = None,
        by: str | None = None,
    ) -> Certificate:
        """A certificate of a CA by the root, through the inventory. An issuing certificate is in force with it.

        ``by`` is who asks for a cross-certificate.
        """
        profile = Profile(
            id=kind, description="a CA", issue_as=ROOT, ca_id=ca_id, validity_days=days, eku=(), path_length=path_length
        )  # fmt: skip
        end = self._authorities.roots[ca_id].certificate.not_valid_after_utc
        longest = self._host.clock.now() + (days - 1) * DAY
        wanted = None if latest is None else min(latest, moment_of(end), longest)
        asked_for = IssuanceRequest(profile=profile, ca_id=ca_id, identifiers=(), csr=csr, account=None, not_after=wanted)
        draft = await self._issuance.compose(asked_for)

        def reserve(tx: Tx) -> Prepared:
            prepared = self._issuance.reserve(tx, draft)
            signs(tx, prepared.id, ca_id, kind)
            if by is not None:
                detail = f"certificate {prepared.id} for the key with the SHA-256 {csr.spki_sha256}"
                tx.audit(AuditEvent(event_type="ca.cross_sign", service="ca", sub=ca_id, principal=by, detail=detail))
            return prepared

        prepared = await self._host.db.write(reserve)
        faults.point("ca.ceremony.reserved")
        return await self._host.db.write(self._record, prepared, await self._issuance.issue(prepared))

    async def _finish(self, ca_id: str) -> None:
        """What an interrupted command left: signed as it was recorded, or given up where nobody can know."""
        for prepared in await self._host.db.read(self._left, ca_id):
            issued = await self._issuance.settle(prepared)
            if issued is None:
                await self._host.db.write(self._issuance.abandon, prepared)
            else:
                await self._host.db.write(self._record, prepared, issued)

    def _left(self, tx: Tx, ca_id: str) -> list[Prepared]:
        return [found for id in subordinates(tx, ca_id) if (found := self._issuance.reserved(tx, id)) is not None]

    def _record(self, tx: Tx, prepared: Prepared, issued: Issued) -> Certificate:
        """The certificate, and in the same transaction the next generation where it answers the request that waits."""
        made = self._issuance.record(tx, prepared, issued)
        question = asked(tx, prepared.ca_id)
        if (
            made.profile == ISSUING
            and question
            and not question.elsewhere
            and read_request(question.csr).spki_sha256 == made.spki_sha256.hex()
        ):
            answer(tx, question, issued.der, issued.chain)
        faults.point("ca.ceremony.recorded")
        return made

    async def _ask(self, ca: CaSettings, signer: Signer, *, elsewhere: bool) -> Asked:
        made = await self._host.db.read(generations, ca.id, ISSUING)
        current = made[0] if made else None
        if current and current.kid == signer.info.kid:
            subject = x509.load_der_x509_certificate(current.der).subject
        else:
            subject = subject_for(ca, ISSUING, signer.info.spki, number=made[0].number + 1 if made else FIRST)
        csr = await sign_request(signer, subject, ca.hash_alg)
        return await self._host.db.write(ask, ca.id, signer.info.kid, csr, elsewhere=elsewhere)

    async def _key(self, ca: CaSettings, *, same_key: bool) -> Signer:
        """The key in force, or one that no certificate has; one that an interrupted command left, where it is of the right type."""
        if same_key:
            before = await self._host.db.read(generations, ca.id, ISSUING)
            if not before or (signer := await key_of(self._host, ca.id, ISSUING, before[0].kid)) is None:
                raise _wrong(ca.id, "it has no key here; leave --same-key out")
            if blocked := await self._host.blocked_keys.find(spki_sha256(signer.public_key)):
                raise _wrong(ca.id, f"its key is blocked ({blocked.reason}); leave --same-key out")
            return signer
        ring = self._host.keys.ring(f"ca:{ca.id}:{ISSUING}")
        used = {one.kid for one in await self._host.db.read(generations, ca.id, ISSUING)}
        left = ring.active
        if left is not None and left.info.kid not in used and left.info.algorithm == ca.key_type:
            return left
        made = await ring.make(ca.key_type)
        faults.point("ca.ceremony.key_made")
        return made

    async def _open_root(self, ca: CaSettings) -> Made:
        if (root := await find_root(self._host, ca)) is None:
            raise _wrong(ca.id, "its root is not here; a root elsewhere signs what it is asked for with: greatseal ca renew --csr")
        self._authorities.roots[ca.id] = root
        return root

    async def _open_signing_root(self, ca: CaSettings) -> None:
        """As :meth:`_open_root`, while the service may run. Raises Conflict."""
        if (root := await find_root(self._host, ca)) is None:
            raise Conflict("the root of this CA is not here; a root elsewhere signs cross-certificates elsewhere")
        if await self._host.blocked_keys.find(spki_sha256(root.signer.public_key)):
            raise Conflict("the key of the root of this CA is blocked; nobody should trust what it signs")
        self._authorities.roots[ca.id] = root

    async def _newest(self, ca_id: str) -> Generation:
        return (await self._host.db.read(generations, ca_id, ISSUING))[0]

    async def _own_keys(self, ca_id: str) -> set[bytes]:
        made = [await self._host.db.read(generations, ca_id, role) for role in (ISSUING, "root")]
        return {spki_of(x509.load_der_x509_certificate(one.der)) for found in made for one in found}

    async def _waiting(self, ca_id: str) -> Asked | None:
        return await self._host.db.read(asked, ca_id)

    def _sealed(self, ca_id: str) -> CaSettings:
        ca = self._known(ca_id)
        if ca.key_file:
            raise _wrong(ca_id, f"its key is {ca.key_file}; have a certificate made for that key, put it into cert_file, and start again")
        return ca

    def _known(self, ca_id: str) -> CaSettings:
        if ca_id not in self._authorities.ids:
            raise StartProblem(f"there is no CA {ca_id!r} that signs itself; there is {', '.join(self._authorities.ids) or 'none'}")
        return self._settings[ca_id]


def _path_length(certificate: x509.Certificate | None) -> int:
    """As many CAs as its own certificate lets follow; for a root that does not say, one, and none for another CA."""
    if certificate is None:
        return 0
    own = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length
    return own if own is not None else int(certificate.subject == certificate.issuer)


def _of(question: Asked) -> str:
    return f"the request of {as_datetime(question.created_at):%Y-%m-%d}"


def _wrong(ca_id: str, what: str) -> StartProblem:
    return StartProblem(f"[ca] {ca_id}: {what}")
