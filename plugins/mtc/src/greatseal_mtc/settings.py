"""The keys of `[mtc]`, those of a CA's own in `[[ca]]`, and `issue_as` of profiles."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from greatseal.api.keys import in_store
from greatseal_mtc.algorithms import CosignerKey as CosignerPublicKey
from greatseal_mtc.algorithms import key_of_spki, spki_of
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import DIALECTS, Dialect
from greatseal_mtc.hashes import HASHES, Hash
from greatseal_mtc.note import Kind, NoteKey

HashName = Literal["sha256", "sha384", "sha512", "sha3-256", "sha3-384", "sha3-512"]
DialectName = Literal["plants-05", "plants-07"]
LogKeyType = Literal["ed25519", "ec:P-256", "ec:P-384"]
CosignerKeyType = Literal["ed25519", "ec:P-256", "ec:P-384", "ml-dsa-44"]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Id = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")]
Interval = Annotated[int, msgspec.Meta(ge=1, le=31_536_000)]
LogNumber = Annotated[int, msgspec.Meta(ge=1, le=65_535)]

_HTTPS = re.compile(r"https://[!-~]+")
_WITNESS = re.compile(r"https?://[!-~]*[!-.0-~]")
_NAMED = "oid/1.3.6.1.4.1."
_CURVES = {"ec:P-256": "sha256", "ec:P-384": "sha384"}


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """[mtc] signing_key: the key of the log."""

    key_file: Name | None = None
    """PEM private key, readable by its owner alone, made when it is not there; or `<key store>:<key>` for one that a key store of a plugin
    holds. Left out, the key is made and kept sealed in the database."""
    key_type: LogKeyType = "ed25519"
    """The key that is made: ed25519, ec:P-256 or ec:P-384."""
    hash_alg: Literal["sha256", "sha384"] | None = None
    """The hash of its ECDSA signatures; only that of its curve, which is the one when it is left out, can be read by others."""

    def __post_init__(self) -> None:
        if self.hash_alg not in {None, _CURVES.get(self.key_type, self.hash_alg)}:
            expected = _CURVES[self.key_type]
            raise ValueError(f"hash_alg: signatures of an {self.key_type} key are over {expected}, which notes ask for; leave it out")


class CosignerKey(msgspec.Struct, frozen=True, kw_only=True):
    """[mtc] cosigner_key: a key of its own for what the CA signs of subtrees."""

    key_file: Name | None = None
    """As that of `signing_key`."""
    key_type: CosignerKeyType = "ed25519"
    """The key that is made: ed25519, ec:P-256, ec:P-384 or ml-dsa-44."""


class Cosigner(msgspec.Struct, frozen=True, kw_only=True):
    """[[mtc.cosigners]]: who is asked to sign each checkpoint too."""

    url: str
    """Where the checkpoint is POSTed to in DER: an https URL."""
    cosigner_id_cert_pem: str | None = None
    """The certificate of the cosigner in PEM: its signatures are checked with the key in it. Left out, they are taken unchecked."""
    trust_anchor_id: str | None = None
    """The ID of the cosigner, such as 32473.2, which its signatures must name. Goes with `cosigner_id_cert_pem`."""

    def __post_init__(self) -> None:
        if not _HTTPS.fullmatch(self.url):
            raise ValueError(f"url: {self.url!r} is no https URL")
        if self.trust_anchor_id is not None:
            if self.cosigner_id_cert_pem is None:
                raise ValueError("trust_anchor_id: is given without cosigner_id_cert_pem, so nobody could check it; give both, or neither")
            _anchor(self.trust_anchor_id)
        if self.cosigner_id_cert_pem is not None:
            _key_in(self.cosigner_id_cert_pem)

    @property
    def key(self) -> CosignerPublicKey | None:
        """By what its signatures are checked."""
        return None if self.cosigner_id_cert_pem is None else _key_in(self.cosigner_id_cert_pem)

    @property
    def anchor(self) -> TrustAnchorId | None:
        """The ID that its signatures must name."""
        return None if self.trust_anchor_id is None else TrustAnchorId.parse(self.trust_anchor_id)


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """[[mtc.witnesses]]: who watches that the log only grows (C2SP tlog-witness)."""

    url: str
    """What stands before `add-checkpoint` in its URLs."""
    vkey: Name
    """Its verifier key, as it publishes it: `<name>+<key ID>+<key>`, for cosignatures."""
    subtrees: bool = False
    """Whether it is also asked to sign subtrees, for certificates. Its key is one of ML-DSA-44, and its name begins with `oid/` then."""

    def __post_init__(self) -> None:
        if not _WITNESS.fullmatch(self.url):
            raise ValueError(f"url: {self.url!r} is no http or https URL without a slash at its end")
        try:
            kind = NoteKey.parse(self.vkey).kind
        except ValueError as error:
            raise ValueError(f"vkey: {error}") from None
        if not kind.timed:
            raise ValueError("vkey: a witness signs with Ed25519 or ML-DSA-44, of the types 0x04 and 0x06")
        if self.subtrees and self.anchor is None:
            raise ValueError(f"subtrees: the name in vkey is no ID of a cosigner; expected such as {_NAMED}32473.2, and ML-DSA-44")

    @property
    def key(self) -> NoteKey:
        """By what its signatures are checked."""
        return NoteKey.parse(self.vkey)

    @property
    def anchor(self) -> TrustAnchorId | None:
        """The ID with which its signatures of subtrees go into certificates; None for one that has none."""
        key = self.key
        if key.kind is not Kind.MLDSA44_COSIGNER or not key.name.startswith(_NAMED):
            return None
        try:
            return TrustAnchorId(key.name.removeprefix(_NAMED))
        except ValueError:
            return None


class MtcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[mtc]: the log of what the CA issues, or of each of several CAs."""

    enabled: bool = True
    """Whether there is a log: true when the section is there."""
    trust_anchor_id: str | None = None
    """The ID of the CA, which is the issuer in its Merkle Tree certificates: an object identifier below 1.3.6.1.4.1, such as 32473.1,
    with a private enterprise number of yours. It must be given, and each CA has one of its own."""
    hash_alg: HashName = "sha256"
    """The hash of the tree: sha256, sha384, sha512, sha3-256, sha3-384 or sha3-512. A log keeps the one that it was made with, and the
    tools of other logs read sha256 alone."""
    dialect: DialectName = "plants-05"
    """The revision of the draft whose certificates are made: plants-05 or plants-07. A log keeps the one that it was made with."""
    log_number: LogNumber = 1
    """The number of the log of the CA, 1 to 65535; `greatseal log recover` goes on to the next one."""
    log_backend: Name | None = None
    """Where the log rests: files, sql for the database, or what another plugin provides. Left out, files with SQLite, else sql."""
    log_path: Path | None = None
    """The folder of logs in files; `mtc` in the state folder when left out."""
    signing_key: SigningKey = SigningKey()
    """The key of the log, which signs checkpoints, and subtrees for certificates where there is no `cosigner_key`."""
    cosigner_key: CosignerKey | None = None
    """A key of its own for what the CA signs of subtrees; needed for ML-DSA-44."""
    checkpoint_interval_secs: Interval = 3600
    """How often the log is signed, when it has grown."""
    checkpoint_retention_count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    """How many checkpoints are kept."""
    landmark_interval_secs: Interval = 86_400
    """How often a landmark is made, when the log has grown."""
    max_active_landmarks: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 100
    """How many landmarks are kept. Their number times the interval should be longer than certificates live."""
    cosigners: tuple[Cosigner, ...] = ()
    """Who is asked to sign each checkpoint too."""
    witnesses: tuple[Witness, ...] = ()
    """Who watches that the log only grows."""

    def __post_init__(self) -> None:
        if self.trust_anchor_id is not None:
            _anchor(self.trust_anchor_id)
        if problems := [*_twins("cosigners", self.cosigners), *_twins("witnesses", self.witnesses)]:
            raise ValueError("; ".join(problems))

    @property
    def anchor(self) -> TrustAnchorId:
        """The ID of the CA."""
        assert self.trust_anchor_id is not None, "verified at the start"
        return _parsed(self.trust_anchor_id)

    @property
    def hash(self) -> Hash:
        """The hash of the tree."""
        return HASHES[self.hash_alg]

    @property
    def of_dialect(self) -> Dialect:
        """The revision of the draft."""
        return DIALECTS[self.dialect]


