"""New authorizations: of an order, and those that an account asks for beforehand (RFC 8555 s7.4.1), for a whole domain too (RFC 9444).

An order uses what was proven beforehand; what was proven for another order is proven anew.
"""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from sqlalchemy import func, insert, or_, select

from greatseal.api.acme import AccountView, Challenge, ChallengeValidator, Identifier, Unauthorized
from greatseal.api.issuance import IdentifierType, Issuance
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Refuse, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import tables as t
from greatseal_acme.authorizations import Authorization, Authorizations
from greatseal_acme.limits import OrderLimits
from greatseal_acme.protocol.identifiers import offering, read_identifiers, together
from greatseal_acme.protocol.objects import encode
from greatseal_acme.settings import AcmeServer

LEFT = 60 * SECOND
"""How long what was proven beforehand must still be good for an order to use it: until the order is finalized."""

ACCOUNT_STATUS = select(t.account.c.status).where(t.account.c.id == param("id"))
_own = (t.authorization.c.account_id == param("account"), t.BEFOREHAND)
_of_name = (
    *_own,
    t.authorization.c.ca_id == param("ca_id"),
    t.authorization.c.identifier_type == param("type"),
    t.authorization.c.identifier_value == param("value"),
)
_is_held = or_(t.authorization.c.status == "pending", t.authorization.c.status == "valid")
HAS_ANY = (
    select(t.authorization.c.id).where(*_own, t.authorization.c.status == "valid", t.authorization.c.expires_at > param("until")).limit(1)
)
COVERING = (
    select(t.authorization.c.id, t.authorization.c.subdomains, t.challenge.c.type)
    .join(t.challenge, t.challenge.c.authorization_id == t.authorization.c.id)
    .where(
        *_of_name,
        t.authorization.c.status == "valid",
        t.authorization.c.expires_at > param("until"),
        t.challenge.c.status == "valid",
    )
)
SAME = select(t.authorization.c.id).where(
    *_of_name, t.authorization.c.subdomains == param("subdomains"), _is_held, t.authorization.c.expires_at > param("until")
)
HELD = select(func.count().label("number")).where(*_own, _is_held, t.authorization.c.expires_at > param("until"))
INSERT_AUTHORIZATION = insert(t.authorization).values(
    {
        name: param(name)
        for name in (
            "id", "account_id", "ca_id", "identifier_type", "identifier_value", "wildcard", "subdomains", "preauthorized", "status",
            "expires_at",
        )
    }
)  # fmt: skip
INSERT_CHALLENGE = insert(t.challenge).values({name: param(name) for name in ("id", "authorization_id", "type", "status", "token", "kept")})


class GivenIdentifier(msgspec.Struct, frozen=True, rename="camel"):
    """An identifier as a client writes it in an order; ``ancestor_domain`` is what it can prove instead (RFC 9444 s4.3)."""

    type: str
    value: str
    ancestor_domain: str | None = None


class GivenDomain(msgspec.Struct, frozen=True, rename="camel"):
    """An identifier as a client writes it in newAuthz (RFC 9444 s4.2)."""

    type: str
    value: str
    subdomain_auth_allowed: bool = False


class NewAuthz(msgspec.Struct, frozen=True, rename="camel"):
    """The payload of newAuthz; some clients say ``subdomainAuthAllowed`` beside the identifier."""

    identifier: GivenDomain
    subdomain_auth_allowed: bool = False


class Proof(msgspec.Struct, frozen=True):
    """What is to be proven: an identifier, wildcard prefix and all, or a domain with the names below it."""

    identifier: Identifier
    subdomains: bool = False


class Chosen(msgspec.Struct, frozen=True):
    """The authorization of each identifier of an order; ``ready`` where all were proven beforehand."""

    authorizations: tuple[str, ...]
    ready: bool


