"""Finalization (RFC 8555 s7.4): every check, then one certificate, whatever happens in between.

ready -> [checks] -> processing with a recorded reservation -> signed -> valid. A refusal before the claim leaves the order ready.
Whatever ends between claim and valid is settled: the same certificate, or the reservation given up and the order ready again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import get_args

import msgspec
from sqlalchemy import exists, or_, select, update

from greatseal import faults
from greatseal.api.acme import AccountView, BadCsr, Caa, InvalidProfile, OrderNotReady, Unauthorized
from greatseal.api.audit import AuditEvent
from greatseal.api.issuance import (
    CertificateRequest,
    Draft,
    Finalization,
    FinalizeCheck,
    FinalizePhase,
    Issuance,
    IssuanceRequest,
    Issued,
    Prepared,
    Profile,
    ProvenIdentifier,
    SerialTaken,
)
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Conflict, Problem, Unavailable, Uncertain
from greatseal.api.store import Refuse, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode
from greatseal_acme import tables as t
from greatseal_acme.accounts import BY_ID as ACCOUNT_BY_ID
from greatseal_acme.accounts import OF_KEY, Account, refused
from greatseal_acme.orders import Order, read_order, read_own
from greatseal_acme.outage import once_back
from greatseal_acme.protocol.objects import decode, not_found
from greatseal_acme.settings import AcmeProfile

SETTLE_AGE = 60 * SECOND
"""A claim older than this belongs to nobody who is still at work."""
SERIAL_TRIES = 3

PROVEN_BY = (
    select(t.order_authorization.c.position, t.challenge.c.type)
    .join(t.challenge, t.challenge.c.authorization_id == t.order_authorization.c.authorization_id)
    .where(t.order_authorization.c.order_id == param("id"), t.challenge.c.status == "valid")
    .order_by(t.order_authorization.c.position, t.challenge.c.validated_at)
)
_account_is_valid = exists().where(t.account.c.id == t.order.c.account_id, t.account.c.status == "valid")
_lapsed = exists().where(
    t.order_authorization.c.order_id == t.order.c.id,
    t.authorization.c.id == t.order_authorization.c.authorization_id,
    (t.authorization.c.status != "valid") | (t.authorization.c.expires_at <= param("now")),
)
CLAIM = (
    update(t.order)
    .where(t.order.c.id == param("order_id"), t.order.c.status == "ready", t.order.c.expires_at > param("now"), _account_is_valid, ~_lapsed)
    .values(status="processing", certificate_id=param("new_certificate"), claimed_at=param("now"))
)
FINISH = (
    update(t.order)
    .where(t.order.c.id == param("order_id"), t.order.c.status == "processing", t.order.c.certificate_id == param("certificate"))
    .values(status="valid")
)
REOPEN = (
    update(t.order)
    .where(t.order.c.id == param("order_id"), t.order.c.status == "processing", t.order.c.certificate_id == param("certificate"))
    .values(status="ready", certificate_id=None, claimed_at=None)
)
CLAIMED = (
    select(t.order.c.id, t.order.c.certificate_id)
    .where(t.order.c.status == "processing", or_(t.order.c.claimed_at < param("before"), t.order.c.claimed_at > param("now")))
    .order_by(t.order.c.claimed_at)
)


class AccountGrant(FinalizeCheck):
    """`require_account_grant`: the account's profile grants must list the profile (CA-047, CA-048)."""

    name = "account-grant"
    phase = "authorize"
    order = 30

    def __init__(self, profiles: Mapping[str, AcmeProfile]) -> None:
        self._profiles = profiles

    async def check(self, finalization: Finalization) -> None:
        profile = finalization.profile.id
        if self._is_restricted(profile) and profile not in (finalization.account.profile_grants or ()):
            raise Unauthorized(_ungranted(profile))

    def _is_restricted(self, profile: str) -> bool:
        own = self._profiles.get(profile)
        return own is not None and own.require_account_grant

    def check_now(self, tx: Tx, profile: str, account_id: str) -> None:
        """The same of the account as it is now: a hook or CAA may have taken their time. Raises Refuse."""
        row = tx.one(ACCOUNT_BY_ID, id=account_id) if self._is_restricted(profile) else None
        if row is not None and profile not in (decode(row.profile_grants) or ()):
            problem = Unauthorized(_ungranted(profile))
            raise Refuse(problem, [_denied(profile, self.name, problem, account_id)])