class OfCa(msgspec.Struct, frozen=True, kw_only=True):
    """[ca] mtc: what is otherwise for the log of one CA. Each key is that of `[mtc]`, whose value counts where it is left out."""

    enabled: bool | None = None
    trust_anchor_id: str | None = None
    hash_alg: HashName | None = None
    dialect: DialectName | None = None
    log_number: LogNumber | None = None
    log_backend: Name | None = None
    log_path: Path | None = None
    signing_key: SigningKey | None = None
    cosigner_key: CosignerKey | None = None
    checkpoint_interval_secs: Interval | None = None
    checkpoint_retention_count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    landmark_interval_secs: Interval | None = None
    max_active_landmarks: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    cosigners: tuple[Cosigner, ...] | None = None
    witnesses: tuple[Witness, ...] | None = None

    def over(self, general: MtcSettings) -> MtcSettings:
        """The settings of the CA's log. Raises ValueError."""
        own = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(general, **own)


class CaLog(msgspec.Struct, frozen=True, kw_only=True):
    """[ca]: the log of one CA."""

    mtc: OfCa | None = None
    """What is otherwise than in `[mtc]` for the log of this CA: each key is that of `[mtc]`, whose value counts where it is left out. With
    it alone, without `[mtc]`, only this CA has a log."""


