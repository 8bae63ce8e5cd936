"""Certificate authorities: a root and an issuing CA under it, made at the first start or brought as files."""

import hashlib
import os
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal import der, faults
from greatseal.api.issuance import Bounds, Frame, IssuanceRequest, Profile
from greatseal.api.keys import KeyRing, Signer
from greatseal.api.problems import Internal, StartProblem
from greatseal.host import Host
from greatseal_ca.algorithms import HASHES, signature_algorithm
from greatseal_ca.build import (
    Composition,
    authority_key_identifier,
    common_name,
    draw_serial,
    extension,
    organization,
    subject_of,
    to_be_signed,
)
from greatseal_ca.constraints import Constraints
from greatseal_ca.generations import FIRST, Generation, asked, begin_first, generations, keep_first
from greatseal_ca.inventory import lifetime
from greatseal_ca.lint import lint
from greatseal_ca.profiles import PLAIN
from greatseal_ca.requests import unsigned_request
from greatseal_ca.settings import CaSettings
from greatseal_ca.validity import DAY, Window, as_datetime

RESTORE = "restore the database and the cluster key"


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """A CA that can sign. ``chain`` begins with its own certificate and ends with the root's; ``number`` is the first generation of its
    key, 1 for a CA of files."""

    ca_id: str
    signer: Signer
    certificate: x509.Certificate
    chain: tuple[bytes, ...]
    number: int = FIRST


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A CA certificate of one role with its key."""

    signer: Signer
    certificate: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


async def open_sealed(host: Host, ca: CaSettings) -> list[Authority]:
    """The CA whose keys are sealed in the database, newest generation first; what is missing of it is made.

    Several processes may do this at once. Raises StartProblem.
    """
    if not (found := await host.db.read(generations, ca.id, "issuing")):
        if waiting := await host.db.read(asked, ca.id):
            when = f"{as_datetime(waiting.created_at):%Y-%m-%d}"
            raise StartProblem(f"[ca] {ca.id}: the request of {when} waits for its certificate; bring it with: greatseal ca import")
        await _open(host, ca, "issuing", await open_root(host, ca))
        found = await host.db.read(generations, ca.id, "issuing")
    root = await find_root(host, ca)
    firsts = {one.kid: one.number for one in found}  # newest first, so that the first of each key stays
    newest, *former = [await _authority(host, ca, one, root, firsts[one.kid]) for one in found]
    if newest is None:
        raise StartProblem(f"[ca] {ca.id}: the key {found[0].kid} of the issuing certificate is gone; {RESTORE}")
    return [newest, *filter(None, former)]


async def open_root(host: Host, ca: CaSettings) -> Made:
    """The root of a CA that was made here; it is made when it is missing."""
    return await _open(host, ca, "root", None)


async def find_root(host: Host, ca: CaSettings) -> Made | None:
    """The root of a CA that was made here, None where there is none, or where its key is gone."""
    found = await host.db.read(generations, ca.id, "root")
    if not found or (signer := await key_of(host, ca.id, "root", found[0].kid)) is None:
        return None
    return Made(signer=signer, certificate=x509.load_der_x509_certificate(found[0].der))


async def key_of(host: Host, ca_id: str, role: str, kid: str) -> Signer | None:
    """A key of the ring of that role."""
    ring = host.keys.ring(f"ca:{ca_id}:{role}")
    if (signer := _with_kid(ring, kid)) is None:
        await host.keys.load()  # another process made it after our rings were read
        signer = _with_kid(ring, kid)
    return signer


def write_public(path: Path, text: str) -> None:
    """Write a file for people, whole or not at all, unless it says the same already."""
    if path.exists() and path.read_text(encoding="ascii") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="ascii")
    fresh.chmod(0o644)
    fresh.replace(path)


async def certify(host: Host, ca: CaSettings, subject: Signer, issuer: Made | None) -> x509.Certificate:
    """A CA certificate for the key of ``subject``: of a root without ``issuer``, else of the issuing CA under it. It is linted and
    recorded, then signed."""
    signer = issuer.signer if issuer else subject
    composition = _composition(host, ca, subject, issuer)
    tbs = to_be_signed(composition.content(host.clock.now()), composition.frame)
    lint(tbs, composition)
    await host.db.write(begin_first, ca.id, composition.request.profile.id, signer.info.kid, tbs)
    return await sign_recorded(signer, tbs, issuer.certificate if issuer else None)


async def sign_recorded(signer: Signer, tbs: bytes, issuer: x509.Certificate | None) -> x509.Certificate:
    """The certificate of a CA that was recorded, signed by the key of a root, its own without ``issuer``. Raises Internal."""
    algorithm = der.children(tbs)[2]
    faults.point("ca.root.signing")
    signature = await signer.sign(tbs, hash_alg=HASHES[algorithm])
    certificate = x509.load_der_x509_certificate(der.signed(tbs, algorithm, signature))
    faults.point("ca.root.signed")
    try:
        certificate.verify_directly_issued_by(issuer or certificate)
    except (InvalidSignature, ValueError, TypeError) as error:
        serial = f"{certificate.serial_number:x}"
        raise Internal(cause=f"the signature of root key {signer.info.kid} under serial {serial} is wrong: {error}") from None
    return certificate


def made_days(ca: CaSettings) -> int:
    """How many days a CA lives that is made here."""
    return ca.ca_validity_years * 365


async def _authority(host: Host, ca: CaSettings, one: Generation, root: Made | None, number: int) -> Authority | None:
    """A generation that can sign; None, with a line in the log, for one whose key or root is gone."""
    signer = await key_of(host, ca.id, "issuing", one.kid)
    above = one.above or ((root.der,) if root else ())
    if signer is None or not above:
        host.log.warning("the key of an issuing certificate is gone", ca=ca.id, generation=one.number, kid=one.kid)
        return None
    certificate = x509.load_der_x509_certificate(one.der)
    return Authority(ca_id=ca.id, signer=signer, certificate=certificate, chain=(one.der, *above), number=number)


async def _open(host: Host, ca: CaSettings, role: str, issuer: Made | None) -> Made:
    ring = host.keys.ring(f"ca:{ca.id}:{role}")
    if found := await host.db.read(generations, ca.id, role):
        kid, der = found[0].kid, found[0].der
    else:
        kid, der = await _make(host, ca, role, issuer, ring)
    if (signer := await key_of(host, ca.id, role, kid)) is None:
        raise StartProblem(f"[ca] {ca.id}: the key {kid} of the {role} certificate is gone; {RESTORE}")
    if signer.info.algorithm != ca.key_type:
        host.log.warning("key_type is for new CAs", ca=ca.id, role=role, key_type=ca.key_type, actual=signer.info.algorithm)
    return Made(signer=signer, certificate=x509.load_der_x509_certificate(der))


async def _make(host: Host, ca: CaSettings, role: str, issuer: Made | None, ring: KeyRing) -> tuple[str, bytes]:
    """Key, then certificate; a start that was killed in between is finished by the next one with the key that it left."""
    signer = ring.active
    if signer is None or signer.info.algorithm != ca.key_type:
        signer = await ring.make(ca.key_type)
    faults.point(f"ca.{role}.key_made")
    made = await certify(host, ca, signer, issuer)
    kid, der = await host.db.write(keep_first, ca.id, role, signer.info.kid, made.public_bytes(Encoding.DER))
    faults.point(f"ca.{role}.recorded")
    if kid != signer.info.kid:  # another process was first: its certificate counts, our key was never used
        await ring.revoke(signer.info.kid)
    return kid, der


def _with_kid(ring: KeyRing, kid: str) -> Signer | None:
    return next((one for one in ring.all() if one.info.kid == kid), None)


def subject_for(ca: CaSettings, role: str, spki: bytes, *, number: int = FIRST) -> x509.Name:
    """Configured, or with a piece of the key's digest, so that two installations never share a name, and two keys neither."""
    if ca.common_name:
        common = f"{ca.common_name} Root" if role == "root" else ca.common_name
        common += f" G{number}" if number > FIRST else ""
    else:
        common = f"Greatseal {role.title()} CA {hashlib.sha256(spki).hexdigest()[:8]}"
    return x509.Name([*([organization(ca.organization)] if ca.organization else []), common_name(common)])


def _composition(host: Host, ca: CaSettings, subject: Signer, issuer: Made | None) -> Composition:
    role, days, signer = "issuing" if issuer else "root", made_days(ca), issuer.signer if issuer else subject
    csr = unsigned_request(subject, subject_for(ca, role, subject.info.spki))
    profile = Profile(id=role, description="a CA", issue_as="root", ca_id=ca.id, validity_days=days, eku=(), path_length=0)
    above = issuer.certificate if issuer else None
    frame = Frame(
        kid=signer.info.kid,
        issuer=subject_of(above) if above else csr.csr.subject.public_bytes(),
        algorithm=signature_algorithm(signer.info.algorithm, ca.hash_alg),
        serial=draw_serial(),
        extensions=(extension(authority_key_identifier(above)),) if above else (),
    )
    begin, end = lifetime(issuer.der) if issuer else (0, host.clock.now() + days * DAY)
    return Composition(
        request=IssuanceRequest(profile=profile, ca_id=ca.id, identifiers=(), csr=csr, account=None),
        own=PLAIN,
        names=(),
        frame=frame,
        window=Window(Bounds(begin=begin, end=end), capped=False),
        constraints=Constraints(()),
        root=issuer is None,
    )
