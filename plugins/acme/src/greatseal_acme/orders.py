"""Orders (RFC 8555 s7.1.3, s7.4): made with all their authorizations, and shown as they are now.

Expiry is evaluated when an order is read, so no job has to touch what nobody asks for.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import insert, or_, select, update

from greatseal.api.acme import AccountView, ChallengeValidator, Identifier, RejectedIdentifier
from greatseal.api.issuance import IdentifierType, Issuance, Profile
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import tables as t
from greatseal_acme.limits import OrderLimits
from greatseal_acme.new_authz import GivenIdentifier, NewAuthorizations, Proof, check_account
from greatseal_acme.protocol.identifiers import read_identifiers, together
from greatseal_acme.protocol.objects import decode, encode, moment_text, not_found, problem_document, read_moment
from greatseal_acme.protocol.urls import Urls, is_id
from greatseal_acme.renewal_info import AlreadyReplaced, Replacements
from greatseal_acme.settings import AcmeServer

DAY = 86400 * SECOND

BY_ID = select(t.order).where(t.order.c.id == param("id"))
AUTHORIZATIONS = (
    select(t.authorization.c.id, t.authorization.c.status, t.authorization.c.expires_at)
    .join(t.order_authorization, t.order_authorization.c.authorization_id == t.authorization.c.id)
    .where(t.order_authorization.c.order_id == param("id"))
    .order_by(t.order_authorization.c.position)
)


def _insert(table: Any, *names: str) -> Any:
    return insert(table).values({name: param(name) for name in names})


INSERT_ORDER = _insert(
    t.order, "id", "account_id", "ca_id", "profile", "profile_requested", "status", "identifiers", "not_before", "not_after", "created_at",
    "expires_at", "replaces",
)  # fmt: skip
REPLACING = select(t.order.c.id).where(t.order.c.replaces == param("replaces"), t.order.c.status != "invalid")
LAPSE = (
    update(t.order)
    .where(t.order.c.id == param("order_id"), or_(t.order.c.status == "pending", t.order.c.status == "ready"))
    .values(status="invalid", error=param("error"))
)
"""What time did to an order is written down where another takes its place."""
INSERT_LINK = _insert(t.order_authorization, "order_id", "position", "authorization_id")


class NewOrder(msgspec.Struct, frozen=True, rename="camel"):
    """The payload of newOrder."""

    identifiers: tuple[GivenIdentifier, ...]
    not_before: str | None = None
    not_after: str | None = None
    profile: str | None = None
    replaces: str | None = None


class OrderPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A checked newOrder, ready to be written."""

    id: str
    account: AccountView
    profile: Profile
    profile_requested: bool
    identifiers: tuple[Identifier, ...]
    proofs: tuple[Proof, ...]
    not_before: int | None
    not_after: int | None
    replaces: str | None

    def makes(self, order: "Order") -> bool:
        """Whether an order is what this would make."""
        own = (self.account.id, self.profile.ca_id, self.profile.id, self.identifiers, self.not_before, self.not_after)
        return own == (order.account_id, order.ca_id, order.profile, order.identifiers, order.not_before, order.not_after)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An order as it is now: a pending or ready one whose time, or that of an authorization, is over is invalid."""

    id: str
    account_id: str
    ca_id: str
    profile: str
    profile_requested: bool
    status: str
    identifiers: tuple[Identifier, ...]
    not_before: int | None
    not_after: int | None
    error: Mapping[str, object] | None
    certificate_id: str | None
    replaces: str | None
    expires_at: int
    authorizations: tuple[str, ...]

    def members(self, urls: Urls) -> dict[str, object]:
        """The order object."""
        shown: dict[str, object] = {
            "status": self.status,
            "expires": moment_text(self.expires_at),
            "identifiers": [{"type": one.type, "value": one.value} for one in self.identifiers],
            "authorizations": [urls.authorization(id) for id in self.authorizations],
            "finalize": urls.finalize(self.id),
        }
        if self.not_before is not None:
            shown["notBefore"] = moment_text(self.not_before)
        if self.not_after is not None:
            shown["notAfter"] = moment_text(self.not_after)
        if self.profile_requested:
            shown["profile"] = self.profile
        if self.replaces is not None:
            shown["replaces"] = self.replaces
        if self.error is not None:
            shown["error"] = self.error
        if self.status == "valid" and self.certificate_id is not None:
            shown["certificate"] = urls.certificate(self.certificate_id)
        return shown


class Orders:
    """Making and reading orders."""

    def __init__(
        self, host: Host, issuance: Issuance, new: NewAuthorizations, limits: OrderLimits, *, profiles: Mapping[str, object]
    ) -> None:
        self._host = host
        self._profiles = profiles
        self._issuance = issuance
        self._replacements = Replacements(host, issuance)
        self._new = new
        self._limits = limits
        settings = host.settings(AcmeServer)
        self._order_life = settings.order_expiry_secs * SECOND

    async def make(self, asked: NewOrder, account: AccountView, ca_id: str) -> Order:
        """Write a new order to the CA.

        Raises what is wrong with identifiers, profile or times, RateLimited for an account with too many, Unavailable where the CA has
        ended.
        """
        profile = self._issuance.profile(asked.profile, ca_id)
        validators = self._host.components(ChallengeValidator).values()
        not_before, not_after = self._times(asked, profile)
        types = self._host.components(IdentifierType)
        identifiers = read_identifiers([(one.type, one.value) for one in asked.identifiers], types, validators)
        self._check(identifiers, profile)
        if asked.replaces is not None:
            await self._replacements.check(asked.replaces, account, identifiers, ca_id)
        plan = OrderPlan(
            id=self._host.handles.new_id(),
            account=account,
            profile=profile,
            profile_requested=bool(self._profiles) or asked.profile == profile.id,
            identifiers=identifiers,
            proofs=self._new.proofs(asked.identifiers, identifiers),
            not_before=not_before,
            not_after=not_after,
            replaces=asked.replaces,
        )
        async with self._limits.one_more(account.id):
            return await self._host.db.write(self._write, plan)

    async def get(self, id: str, account: AccountView, ca_id: str) -> Order:
        """The account's order from the CA. Raises the one refusal for unknown and foreign ones."""
        order = await self._host.db.read(read_own, id, account.id, ca_id)
        if order is None:
            raise not_found()
        return order

    def _check(self, identifiers: Sequence[Identifier], profile: Profile) -> None:
        """Refuse what the CA could not certify, before anything is proven."""
        problems: list[Problem] = []
        for identifier in identifiers:
            try:
                self._issuance.check_identifier(profile, identifier)
            except RejectedIdentifier as problem:
                problem.identifier = {"type": identifier.type, "value": identifier.value}
                problems.append(problem)
        if problems:
            raise together(problems)

    def _times(self, asked: NewOrder, profile: Profile) -> tuple[int | None, int | None]:
        """The validity asked for, which the CA can grant: never silently ignored, never refused only at finalization."""
        not_before = None if asked.not_before is None else read_moment(asked.not_before, "notBefore")
        not_after = None if asked.not_after is None else read_moment(asked.not_after, "notAfter")
        self._issuance.check_validity(profile, not_before, not_after)  # without a wish too: the CA may have ended
        # What is proven today says little about an identifier in years.
        if not_before is not None and not_before >= self._host.clock.now() + profile.validity_days * DAY:
            raise BadRequest(f"notBefore must lie within {profile.validity_days} days from now")
        return not_before, not_after

    def _write(self, tx: Tx, plan: OrderPlan) -> Order:
        check_account(tx, plan.account)
        if (same := self._replacing(tx, plan)) is not None:
            return same
        chosen = self._new.for_order(tx, plan.proofs, plan.identifiers, plan.account, plan.profile.ca_id)
        status = "ready" if chosen.ready else "pending"
        tx.run(
            INSERT_ORDER,
            id=plan.id,
            account_id=plan.account.id,
            ca_id=plan.profile.ca_id,
            profile=plan.profile.id,
            profile_requested=int(plan.profile_requested),
            status=status,
            identifiers=encode([(one.type, one.value) for one in plan.identifiers]),
            not_before=plan.not_before,
            not_after=plan.not_after,
            created_at=tx.now,
            expires_at=tx.now + self._order_life,
            replaces=plan.replaces,
        )
        for position, id in enumerate(chosen.authorizations):
            tx.run(INSERT_LINK, order_id=plan.id, position=position, authorization_id=id)
        return Order(
            id=plan.id,
            account_id=plan.account.id,
            ca_id=plan.profile.ca_id,
            profile=plan.profile.id,
            profile_requested=plan.profile_requested,
            status=status,
            identifiers=plan.identifiers,
            not_before=plan.not_before,
            not_after=plan.not_after,
            error=None,
            certificate_id=None,
            replaces=plan.replaces,
            expires_at=tx.now + self._order_life,
            authorizations=tuple(dict.fromkeys(chosen.authorizations)),
        )

    def _replacing(self, tx: Tx, plan: OrderPlan) -> Order | None:
        """The very same order, which the client does not know of because its answer was lost; None where none replaces the certificate.

        Raises Refuse with AlreadyReplaced for another.
        """
        row = None if plan.replaces is None else tx.one(REPLACING, replaces=plan.replaces)
        found = None if row is None else read_order(tx, row.id)
        if found is None:
            return None
        if found.status == "invalid":
            tx.run(LAPSE, order_id=found.id, error=encode(found.error))
            return None
        if found.status in {"pending", "ready"} and plan.makes(found):
            return found
        raise Refuse(AlreadyReplaced("another order replaces the certificate; order without replaces, or let that order end"))


