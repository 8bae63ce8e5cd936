"""Entity statements (OpenID Federation 1.0 s3): how they are read, and the rules that each keeps by itself (s3.2)."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import BadJws, Jws, parse_compact
from greatseal.jose.keysets import VerificationKey, read_key_set
from greatseal.jose.strict import decode_object
from greatseal_openid_federation.entities import EntityId

TYPE = "entity-statement+jwt"
MEDIA_TYPE = f"application/{TYPE}"
TRUST_MARK = "trust-mark+jwt"
LEEWAY = 60
"""Seconds that the clock of an issuer may be ahead."""

Moment = Annotated[float, msgspec.Meta(ge=0, lt=1 << 40)]
EntityIds = Annotated[tuple[EntityId, ...], msgspec.Meta(min_length=1)]
Words = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
Metadata = Mapping[str, Mapping[str, Any]]

OF_CONFIGURATIONS = frozenset({"authority_hints", "trust_anchor_hints", "trust_marks", "trust_mark_issuers", "trust_mark_owners"})
OF_SUBORDINATES = frozenset({"constraints", "metadata_policy", "metadata_policy_crit", "source_endpoint"})
OF_REGISTRATIONS = frozenset({"trust_anchor"})  # explicit registration alone (s12.2.3)


class TrustMark(msgspec.Struct, frozen=True):
    """A trust mark as an entity configuration has it."""

    trust_mark_type: str
    trust_mark: str


class TrustMarkOwner(msgspec.Struct, frozen=True):
    """Who owns a type of trust marks."""

    sub: EntityId
    jwks: Mapping[str, Any]


class Names(msgspec.Struct, frozen=True):
    """Hosts, and with a dot before them domains (RFC 5280 s4.2.1.10), within which entities must and must not be."""

    permitted: tuple[str, ...] | UnsetType = UNSET
    excluded: tuple[str, ...] = ()


class Constraints(msgspec.Struct, frozen=True):
    """What the chain below a statement must keep (s6.2)."""

    max_path_length: Annotated[int, msgspec.Meta(ge=0)] | UnsetType = UNSET
    naming_constraints: Names = Names()
    allowed_entity_types: tuple[str, ...] | UnsetType = UNSET


class Claims(msgspec.Struct, frozen=True):
    """The claims of a statement that are read."""

    iss: EntityId
    sub: EntityId
    iat: Moment
    exp: Moment
    jwks: Mapping[str, Any]
    metadata: Mapping[str, Mapping[str, Any]] = {}
    authority_hints: EntityIds = ()
    trust_anchor_hints: EntityIds = ()
    trust_marks: tuple[TrustMark, ...] = ()
    trust_mark_issuers: Mapping[str, tuple[EntityId, ...]] = {}
    trust_mark_owners: Mapping[str, TrustMarkOwner] = {}
    constraints: Constraints = Constraints()
    metadata_policy: Mapping[str, Mapping[str, Mapping[str, Any]]] = {}
    source_endpoint: str = ""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that keeps every rule but those of signatures, which :func:`signed_by` is for."""

    jws: Jws
    claims: Claims
    keys: tuple[VerificationKey, ...]
    """Those of its subject."""

    @property
    def expires(self) -> int:
        """When it is no longer good, in seconds."""
        return int(self.claims.exp)


def read(body: bytes, *, issuer: str, subject: str, now: int) -> Statement:
    """The statement of an issuer about a subject; about itself it is an entity configuration. ``now`` is seconds.

    Raises ValueError with the rule that it breaks, fit for the client.
    """
    jws = _signed(body)
    claims = decode_object(jws.payload)
    try:
        known = msgspec.convert(claims, Claims)
    except msgspec.ValidationError as error:
        raise ValueError(f"a claim is missing or of a wrong form: {_where(error)}") from None
    if known.iss != issuer or known.sub != subject:
        raise ValueError("iss or sub is another entity than the one that was asked")
    _check_claims(claims, known, configuration=issuer == subject)
    _check_times(known, now)
    return Statement(jws=jws, claims=known, keys=_keys_of(known.jwks))