class NewAuthorizations:
    """Makes them, in the transactions of others and in its own."""

    def __init__(self, host: Host, issuance: Issuance, authorizations: Authorizations, limits: OrderLimits) -> None:
        settings = host.settings(AcmeServer)
        self._host = host
        self._issuance = issuance
        self._authorizations = authorizations
        self._limits = limits
        self._life = settings.authz_expiry_secs * SECOND
        self._subdomains = settings.allow_subdomain_auth

    async def ask(self, asked: NewAuthz, account: AccountView, ca_id: str) -> tuple[Authorization, bool]:
        """newAuthz: an authorization that orders to come use, and whether it was made now.

        Raises what is wrong with the identifier, RateLimited for an account with too many.
        """
        (identifier,) = read_identifiers([(asked.identifier.type, asked.identifier.value)], self._types, self._validators())
        if identifier.wildcard:
            raise BadRequest("a wildcard name cannot be authorized beforehand (RFC 8555 s7.4.1)")
        self._issuance.check_identifier(self._issuance.profile(None, ca_id), identifier)
        wishes = asked.subdomain_auth_allowed or asked.identifier.subdomain_auth_allowed
        proof = Proof(identifier, subdomains=wishes and self._proves_below(identifier))
        self._limits.in_this_hour(account.id)
        return await self._host.db.write(self._beforehand, proof, account, ca_id)

    def proofs(self, given: Sequence[GivenIdentifier], identifiers: Sequence[Identifier]) -> tuple[Proof, ...]:
        """What each identifier of an order asks to be proven: itself, or an ancestor that the client can prove.

        Raises one problem for all ancestors that are none.
        """
        named = [one for one in given if one.ancestor_domain is not None] if self._subdomains else []
        ancestors: dict[Identifier, Identifier] = {}
        problems: list[Problem] = []
        for one in named:
            try:
                identifier = Identifier(one.type, self._types[one.type].canonical(one.value))
                ancestors[identifier] = self._ancestor(identifier, str(one.ancestor_domain))
            except Problem as problem:
                problem.identifier = {"type": one.type, "value": one.value}
                problems.append(problem)
        if problems:
            raise together(problems)
        chosen = {one: above for one, above in ancestors.items() if self._proves_below(above)}
        return tuple(Proof(chosen[one], subdomains=True) if one in chosen else Proof(one) for one in identifiers)

    def for_order(self, tx: Tx, proofs: Sequence[Proof], identifiers: Sequence[Identifier], account: AccountView, ca_id: str) -> Chosen:
        """An authorization for each identifier: one that was proven beforehand, or a new one for each proof."""
        has_any = tx.one(HAS_ANY, account=account.id, until=tx.now + LEFT) is not None
        made: dict[Proof, str] = {}
        found: list[str] = []
        for identifier, proof in zip(identifiers, proofs, strict=True):
            id = self._covering(tx, identifier, account.id, ca_id) if has_any else None
            if id is None:
                if proof not in made:
                    made[proof] = self.make(tx, proof, account, ca_id)
                id = made[proof]
            found.append(id)
        return Chosen(tuple(found), ready=not made)

    def make(self, tx: Tx, proof: Proof, account: AccountView, ca_id: str, *, beforehand: bool = False) -> str:
        """A pending authorization with a challenge of every type that offers itself."""
        id, identifier = self._host.handles.new_id(), proof.identifier
        expires = tx.now + self._life
        tx.run(
            INSERT_AUTHORIZATION,
            id=id,
            account_id=account.id,
            ca_id=ca_id,
            identifier_type=identifier.type,
            identifier_value=identifier.base,
            wildcard=int(identifier.wildcard),
            subdomains=int(proof.subdomains),
            preauthorized=int(beforehand),
            status="pending",
            expires_at=expires,
        )
        for validator in offering(identifier, self._validators(), below=proof.subdomains):
            challenge = Challenge(
                id=self._host.handles.new_id(),
                type=validator.type,
                status="pending",
                token=secrets.token_urlsafe(32),
                identifier=Identifier(identifier.type, identifier.base),
                wildcard=identifier.wildcard or proof.subdomains,
                authorization_id=id,
                account_id=account.id,
                account_url=account.url,
                expires=expires,
            )
            kept = validator.create(tx, challenge)
            tx.run(
                INSERT_CHALLENGE,
                id=challenge.id,
                authorization_id=id,
                type=challenge.type,
                status="pending",
                token=challenge.token,
                kept=None if kept is None else encode(kept),
            )
        return id

    def _beforehand(self, tx: Tx, proof: Proof, account: AccountView, ca_id: str) -> tuple[Authorization, bool]:
        check_account(tx, account)
        name = {"account": account.id, "ca_id": ca_id, "type": proof.identifier.type, "value": proof.identifier.value}
        same = tx.one(SAME, **name, subdomains=int(proof.subdomains), until=tx.now)
        if same is None:
            held = tx.one(HELD, account=account.id, until=tx.now)
            assert held is not None  # an aggregate has a row
            self._limits.check_held(account.id, held.number)
        found = self._authorizations.read(tx, self.make(tx, proof, account, ca_id, beforehand=True) if same is None else same.id)
        assert found is not None
        return found, same is None

    def _covering(self, tx: Tx, identifier: Identifier, account: str, ca_id: str) -> str | None:
        """What was proven beforehand and proves the identifier too."""
        for value, whole in self._covers(identifier):
            for row in tx.all(COVERING, account=account, ca_id=ca_id, type=identifier.type, value=value, until=tx.now + LEFT):
                validator = self._host.components(ChallengeValidator).get(row.type)
                if (row.subdomains or not whole) and validator is not None and validator.reusable:
                    return str(row.id)
        return None

    def _covers(self, identifier: Identifier) -> Iterator[tuple[str, bool]]:
        """The names of authorizations that would do, and whether they must be for the names below."""
        if not identifier.wildcard:
            yield identifier.value, False
        if self._subdomains and identifier.type == "dns":
            labels = identifier.value.split(".")
            for at in range(1, len(labels) - 1):
                yield ".".join(labels[at:]), True

    def _ancestor(self, identifier: Identifier, name: str) -> Identifier:
        if identifier.type != "dns":
            raise BadRequest("ancestorDomain is for identifiers of type dns")
        ancestor = Identifier("dns", self._types["dns"].canonical(name))
        if not identifier.value.endswith(f".{ancestor.value}"):
            raise BadRequest("ancestorDomain is no domain above the identifier")
        return ancestor

    def _proves_below(self, domain: Identifier) -> bool:
        """Whether one authorization may be for all names below a domain; else it is for the name alone (RFC 9444 s4.2, s4.3)."""
        if not self._subdomains or domain.type != "dns":
            return False
        try:
            return bool(offering(domain, self._validators(), below=True))
        except Problem:
            return False

    @property
    def _types(self) -> Mapping[str, IdentifierType]:
        return self._host.components(IdentifierType)

    def _validators(self) -> Collection[ChallengeValidator]:
        return self._host.components(ChallengeValidator).values()


def check_account(tx: Tx, account: AccountView) -> None:
    """Raises Refuse for an account that was deactivated since the request was read."""
    row = tx.one(ACCOUNT_STATUS, id=account.id)
    if row is None or row.status != "valid":
        raise Refuse(Unauthorized("the account was deactivated"))