def read_own(tx: Tx, id: str, account_id: str, ca_id: str) -> Order | None:
    """The account's order from the CA; None for unknown and foreign ones."""
    order = read_order(tx, id) if is_id(id) else None
    return order if order and (order.account_id, order.ca_id) == (account_id, ca_id) else None


def read_order(tx: Tx, id: str) -> Order | None:
    """The order as it is at ``tx.now``."""
    row = tx.one(BY_ID, id=id)
    return None if row is None else order_of(row, tx.all(AUTHORIZATIONS, id=id), tx.now)


def order_of(row: Row, authorizations: Sequence[Row], now: int) -> Order:
    """The order of its rows, with what time did to it."""
    identifiers, status, error = decode(row.identifiers), row.status, decode(row.error)
    if status in {"pending", "ready"}:
        reason = _lapsed(row, authorizations, now)
        if reason:
            status, error = "invalid", problem_document(BadRequest(reason))
    return Order(
        id=row.id,
        account_id=row.account_id,
        ca_id=row.ca_id,
        profile=row.profile,
        profile_requested=bool(row.profile_requested),
        status=status,
        identifiers=tuple(Identifier(type, value) for type, value in identifiers),
        not_before=row.not_before,
        not_after=row.not_after,
        error=error,
        certificate_id=row.certificate_id,
        replaces=row.replaces,
        expires_at=row.expires_at,
        authorizations=tuple(dict.fromkeys(one.id for one in authorizations)),
    )


def _lapsed(row: Row, authorizations: Sequence[Row], now: int) -> str | None:
    if row.expires_at <= now:
        return "the order expired"
    if any(one.expires_at <= now for one in authorizations):
        return "an authorization of the order expired"
    return None