def signed_by(statement: Statement, keys: Iterable[VerificationKey]) -> VerificationKey:
    """The key that made the signature, which is the one that ``kid`` names. Raises ValueError."""
    kid = statement.jws.header["kid"]
    found = next((key for key in keys if key.kid == kid and key.signed(statement.jws)), None)
    if found is None:
        raise ValueError("the signature is by no key that kid names and the issuer has")
    return found


def _signed(body: bytes) -> Jws:
    try:
        jws = parse_compact(body.decode("ascii", "replace").strip())
    except BadJws as error:
        raise ValueError(f"it is no signed JWT: {error}") from None
    header, kid = jws.header, jws.header.get("kid")
    if header.get("typ") != TYPE:
        raise ValueError(f"typ is not {TYPE}")
    if jws.alg not in ALGORITHMS:
        raise ValueError(f"alg is none of {', '.join(ALGORITHMS)}")
    if not isinstance(kid, str) or not kid:
        raise ValueError("the header has no kid")
    if "trust_chain" in header or "peer_trust_chain" in header:
        raise ValueError("the header of an entity statement has no trust chain (s4.3)")
    return jws


def _check_claims(claims: Mapping[str, Any], known: Claims, *, configuration: bool) -> None:
    misplaced = OF_REGISTRATIONS | (OF_SUBORDINATES if configuration else OF_CONFIGURATIONS)
    if found := sorted(misplaced.intersection(claims)):
        raise ValueError(f"{found[0]} has no place in {'an entity configuration' if configuration else 'a subordinate statement'}")
    if "crit" in claims:
        raise ValueError("crit names claims that this service does not understand, or that are none of an extension")
    if "metadata_policy_crit" in claims:
        raise ValueError("metadata_policy_crit names policy operators that this service does not understand, or standard ones")
    for metadata in known.metadata.values():
        if None in metadata.values():
            raise ValueError("metadata has a member that is null (s5)")
    for mark in known.trust_marks:
        if _type_of(mark) != mark.trust_mark_type:
            raise ValueError("trust_mark_type is not that of the trust mark")
    allowed = known.constraints.allowed_entity_types
    if not isinstance(allowed, UnsetType) and "federation_entity" in allowed:
        raise ValueError("allowed_entity_types must not name federation_entity (s6.2.3)")


def _check_times(claims: Claims, now: int) -> None:
    if claims.iat > now + LEEWAY:
        raise ValueError("iat lies in the future")
    if claims.exp <= now:
        raise ValueError("exp has passed")


def _type_of(mark: TrustMark) -> object:
    """What a trust mark says of its type; None when it is no JWT. Who issued it does not matter here."""
    try:
        return decode_object(parse_compact(mark.trust_mark).payload).get("trust_mark_type")
    except ValueError:
        return None


def _keys_of(jwks: Mapping[str, Any]) -> tuple[VerificationKey, ...]:
    try:
        keys = read_key_set(jwks)
    except ValueError as error:
        raise ValueError(f"jwks: {error}") from None
    named = [jwk.get("kid") for jwk in jwks["keys"] if isinstance(jwk, Mapping)]
    if not all(isinstance(kid, str) and kid for kid in named) or len(set(named)) < len(named):
        raise ValueError("jwks: every key needs a kid of its own")
    return keys


def _where(error: msgspec.ValidationError) -> str:
    """The claim, of those that are known: what a stranger wrote is not repeated."""
    what, _, where = str(error).partition(" - at `$")
    missing = what.partition("field `")[2].partition("`")[0]
    named = where.removeprefix(".").rstrip("`").partition("[")[0].partition(".")[0] or missing
    return named if named in Claims.__struct_fields__ else "one of them"
