"""Trust chains (OpenID Federation 1.0 s4, s10.2): entity configurations, the subject's first, and what superiors say of the one below."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UnsetType

from greatseal.jose.keysets import VerificationKey
from greatseal_openid_federation.entities import host_of
from greatseal_openid_federation.policy import applied, merged
from greatseal_openid_federation.statements import Names, Statement, signed_by

FEDERATION_ENTITY = "federation_entity"


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """A valid chain. ``entities`` begin with the subject and end with the trust anchor; ``expires`` is seconds.

    ``metadata`` are resolved, by entity type; ``keys`` are the federation keys of the subject, for whom its superior vouches;
    ``used`` are those that made signatures of the chain.
    """

    entities: tuple[str, ...]
    expires: int
    metadata: Mapping[str, Mapping[str, Any]]
    keys: tuple[VerificationKey, ...]
    used: tuple[VerificationKey, ...]


def validated(configurations: Sequence[Statement], subordinates: Sequence[Statement], anchor: Sequence[VerificationKey]) -> Chain:
    """The chain, when it is one.

    ``configurations`` are those of the entities, the trust anchor's last, each signed by a key of its own; ``subordinates`` are what each
    superior says of the entity before it. ``anchor`` are the configured keys of the trust anchor. Raises ValueError with the rule that is
    broken, :class:`greatseal_openid_federation.policy.PolicyError` for policies.
    """
    used = [signed_by(configurations[-1], anchor), signed_by(configurations[0], subordinates[0].keys)]
    for place, statement in enumerate(subordinates):
        used.append(signed_by(statement, configurations[place + 1].keys))
        if place + 1 < len(subordinates):  # the anchor's keys are vouched for by the configured ones
            used.append(signed_by(statement, subordinates[place + 1].keys))
    for place, statement in enumerate(subordinates):
        _check_constraints(statement, [one.claims.sub for one in configurations[: place + 1]])
    return Chain(
        entities=tuple(one.claims.sub for one in configurations),
        expires=min(one.expires for one in (configurations[0], *subordinates, configurations[-1])),
        metadata=_resolved(configurations[0], subordinates),
        keys=subordinates[0].keys,
        used=tuple(used),
    )


def _check_constraints(statement: Statement, below: Sequence[str]) -> None:
    """``below`` are the subject of the chain, and the entities from there to the subject of the statement."""
    longest = statement.claims.constraints.max_path_length
    if not isinstance(longest, UnsetType) and len(below) - 1 > longest:
        raise ValueError("there are more intermediates than max_path_length allows (s6.2.1)")
    if not all(is_within(host_of(entity), statement.claims.constraints.naming_constraints) for entity in below):
        raise ValueError("naming_constraints do not allow an entity of the chain (s6.2.2)")


def is_within(host: str, names: Names) -> bool:
    """Whether a host may have entities. A name that begins with a dot is a domain, and not the host of that name."""
    if any(_covers(name.lower(), host) for name in names.excluded):
        return False
    return isinstance(names.permitted, UnsetType) or any(_covers(name.lower(), host) for name in names.permitted)


def _covers(name: str, host: str) -> bool:
    return host.endswith(name) and host != name if name.startswith(".") else host == name


def _resolved(subject: Statement, subordinates: Sequence[Statement]) -> dict[str, dict[str, Any]]:
    """First what the immediate superior says, then the types that are allowed, then the policies (s6.1.4.2, s6.2.3)."""
    said = subordinates[0].claims.metadata
    found = {kind: {**members, **said.get(kind, {})} for kind, members in subject.claims.metadata.items()}
    for statement in subordinates:
        allowed = statement.claims.constraints.allowed_entity_types
        if not isinstance(allowed, UnsetType):
            found = {kind: members for kind, members in found.items() if kind in allowed or kind == FEDERATION_ENTITY}
    return applied(merged(one.claims.metadata_policy for one in reversed(subordinates)), found)