class Finalizations:
    """Finalizing orders, and settling what was interrupted."""

    def __init__(self, host: Host, issuance: Issuance) -> None:
        self._host = host
        self._issuance = issuance
        self._grant = AccountGrant(host.settings_by_key(AcmeProfile))
        self._active: Counter[str] = Counter()
        self._began = host.clock.now()
        self._settled_once = False

    async def finalize(self, id: str, payload: Mapping[str, object], account: Account, ca_id: str) -> Order:
        """The order, valid. Raises OrderNotReady, Unauthorized, BadCsr, Caa and what else a check refuses with."""
        if not isinstance(payload.get("csr"), str):
            raise BadRequest("csr is missing, or no text; send the DER of the CSR in base64url")
        order, proven = await self._host.db.read(_with_proofs, id, account.view.id, ca_id)
        if order is None:
            raise not_found()
        if order.status != "ready":
            raise OrderNotReady(f"the order is {order.status}; it must be ready to be finalized")
        request = await self._checked(order, proven, payload, account.view)
        self._active[id] += 1
        try:
            prepared = await self._claim(order, request, account)
            faults.point("acme.finalize.claimed")
            return await self._issue(order, prepared)
        finally:
            self._active[id] -= 1
            if not self._active[id]:
                del self._active[id]

    async def settle(self) -> None:
        """End every finalization that nobody is at work on: the first time all from before this process, later those that are old."""
        before = None if self._settled_once else self._began
        for order_id, certificate_id in await self._host.db.read(_claimed, before):
            if order_id not in self._active:
                with suppress(Unavailable):
                    await self._settle_one(order_id, certificate_id)
        self._settled_once = True

    async def _checked(
        self, order: Order, proven: Mapping[int, str], payload: Mapping[str, object], account: AccountView
    ) -> IssuanceRequest:
        """All that may refuse, in the order of the CA document: authorize, CSR, policy."""
        profile = self._issuance.profile(order.profile, order.ca_id)
        if profile.id != order.profile:
            raise InvalidProfile(f"the profile {order.profile} of the order is not offered any more; make a new order")
        finalization = Finalization(
            order_id=order.id,
            profile=profile,
            identifiers=tuple(ProvenIdentifier(identifier=one, validated_by=proven[at]) for at, one in enumerate(order.identifiers)),
            account=account,
            csr=None,
            ca_id=order.ca_id,
            payload=payload,
        )
        await self._check("authorize", finalization)
        csr = self._read_csr(str(payload["csr"]), order)
        finalization = msgspec.structs.replace(finalization, csr=csr)
        await self._check("csr", finalization)
        await self._check("policy", finalization)
        return _request(order, profile, csr, account)

    async def _check(self, phase: FinalizePhase, finalization: Finalization) -> None:
        for check in self._checks[phase]:
            try:
                await check.check(finalization)
            except (Unauthorized, Caa) as problem:
                await self._host.audit_log(_denied(finalization.profile.id, check.name, problem, finalization.account.id))
                raise

    @cached_property
    def _checks(self) -> Mapping[FinalizePhase, Sequence[FinalizeCheck]]:
        """By phase, in their order. Components are complete when somebody finalizes."""
        ordered = sorted(self._host.components(FinalizeCheck).values(), key=lambda check: (check.order, check.name))
        return {phase: [check for check in ordered if check.phase == phase] for phase in get_args(FinalizePhase)}

    def _read_csr(self, encoded: str, order: Order) -> CertificateRequest:
        try:
            der = b64url_decode(encoded)
        except ValueError as error:
            raise BadCsr(f"csr is {error}") from None
        csr = self._issuance.read_csr(der)
        self._issuance.match(csr, order.identifiers)
        return csr

    async def _claim(self, order: Order, request: IssuanceRequest, account: Account) -> Prepared:
        """Claim the order and record what will be signed, in one transaction."""
        for _ in range(SERIAL_TRIES):
            draft = await self._issuance.compose(request)
            try:
                return await self._host.db.write(self._reserve, order.id, draft, account)
            except SerialTaken:
                continue
            except Uncertain:
                self._settle_soon(order.id, draft.id)
                raise
        raise Unavailable("no free serial number was found", cause="SerialTaken on every try")

    async def _issue(self, order: Order, prepared: Prepared) -> Order:
        try:
            issued = await self._issuance.issue(prepared)
            faults.point("acme.finalize.issued")
            await self._host.db.write(self._record, order.id, prepared, issued)
        except Conflict:
            return await self._host.db.read(_stored, order.id)  # it was settled meanwhile
        except Exception:
            self._settle_soon(order.id, prepared.id)
            raise
        faults.point("acme.finalize.recorded")
        return msgspec.structs.replace(order, status="valid", certificate_id=prepared.id)

    def _settle_soon(self, order_id: str, certificate_id: str) -> None:
        """Nobody is at work on it any more, so its age does not matter."""
        self._host.spawn(f"settle order {order_id}", once_back(lambda: self._settle_one(order_id, certificate_id)))

    async def _settle_one(self, order_id: str, certificate_id: str) -> None:
        """Raises Unavailable alone."""
        try:
            await self._decide(order_id, certificate_id)
        except Conflict:
            return  # somebody else ended it
        except Unavailable as problem:
            self._host.log.warning("a finalization cannot be settled yet", order=order_id, reason=problem.detail)
            raise
        except Exception:  # one that cannot be settled must not hold up the others
            self._host.log.exception("a finalization cannot be settled", order=order_id)

    async def _decide(self, order_id: str, certificate_id: str) -> None:
        """The certificate if it was or can be signed, else the order is ready again."""
        prepared = await self._host.db.read(self._issuance.reserved, certificate_id)
        if prepared is None:
            await self._follow(order_id, certificate_id)
            return
        issued = await self._issuance.settle(prepared)
        if issued is not None:
            await self._host.db.write(self._record, order_id, prepared, issued)
        else:
            await self._host.db.write(self._give_up, order_id, prepared)
        self._host.log.info("settled an interrupted finalization", order=order_id, issued=issued is not None)

    async def _follow(self, order_id: str, certificate_id: str) -> None:
        """The reservation was ended by the issuing side: the order goes the same way."""
        certificate = await self._issuance.certificate(certificate_id)
        known = certificate is not None and certificate.status in {"issued", "revoked"}
        await self._host.db.write(_follow, order_id, certificate_id, known)

    def _reserve(self, tx: Tx, order_id: str, draft: Draft, account: Account) -> Prepared:
        if blocked := self._host.blocked_keys.find_in(tx, account.spki_sha256):
            raise Refuse(refused(blocked))
        self._grant.check_now(tx, draft.request.profile.id, account.view.id)
        if tx.one(OF_KEY, thumbprint=draft.request.csr.thumbprint) is not None:
            raise Refuse(BadCsr("the key of the request is an account key (RFC 8555 s11.1)"))
        if tx.count(CLAIM, order_id=order_id, now=tx.now, new_certificate=draft.id) == 0:
            raise Refuse(OrderNotReady("the order is not ready any more"))
        return self._issuance.reserve(tx, draft)

    def _record(self, tx: Tx, order_id: str, prepared: Prepared, issued: Issued) -> None:
        if tx.count(FINISH, order_id=order_id, certificate=prepared.id) == 0:
            raise Refuse(Conflict("the order was ended by another"))
        self._issuance.record(tx, prepared, issued)

    def _give_up(self, tx: Tx, order_id: str, prepared: Prepared) -> None:
        if tx.count(REOPEN, order_id=order_id, certificate=prepared.id) == 0:
            raise Refuse(Conflict("the order was ended by another"))
        self._issuance.abandon(tx, prepared)