class CaName(msgspec.Struct, frozen=True, kw_only=True):
    """[ca], whose logs they are."""

    id: Id = "default"
    """The name of the CA in paths and profiles."""
    is_default: bool | None = None
    """Whether this CA issues where none is named; left out, the only one does."""


class IssueAs(msgspec.Struct, frozen=True, kw_only=True):
    """[profiles.*]: the issuer of a profile."""

    issue_as: str = "x509"
    """x509 for the issuing key of the CA, mtc for a standalone Merkle Tree certificate, or another issuer that an enabled plugin brings."""


def logs_of(
    cas: Sequence[CaName], own: Sequence[CaLog], general: MtcSettings, *, present: bool
) -> tuple[dict[str, MtcSettings], list[str]]:
    """The settings of the logs there are, by the id of their CA, and what is wrong with them. ``present``: `[mtc]` is there."""
    found: dict[str, MtcSettings] = {}
    problems: list[str] = []
    owners: dict[str, str] = {}
    for ca, its in zip(cas, own, strict=True):
        if not present and its.mtc is None:
            continue
        settings = general if its.mtc is None else its.mtc.over(general)
        if not settings.enabled:
            continue
        if _shared_anchor(its, general, found):
            settings = msgspec.structs.replace(settings, trust_anchor_id=None)
        if settings.trust_anchor_id is None:
            problems.append(_without_anchor(ca.id, alone=len(cas) == 1))
            continue
        problems += [f"[ca] {ca.id}: mtc.{problem}" for problem in _unfit(settings)]
        what = {"trust_anchor_id": settings.anchor.ascii, **_key_files(settings)}
        for key, value in what.items():
            first = owners.setdefault(f"{key.partition('.')[2]}{value}", ca.id)
            if first != ca.id:
                problems.append(f"[ca] {ca.id}: mtc.{key}: {value} is that of CA {first!r}; each log has its own")
        found[ca.id] = settings
    return found, problems


def _unfit(settings: MtcSettings) -> Iterator[str]:
    """What goes with other hashes alone."""
    name, known = settings.hash_alg, settings.of_dialect.hashes
    if name not in known:
        yield f"hash_alg: logs of {settings.dialect} have {', '.join(sorted(known))} alone, not {name}"
    if name != "sha256" and settings.cosigner_key is not None and settings.cosigner_key.key_type == "ml-dsa-44":
        yield f"cosigner_key: ML-DSA-44 signs trees of sha256 alone, not of {name}"
    if name != "sha256" and settings.witnesses:
        yield f"witnesses: witnesses know trees of sha256 alone, not of {name}"


def _shared_anchor(its: CaLog, general: MtcSettings, found: Mapping[str, MtcSettings]) -> bool:
    """Whether the ID of `[mtc]` would be that of a second CA."""
    of_itself = its.mtc is not None and its.mtc.trust_anchor_id is not None
    return not of_itself and any(one.trust_anchor_id == general.trust_anchor_id for one in found.values())


def _without_anchor(ca_id: str, *, alone: bool) -> str:
    where = "[mtc] trust_anchor_id" if alone else f"[ca] {ca_id}: mtc.trust_anchor_id"
    off = "" if alone else "; or set mtc.enabled = false where the CA is to have no log"
    return f"{where}: give the ID of the CA, an object identifier below 1.3.6.1.4.1 such as 32473.1{off}"


def _key_files(settings: MtcSettings) -> dict[str, str]:
    files = {"signing_key.key_file": settings.signing_key.key_file, "cosigner_key.key_file": None}
    if settings.cosigner_key is not None:
        files["cosigner_key.key_file"] = settings.cosigner_key.key_file
    return {key: value if in_store(value) else str(Path(value).absolute()) for key, value in files.items() if value is not None}


def _twins(key: str, listed: Sequence[Any]) -> list[str]:
    urls = [one.url for one in listed]
    return [f"{key}: {url} is there twice" for url in dict.fromkeys(urls) if urls.count(url) > 1]


@lru_cache(256)
def _parsed(text: str) -> TrustAnchorId:
    return TrustAnchorId.parse(text)


def _anchor(text: str) -> None:
    try:
        TrustAnchorId.parse(text)
    except ValueError as error:
        raise ValueError(f"trust_anchor_id: {error}") from None


@lru_cache(256)
def _key_in(pem: str) -> CosignerPublicKey:
    try:
        return key_of_spki(spki_of(x509.load_pem_x509_certificate(pem.encode()).public_key()))  # type: ignore[arg-type]  # then refused
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"cosigner_id_cert_pem: no certificate in PEM of a key that a cosigner may have: {error}") from None
