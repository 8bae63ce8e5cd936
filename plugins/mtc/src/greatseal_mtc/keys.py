"""The keys of a log: the operator's, which signs checkpoints, and the CA cosigner's, which signs subtrees for certificates.

Neither ever signs a TBSCertificate (draft-ietf-plants-merkle-tree-certs-05 s5.4), and a start is refused where one of them signs X.509
certificates elsewhere in this service.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from greatseal import faults
from greatseal.api.folders import folder_problem
from greatseal.api.keys import KeyStore, Signer, in_store
from greatseal.api.problems import Internal, StartProblem
from greatseal.host import Host
from greatseal_mtc.algorithms import BadSignature, CosignerKey, key_of_spki, signature_algorithm, verify
from greatseal_mtc.note import BadNote, Checkpoint, NoteKey, NoteSignature, cosigner_kind, log_kind
from greatseal_mtc.settings import MtcSettings

LOG_KEYS = ("ed25519", "ec:P-256", "ec:P-384")
COSIGNER_KEYS = (*LOG_KEYS, "ml-dsa-44")
_MAKE: Mapping[str, Callable[[], Any]] = {
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ec:P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ec:P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ml-dsa-44": mldsa.MLDSA44PrivateKey.generate,
}


class LogKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of one log; they are one where no `cosigner_key` is configured."""

    operator: Signer
    cosigner: Signer

    @property
    def spki(self) -> bytes:
        """The key of the log, as a LogID has it: the operator's."""
        return self.operator.info.spki

    @property
    def cosigner_public(self) -> CosignerKey:
        """The key by which certificates are checked."""
        return key_of_spki(self.cosigner.info.spki)

    @property
    def algorithm(self) -> bytes:
        """The AlgorithmIdentifier of the CA cosigner's signatures."""
        return signature_algorithm(self.cosigner.public_key)

    def note_key(self, origin: str) -> NoteKey:
        """The operator's key, as verifiers of notes have it; its name is the origin of the log."""
        return NoteKey(origin, log_kind(self.operator.public_key), key_of_spki(self.operator.info.spki))

    def cosigner_note_key(self, name: str) -> NoteKey:
        """The CA cosigner's key, as verifiers of notes have it."""
        return NoteKey(name, cosigner_kind(self.cosigner.public_key), self.cosigner_public)

    async def sign(self, message: bytes) -> bytes:
        """The CA cosigner's signature, as certificates have it. Raises Internal for one that is wrong."""
        signature = await self.cosigner.sign(message)
        try:
            verify(self.cosigner_public, message, signature)
        except BadSignature:
            raise Internal(cause=f"the signature of the log's key {self.cosigner.info.kid} is wrong") from None
        return signature


async def note_line(signer: Signer, key: NoteKey, checkpoint: Checkpoint, *, time: int) -> NoteSignature:
    """A line of signature under a checkpoint, checked as a verifier does. Raises Internal."""
    signed = key.signature(await signer.sign(key.message(checkpoint, time=time), hash_alg="sha256"), time=time)
    try:
        key.verify(checkpoint, signed)
    except BadNote as error:
        raise Internal(cause=f"the key {signer.info.kid} under a checkpoint: {error}") from None
    return signed


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A key that the settings ask for; ``name`` is that of its table."""

    name: str
    purpose: str
    file: str | None
    key_type: str
    accepted: tuple[str, ...]


def wanted(ca_id: str, settings: MtcSettings) -> list[Wanted]:
    """The operator's key, and the CA cosigner's where it is another one."""
    log, own = settings.signing_key, settings.cosigner_key
    found = [Wanted(name="signing_key", purpose=f"mtc:{ca_id}", file=log.key_file, key_type=log.key_type, accepted=LOG_KEYS)]
    if own is not None:
        purpose = f"mtc:{ca_id}:cosigner"
        found.append(Wanted(name="cosigner_key", purpose=purpose, file=own.key_file, key_type=own.key_type, accepted=COSIGNER_KEYS))
    return found


async def open_keys(host: Host, ca_id: str, settings: MtcSettings, others: Mapping[bytes, str]) -> LogKeys:
    """The keys of a log; those that are missing are made. ``others`` are the keys that sign X.509 certificates. Raises StartProblem."""
    place = f"[mtc] of CA {ca_id!r}"
    signers = [await _open(host, one, place) for one in wanted(ca_id, settings)]
    for signer in signers:
        if of := others.get(signer.info.spki):
            raise StartProblem(
                f"{place}: the key of the log is {of}; a key that signs certificates signs no log: give the log another key_file, or none"
            )
    return LogKeys(operator=signers[0], cosigner=signers[-1])


def look(host: Host, settings: Mapping[str, MtcSettings]) -> list[str]:
    """What :func:`open_keys` would refuse of the files that settings name, as far as that can be told without making any."""
    return [
        f"[mtc] {one.name}.key_file of CA {ca_id!r}: {problem}"
        for ca_id, its in settings.items()
        for one in wanted(ca_id, its)
        if one.file is not None and (problem := _problem(host, one, one.file)) is not None
    ]


def _problem(host: Host, one: Wanted, file: str) -> str | None:
    if stored := in_store(file):
        known = host.components(KeyStore)
        if stored[0] in known:
            return None
        return f"no enabled plugin provides the key store {stored[0]!r}; known: {', '.join(known) or 'none'}"
    path = Path(file)
    try:
        if not path.exists():
            reason = folder_problem(path.parent)
            return None if reason is None else f"{path} cannot be made: {reason}"
        return _wrong_type(host.keys.from_file(path, purpose=one.purpose), one.accepted)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    except StartProblem as problem:
        return "; ".join(problem.messages)


async def _open(host: Host, one: Wanted, place: str) -> Signer:
    if one.file is None:
        ring = host.keys.ring(one.purpose)
        signer = ring.active or await ring.make(one.key_type)
        faults.point("mtc.key.made")
    else:
        try:
            if not in_store(one.file):
                await host.blocking.run("making keys", _make_missing, Path(one.file), one.key_type)
            signer = await host.keys.signer(one.file, purpose=one.purpose)
        except StartProblem as problem:
            raise StartProblem(*(f"{place}: {message}" for message in problem.messages)) from None
        except OSError as error:
            raise StartProblem(f"{place}: {one.file} cannot be made: {error.strerror}") from None
    if wrong := _wrong_type(signer, one.accepted):
        raise StartProblem(f"{place}: {wrong}")
    if signer.info.algorithm != one.key_type:
        host.log.warning("key_type is for new keys", purpose=one.purpose, key_type=one.key_type, actual=signer.info.algorithm)
    return signer


def _wrong_type(signer: Signer, accepted: tuple[str, ...]) -> str | None:
    if signer.info.algorithm in accepted:
        return None
    more = "; ML-DSA-44 signs subtrees alone: it goes into cosigner_key" if signer.info.algorithm == "ml-dsa-44" else ""
    return f"the key of the log is of the type {signer.info.algorithm}; expected {', '.join(accepted)}{more}"


def _make_missing(path: Path, key_type: str) -> None:
    """A new file with its mode from the first byte on, whole on the disk before it has its name, where there is none."""
    if path.exists():
        return
    content = _MAKE[key_type]().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
