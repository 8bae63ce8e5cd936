"""Authorizations (RFC 8555 s7.1.4, s7.5): reading, deactivating, and what their end does to orders."""

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec
from sqlalchemy import and_, exists, or_, select, update

from greatseal.api.acme import AccountView, Challenge, ChallengeValidator, Identifier
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import tables as t
from greatseal_acme.protocol.objects import decode, encode, moment_text, not_found, problem_document
from greatseal_acme.protocol.urls import Paths, Urls, is_id

ChallengeStatus = Literal["pending", "processing", "valid", "invalid"]
OUR_MEMBERS = frozenset({"type", "url", "status", "validated", "error"})
"""Of a challenge object (RFC 8555 s8): a validator has no say in them."""

BY_ID = select(t.authorization).where(t.authorization.c.id == param("id"))
CHALLENGES_OF = select(t.challenge).where(t.challenge.c.authorization_id == param("id")).order_by(t.challenge.c.type)
VALIDATE = (
    update(t.authorization)
    .where(
        t.authorization.c.id == param("authorization_id"),
        t.authorization.c.status == "pending",
        t.authorization.c.expires_at > param("now"),
    )
    .values(status="valid")
)
INVALIDATE = (
    update(t.authorization)
    .where(t.authorization.c.id == param("authorization_id"), t.authorization.c.status == "pending")
    .values(status="invalid")
)
DEACTIVATE = (
    update(t.authorization)
    .where(
        t.authorization.c.id == param("authorization_id"),
        or_(t.authorization.c.status == "pending", t.authorization.c.status == "valid"),
        t.authorization.c.expires_at > param("now"),
    )
    .values(status="deactivated")
)

_of_authorization = t.order.c.id.in_(
    select(t.order_authorization.c.order_id).where(t.order_authorization.c.authorization_id == param("authorization_id"))
)
_other = t.order_authorization.alias("other")
_unproven = exists().where(
    _other.c.order_id == t.order.c.id,
    t.authorization.c.id == _other.c.authorization_id,
    t.authorization.c.status != "valid",
)
READY = (
    update(t.order)
    .where(t.order.c.status == "pending", t.order.c.expires_at > param("now"), _of_authorization, ~_unproven)
    .values(status="ready")
)
"""Every order of the authorization that has no other than valid ones: computed where it is written (RFC 8555 s7.1.6)."""
FAIL = (
    update(t.order)
    .where(and_(or_(t.order.c.status == "pending", t.order.c.status == "ready"), _of_authorization))
    .values(status="invalid", error=param("error"))
)


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization as it is now, with its challenges and the errors of those that failed."""

    id: str
    account_id: str
    ca_id: str
    identifier: Identifier
    wildcard: bool
    subdomains: bool
    status: str
    expires_at: int
    challenges: tuple["StoredChallenge", ...]

    def belongs_to(self, account_id: str, ca_id: str) -> bool:
        """Whether it is the account's, at that CA."""
        return (self.account_id, self.ca_id) == (account_id, ca_id)