def _request(order: Order, profile: Profile, csr: CertificateRequest, account: AccountView) -> IssuanceRequest:
    return IssuanceRequest(
        profile=profile,
        ca_id=order.ca_id,
        identifiers=order.identifiers,
        csr=csr,
        account=account,
        order_id=order.id,
        not_before=order.not_before,
        not_after=order.not_after,
    )


def _with_proofs(tx: Tx, id: str, account_id: str, ca_id: str) -> tuple[Order | None, Mapping[int, str]]:
    """The account's order, with the challenge type that proved each identifier first, by position."""
    proven: dict[int, str] = {}
    if order := read_own(tx, id, account_id, ca_id):
        for row in tx.all(PROVEN_BY, id=id):
            proven.setdefault(row.position, row.type)
    return order, proven


def _stored(tx: Tx, order_id: str) -> Order:
    order = read_order(tx, order_id)
    assert order is not None  # one that is processing is not purged
    return order


def _claimed(tx: Tx, before: int | None) -> list[tuple[str, str]]:
    """Claims from ``before``, by default those that are old; one that lies ahead was made by a clock that was set back since."""
    return [(row.id, row.certificate_id) for row in tx.all(CLAIMED, before=tx.now - SETTLE_AGE if before is None else before, now=tx.now)]


def _follow(tx: Tx, order_id: str, certificate_id: str, known: bool) -> None:
    tx.run(FINISH if known else REOPEN, order_id=order_id, certificate=certificate_id)


def _ungranted(profile: str) -> str:
    return f"account grant: the account may not use the profile {profile}"


def _denied(profile: str, check: str, problem: Problem, account_id: str) -> AuditEvent:
    detail = f"profile {profile}, {check}: {problem.type}"
    return AuditEvent(event_type="order.deny", service="ca", outcome="failure", sub=account_id, detail=detail)
