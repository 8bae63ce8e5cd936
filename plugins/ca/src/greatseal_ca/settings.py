"""The keys of `[ca]` and `[profiles]` that the certificate authority owns."""

import difflib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cryptography.x509 import ObjectIdentifier
from cryptography.x509.oid import ExtendedKeyUsageOID

from greatseal.api.acme import RESERVED_CA_IDS
from greatseal.api.folders import is_program
from greatseal.api.keys import HashAlg, in_store

KEY_TYPES = ("ec:P-256", "ec:P-384", "rsa:2048", "rsa:3072", "rsa:4096", "ed25519", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87")
"""What a CA key may be."""

EKUS = {
    "serverAuth": ExtendedKeyUsageOID.SERVER_AUTH,
    "clientAuth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "codeSigning": ExtendedKeyUsageOID.CODE_SIGNING,
    "emailProtection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timeStamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "smartcardLogon": ExtendedKeyUsageOID.SMARTCARD_LOGON,
    "ipsecIKE": ExtendedKeyUsageOID.IPSEC_IKE,
    "pkInitKDC": ExtendedKeyUsageOID.KERBEROS_PKINIT_KDC,
    "pkInitClientAuth": ObjectIdentifier("1.3.6.1.5.2.3.4"),
}
"""Extended key usages by name. OCSPSigning is not among them: such a certificate could answer for the whole CA."""

SUBJECT_KEY_TYPES = (
    "rsa", "rsa:2048", "rsa:3072", "rsa:4096", "ec:P-256", "ec:P-384", "ec:P-521", "ed25519", "ed448",
    "ml-dsa-44", "ml-dsa-65", "ml-dsa-87",
)  # fmt: skip
"""What keys of certificates may be; rsa is one of any size that is accepted."""

KEY_USAGES = {
    "digitalSignature": "digital_signature",
    "contentCommitment": "content_commitment",
    "keyEncipherment": "key_encipherment",
    "dataEncipherment": "data_encipherment",
    "keyAgreement": "key_agreement",
}
"""Key usages of end entities by name, as cryptography calls them."""
_SIGNS = frozenset({"digitalSignature", "contentCommitment"})
FAMILIES = {
    "rsa": _SIGNS | {"keyEncipherment", "dataEncipherment"},
    "ec": _SIGNS | {"keyAgreement"},
    **dict.fromkeys(("ed25519", "ed448", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87"), _SIGNS),
}
"""The key usages that keys of a family can have."""

_DOTTED = re.compile(r"[0-2](\.(0|[1-9][0-9]{0,9})){2,15}", re.ASCII)
_ANY_POLICY = "2.5.29.32.0"
_LONGEST_ORGANIZATION = 64
"""RFC 5280 appendix A: ub-organization-name."""
_REFUSED_EKUS = {"2.5.29.37.0", ExtendedKeyUsageOID.OCSP_SIGNING.dotted_string}

Id = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")]
Country = Annotated[str, msgspec.Meta(pattern="^[A-Z]{2}$")]
Url = Annotated[str, msgspec.Meta(pattern="^(https?://[!-~]+)?$")]
"""Of status; empty for none."""
ListUrl = Annotated[str, msgspec.Meta(pattern='^(https?://[!-"$->@-~]+)?$')]
"""Without query and fragment: the number of a list is put behind it."""
Days = Annotated[int, msgspec.Meta(ge=1, le=36500)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


class CaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[ca], or [[ca]] for each of several."""

    id: Id = "default"
    """The name of the CA in paths and profiles."""
    is_default: bool | None = None
    """Whether this CA issues where none is named; left out, the only one does."""
    key_file: Name | None = None
    """PEM private key of the issuing CA, readable by its owner alone, or `<key store>:<key>` for one that a key store of a plugin holds.
    Left out, the key is made and kept sealed in the database."""
    cert_file: Path | None = None
    """PEM certificate of the issuing CA and the rest of its chain, root last. Goes with key_file: both exist, or both
    are made; for a key in a key store the certificate is made."""
    key_type: str = "ec:P-256"
    """The keys of a new CA: ec:P-256, ec:P-384, rsa:2048, rsa:3072, rsa:4096, ed25519, ml-dsa-44, ml-dsa-65 or ml-dsa-87."""
    hash_alg: HashAlg = "sha256"
    """The hash of ECDSA and RSA signatures: sha256, sha384 or sha512; never less than the curve of the CA's key asks for."""
    validity_days: Days = 90
    """How long certificates live where the profile does not say."""
    ca_validity_years: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    """How long a new CA lives."""
    common_name: Name | None = None
    """The common name of a new issuing CA; the root adds " Root". Generated when left out."""
    organization: Name | None = None
    """The organization in the subject of a new CA."""
    crl_url: ListUrl | None = None
    """Where relying parties find the revocation list; `<base_url>/ca/crl` when left out. Further lists are below it: `<crl_url>/2`. An
    empty text leaves it out of certificates."""
    ocsp_url: Url | None = None
    """Where relying parties ask for the status of a certificate; `<base_url>/ca/ocsp` when left out. An empty text leaves it out of
    certificates."""
    issuer_url: ListUrl | None = None
    """Where relying parties find the issuing certificate, in DER; `<base_url>/ca/cert` when left out. That of the next key is below it:
    `<issuer_url>/2`. An empty text leaves it out of certificates. Browsers want `http:` in certificates."""
    crl_next_update_secs: Annotated[int, msgspec.Meta(ge=600, le=31_536_000)] = 86_400
    """How long a revocation list is good; a new one is there when half of this is over, and with each revocation."""
    enforce_validity_cap: bool = False
    """Whether lifetimes are cut to what public CAs may give (BR 6.3.2: 200, 100, then 47 days)."""
    chain_with_root: bool = False
    """Whether the chain of a certificate has the root too, which relying parties have anyway. A root that signs leaves is always in it."""
    require_encrypted_key: bool = False
    """Whether a key_file without a password is refused."""
    key_password_file: Path | None = None
    """The password of key_file; a final newline does not count."""
    default_linter: Literal["builtin"] | None = None
    """The linter of to-be-signed certificates; builtin is the only one and always runs."""

    def __post_init__(self) -> None:
        problems = [
            *([f"id: {self.id!r} is a word in the paths of the service; choose another"] if self.id in RESERVED_CA_IDS else []),
            *([] if self.key_type in KEY_TYPES else [f"key_type: {self.key_type!r} is none of {', '.join(KEY_TYPES)}"]),
            *_name_problems(self),
            *_file_problems(self),
        ]
        if problems:
            raise ValueError("; ".join(problems))


class ProfilesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[profiles]: where profiles come from."""

    provider: Literal["builtin"] = "builtin"
    """builtin: the tables [profiles.<id>] of this file, and what operators make by the admin API."""
    refresh_interval_secs: Annotated[int, msgspec.Meta(ge=1)] = 3600
    """How often the profiles that operators made are read again, beside at once where they are made."""


class ProfileSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[profiles.<id>]: one issuing profile. Without any there is one named default."""

    allowed_identifier_patterns: tuple[str, ...] = ()
    """Regular expressions; an identifier must match one in full, as `value` or as `type:value`, within 50 ms. Empty allows any."""
    identifier_match: Literal["all", "any"] = "all"
    """Whether all identifiers of an order must match, or any one of them."""
    auth_hook: Path | None = None
    """A program that decides: JSON on its standard input, exit code 0 permits, anything else denies with its output as the reason."""
    auth_hook_timeout_secs: Annotated[float, msgspec.Meta(gt=0, le=300)] = 30.0
    """How long the program may take; then the answer is no."""
    validity_days: Days | None = None
    """How long certificates live; `[ca] validity_days` when left out."""
    eku: tuple[str, ...] = ("serverAuth",)
    """Extended key usages: serverAuth, clientAuth, codeSigning, emailProtection, timeStamping, smartcardLogon, ipsecIKE, pkInitKDC,
    pkInitClientAuth, or an object identifier. Empty leaves the extension out."""
    crl_url: ListUrl | None = None
    """As `[ca] crl_url`, for the certificates of this profile; `[ca] crl_url` when left out, an empty text for none."""
    ocsp_url: Url | None = None
    """As `[ca] ocsp_url`, for the certificates of this profile; `[ca] ocsp_url` when left out, an empty text for none."""
    ca_ids: tuple[Id, ...] = ()
    """The CAs that offer the profile; empty means all."""
    key_types: tuple[str, ...] = ()
    """The keys that it certifies: rsa for any size, rsa:2048, rsa:3072, rsa:4096, ec:P-256, ec:P-384, ec:P-521, ed25519, ed448, ml-dsa-44,
    ml-dsa-65, ml-dsa-87. Empty allows all."""
    key_usage: tuple[str, ...] = ("digitalSignature",)
    """What keys may be used for: digitalSignature, contentCommitment, keyEncipherment, dataEncipherment, keyAgreement. A certificate has
    those that keys of its type can have: the enciphering ones are for RSA alone, keyAgreement for EC alone."""
    subject: Literal["common_name", "none"] = "common_name"
    """common_name: the first name that is short enough is also the common name. none: names stand in the subjectAltName alone."""
    subject_organization: Name | None = None
    """An organization in the subject of every certificate. Nobody checks that it is the client's."""
    subject_country: Country | None = None
    """A country in the subject of every certificate, in two capital letters (ISO 3166)."""
    policies: tuple[str, ...] = ()
    """Object identifiers of the certificate policies that are claimed."""
    must_staple: Literal["never", "request", "always"] = "never"
    """Whether servers must staple an OCSP answer (RFC 7633): never, where the CSR asks for it, or always."""

    def __post_init__(self) -> None:
        problems = [
            *filter(None, map(_pattern_problem, self.allowed_identifier_patterns)),
            *filter(None, map(_eku_problem, self.eku)),
            *filter(None, map(_policy_problem, self.policies)),
            *_key_problems(self),
        ]
        if self.subject_organization and len(self.subject_organization) > _LONGEST_ORGANIZATION:
            problems.append(f"subject_organization: longer than {_LONGEST_ORGANIZATION} characters")
        if self.auth_hook and not is_program(self.auth_hook):
            problems.append(f"auth_hook: {self.auth_hook} is no file that can be executed")
        if problems:
            raise ValueError("; ".join(problems))


class IssueAs(msgspec.Struct, frozen=True, kw_only=True):
    """The issuer of a profile, a key of the transparency log's plugin."""

    issue_as: str = "x509"
    """x509 for the issuing key of the CA, or another issuer that an enabled plugin brings."""


@cache
def eku_oid(name: str) -> ObjectIdentifier:
    """The object identifier of a name of `eku`."""
    return EKUS.get(name) or ObjectIdentifier(name)


def default_ca(cas: Sequence[CaSettings]) -> tuple[str, list[str]]:
    """The id of the CA that issues where none is named, and what is wrong between several."""
    ids = [ca.id for ca in cas]
    problems = [f"[[ca]] id: {id!r} is there twice; give each CA an id of its own" for id in dict.fromkeys(ids) if ids.count(id) > 1]
    chosen = [ca.id for ca in cas if ca.is_default] or ([ca.id for ca in cas if ca.is_default is None] if len(cas) == 1 else [])
    if len(chosen) != 1:
        problems.append("[ca] is_default: set it to true for one CA, and for no other")
    files = [(ca.id, file) for ca in cas for file in (ca.key_file, str(ca.cert_file)) if ca.key_file and file]
    owners: dict[str, str] = {}
    for ca_id, file in files:
        if owners.setdefault(file, ca_id) != ca_id:
            problems.append(f"[ca] {ca_id}: {file} is that of CA {owners[file]!r}; each CA has a key and a certificate of its own")
    return (chosen or ids or [""])[0], problems


def _name_problems(ca: CaSettings) -> list[str]:
    # RFC 5280 appendix A: 64 at most. They are counted in bytes here, and the root adds " Root".
    limits = {"common_name": (ca.common_name, 59), "organization": (ca.organization, 64)}
    return [f"{key}: longer than {limit} bytes" for key, (value, limit) in limits.items() if value and len(value.encode()) > limit]


def _file_problems(ca: CaSettings) -> list[str]:
    problems = []
    if (ca.key_file is None) != (ca.cert_file is None):
        given, absent = ("key_file", "cert_file") if ca.key_file else ("cert_file", "key_file")
        problems.append(f"{given} is given without {absent}; give both, or neither")
    if ca.key_file is None and (ca.require_encrypted_key or ca.key_password_file):
        problems.append("require_encrypted_key and key_password_file speak of key_file, which is not given")
    if ca.require_encrypted_key and ca.key_password_file is None and ca.key_file:
        problems.append("require_encrypted_key needs key_password_file")
    if ca.key_file and in_store(ca.key_file) and (ca.require_encrypted_key or ca.key_password_file):
        problems.append("require_encrypted_key and key_password_file speak of a file; key_file names a key store")
    return problems


def _pattern_problem(pattern: str) -> str | None:
    import regex  # 15 ms of a start, for those that have patterns

    try:
        regex.compile(pattern)
    except (regex.error, ValueError, RecursionError) as error:
        return f"allowed_identifier_patterns: {pattern!r} is no regular expression: {error}"
    return None


def _policy_problem(name: str) -> str | None:
    if name == _ANY_POLICY:
        return f"policies: {name} (anyPolicy) is for certificates of CAs; name the policies themselves"
    try:
        ObjectIdentifier(name)
    except ValueError:
        return f"policies: {name!r} is no object identifier; write it with dots, such as 2.23.140.1.2.1"
    return None


def _key_problems(own: "ProfileSettings") -> list[str]:
    problems = [_unknown("key_types", name, SUBJECT_KEY_TYPES) for name in own.key_types if name not in SUBJECT_KEY_TYPES]
    problems += [_unknown("key_usage", name, KEY_USAGES) for name in own.key_usage if name not in KEY_USAGES]
    if not own.key_usage:
        problems.append("key_usage: give one at least; digitalSignature is right for TLS")
    if not problems:
        problems += [
            f"key_usage: keys of type {name} can have none of {', '.join(own.key_usage)}; add one of {', '.join(sorted(possible))}"
            for name in own.key_types
            if not (possible := FAMILIES[name.partition(":")[0]]) & set(own.key_usage)
        ]
    for key, values in (("key_types", own.key_types), ("key_usage", own.key_usage), ("policies", own.policies)):
        problems += [f"{key}: {value!r} is there twice" for value in dict.fromkeys(values) if values.count(value) > 1]
    return problems


def _unknown(key: str, name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"{key}: {name!r} is unknown; " + (f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(known)}")


def _eku_problem(name: str) -> str | None:
    if name in EKUS:
        return None
    if name in {"OCSPSigning", "anyExtendedKeyUsage", *_REFUSED_EKUS}:
        return f"eku: {name} is for the CA itself and cannot be in a profile"
    if _DOTTED.fullmatch(name):
        return None
    close = difflib.get_close_matches(name, EKUS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"expected an object identifier or one of {', '.join(EKUS)}"
    return f"eku: {name!r} is unknown; {hint}"