class StoredChallenge(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge with what is shown beside it."""

    challenge: Challenge
    error: Mapping[str, object] | None
    validated_at: int | None


class Authorizations:
    """Reading and deactivating."""

    def __init__(self, host: Host, paths: Paths) -> None:
        self._host = host
        self._paths = paths

    async def get(self, id: str, account: AccountView, ca_id: str) -> Authorization:
        """The account's authorization at the CA. Raises the one refusal for unknown and foreign ones."""
        found = await self._host.db.read(self.read, id) if is_id(id) else None
        if found is None or not found.belongs_to(account.id, ca_id):
            raise not_found()
        return found

    async def deactivate(self, id: str, account: AccountView, ca_id: str) -> Authorization:
        """Give the authorization up (RFC 8555 s7.5.2); orders that wait for it or rest on it become invalid."""
        if not is_id(id):
            raise not_found()
        return await self._host.db.write(self._deactivate, id, account.id, ca_id)

    def read(self, tx: Tx, id: str) -> Authorization | None:
        """The authorization as it is at ``tx.now``."""
        row = tx.one(BY_ID, id=id)
        if row is None:
            return None
        kept_as = {type: validator.kept_as for type, validator in self._host.components(ChallengeValidator).items()}
        account_url = self._paths.account(row.account_id, self._paths.scope(row.ca_id))
        rows = tx.all(CHALLENGES_OF, id=id)
        return Authorization(
            id=row.id,
            account_id=row.account_id,
            ca_id=row.ca_id,
            identifier=Identifier(row.identifier_type, row.identifier_value),
            wildcard=bool(row.wildcard),
            subdomains=bool(row.subdomains),
            status=status_at(row, tx.now),
            expires_at=row.expires_at,
            challenges=tuple(
                StoredChallenge(
                    challenge=challenge_of(one, row, account_url, kept_as.get(one.type)),
                    error=decode(one.error),
                    validated_at=one.validated_at,
                )
                for one in rows
            ),
        )

    def members(self, authorization: Authorization, urls: Urls) -> dict[str, object]:
        """The authorization object: with all challenges while it is pending, later with those that decided it."""
        decided = {"valid": "valid", "invalid": "invalid"}.get(authorization.status)
        listed = [one for one in authorization.challenges if decided is None or one.challenge.status == decided]
        shown: dict[str, object] = {
            "identifier": {"type": authorization.identifier.type, "value": authorization.identifier.value},
            "status": authorization.status,
            "expires": moment_text(authorization.expires_at),
            "challenges": [member for one in listed if (member := self.challenge_members(one, urls))],
        }
        if authorization.wildcard:
            shown["wildcard"] = True
        if authorization.subdomains:
            shown["subdomainAuthAllowed"] = True
        return shown

    def challenge_members(self, stored: StoredChallenge, urls: Urls) -> dict[str, object] | None:
        """The challenge object; None when its type is not enabled any more."""
        challenge = stored.challenge
        validator = self._host.components(ChallengeValidator).get(challenge.type)
        if validator is None:
            return None
        shown: dict[str, object] = {
            "type": challenge.type,
            "url": urls.challenge(challenge.authorization_id, challenge.type),
            "status": challenge.status,
            **{name: value for name, value in validator.members(challenge).items() if name not in OUR_MEMBERS},
        }
        if stored.validated_at is not None:
            shown["validated"] = moment_text(stored.validated_at)
        if stored.error is not None:
            shown["error"] = stored.error
        return shown

    def _deactivate(self, tx: Tx, id: str, account_id: str, ca_id: str) -> Authorization:
        found = self.read(tx, id)
        if found is None or not found.belongs_to(account_id, ca_id):
            raise Refuse(not_found())
        if found.status == "deactivated":
            return found
        if tx.count(DEACTIVATE, authorization_id=id, now=tx.now) == 0:
            raise Refuse(BadRequest(f"the authorization is {found.status}; only a pending or valid one can be deactivated"))
        fail_orders(tx, found.id, BadRequest("an authorization of the order was deactivated"), found.identifier)
        detail = f"{found.identifier.type}:{found.identifier.value}"
        tx.audit(AuditEvent(event_type="authorization.deactivate", service="ca", sub=account_id, detail=detail))
        return msgspec.structs.replace(found, status="deactivated")


def fail_orders(tx: Tx, authorization_id: str, problem: Problem, identifier: Identifier) -> None:
    """Orders that wait for the authorization, or rest on it, become invalid with that error."""
    document = {"identifier": {"type": identifier.type, "value": identifier.value}, **problem_document(problem)}
    tx.run(FAIL, authorization_id=authorization_id, error=encode(document))


def status_at(row: Row, now: int) -> str:
    """The status of an authorization row, with what time did to it."""
    if row.status in {"pending", "valid"} and row.expires_at <= now:
        return "expired"
    return str(row.status)


def challenge_of(row: Row, authorization: Row, account_url: str, kept_as: type[msgspec.Struct] | None) -> Challenge:
    """The challenge of its row and its authorization's."""
    kept = None if row.kept is None or kept_as is None else msgspec.json.decode(row.kept, type=kept_as)
    return Challenge(
        id=row.id,
        type=row.type,
        status=cast("ChallengeStatus", row.status),
        token=row.token,
        identifier=Identifier(authorization.identifier_type, authorization.identifier_value),
        wildcard=bool(authorization.wildcard or authorization.subdomains),
        authorization_id=authorization.id,
        account_id=authorization.account_id,
        account_url=account_url,
        expires=authorization.expires_at,
        kept=kept,
    )


def of_type(challenges: Sequence[StoredChallenge], type: str) -> StoredChallenge | None:
    """The challenge of that type; an authorization has at most one."""
    return next((one for one in challenges if one.challenge.type == type), None)
