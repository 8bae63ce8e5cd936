"""What people allowed clients before, and the transaction that issues a code."""

from collections.abc import Collection
from functools import lru_cache
from hashlib import sha256

import msgspec
from sqlalchemy import select, tuple_

from greatseal.api.audit import AuditEvent
from greatseal.api.authorization import LoginRequired, Proposal
from greatseal.api.clients import Client
from greatseal.api.identity import SessionView
from greatseal.api.messages import Message
from greatseal.api.problems import BadRequest, NotFound, Problem
from greatseal.api.store import Refuse, Row, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.authorize.reader import Reader
from greatseal_idp.authorize.request import AuthorizationRequest, registered
from greatseal_idp.authorize.waiting import Kept, use_up
from greatseal_idp.clients.registry import Registry
from greatseal_idp.extensions import Details
from greatseal_idp.scopes import Asked
from greatseal_idp.sessions.ladder import Ladder
from greatseal_idp.token.codes import CodeOrder, Codes
from greatseal_idp.token.endings import Endings

_BY_ID = select(t.consent).where(t.consent.c.id == param("consent"))
_OF = (
    select(t.consent.c.client_id, t.consent.c.scopes, t.consent.c.granted_at)
    .where(
        t.consent.c.subject == param("subject"),
        tuple_(t.consent.c.granted_at, t.consent.c.client_id) > tuple_(param("moment"), param("last")),
    )
    .order_by(t.consent.c.granted_at, t.consent.c.client_id)
    .limit(param("wanted"))
)
_BEFORE = (
    select(t.consent.c.client_id, t.consent.c.scopes, t.consent.c.granted_at)
    .select_from(t.session.outerjoin(t.consent, t.consent.c.id == param("consent")))
    .where(t.session.c.id == param("session"))
)
"""A row when there is the session, with the consent when there is that too."""
_HELD = select(t.family.c.id).where(
    t.family.c.subject == param("subject"), t.family.c.client_id == param("client"), t.family.c.revoked_at.is_(None)
)


class ConsentRequired(BadRequest):
    """The person would have to be asked, and prompt is none (OpenID Connect Core s3.1.2.6)."""

    error = "consent_required"


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """What a person allowed a client, and when. ``scopes`` has what extensions remember too: their name, a blank, and what it is."""

    client_id: str
    scopes: tuple[str, ...]
    granted_at: int

    @property
    def named(self) -> tuple[str, ...]:
        """The scopes alone: no name of one has a blank."""
        return tuple(scope for scope in self.scopes if " " not in scope)


class Consents:
    """Remembered consents, and codes."""

    def __init__(self, host: Host, codes: Codes, endings: Endings, clients: Registry, reader: Reader, *, ladder: Ladder) -> None:
        self._host = host
        self._ladder = ladder
        self._endings = endings
        self._clients = clients
        self._codes = codes
        self._reader = reader
        self._cache = host.changes.cache(t.CONSENT.name, _load)

    async def cover(self, session: SessionView, client: Client, asked: Asked, details: Details, redirect_uri: str) -> bool:
        """Whether nobody has to be asked.

        A public client behind a loopback or private-use redirect URI may be any program of the machine: the person is asked each time
        (RFC 8252 s8.6).
        """
        if is_implicit(client):
            return True
        if details.always:
            return False
        if client.token_endpoint_auth_method == "none" and not redirect_uri.startswith("https:"):  # noqa: S105  # a method's name
            return False
        consent = await self._cache.get(consent_id(session.subject, client.client_id))
        return self._covers(consent, session.subject, (*asked.all, *details.keys))

    async def of(self, subject: str, after: tuple[int, str], wanted: int) -> list[Consent]:
        """At most ``wanted`` of what a person allowed, oldest first, that come after a moment and a client id."""
        return await self._host.db.read(_of, subject, after, wanted)

    async def issue(self, kept: Kept, session: SessionView, client: Client, asked: Asked, *, details: Details, approved: bool) -> str:
        """The code for a request. ``approved`` remembers the consent; without it there was one, or the client needs none.

        Whatever a row decides is decided again with the code, in one transaction: it may have changed while a page was open. Raises
        :class:`greatseal_idp.authorize.waiting.Spent`, LoginRequired when the session has just ended, ConsentRequired when the consent
        was just withdrawn, NotRegistered, and what :meth:`greatseal_idp.authorize.reader.Reader.allowed` raises.
        """
        return await self._host.db.write(self._issue, kept, session, client, asked, details=details, approved=approved)

    async def deny(self, kept: Kept, session: SessionView) -> None:
        """The person said no: the request is used up. Raises :class:`greatseal_idp.authorize.waiting.Spent`."""
        event = AuditEvent(
            event_type="consent_denied", service="idp", outcome="failure", sub=session.subject, client_id=kept.request.to.client_id
        )
        await self._host.db.write(_deny, kept.uses, event)

    async def withdraw(self, subject: str, client_id: str) -> None:
        """Forget what a person allowed a client, and end what the client has of this person: codes, families and access tokens.

        Whoever was never asked, as the people of a client with implicit consent, ends its families alike.
        """
        await self._host.db.write(self._withdraw, subject, client_id)

    def _withdraw(self, tx: Tx, subject: str, client_id: str) -> None:
        allowed = tx.remove(t.CONSENT, consent_id(subject, client_id))
        if allowed or tx.one(_HELD, subject=subject, client=client_id) is not None:
            tx.audit(AuditEvent(event_type="consent_withdrawn", service="idp", sub=subject, client_id=client_id))
            self._endings.begin(tx, "consent", subject=subject, client_id=client_id)

    def _issue(self, tx: Tx, kept: Kept, session: SessionView, client: Client, asked: Asked, *, details: Details, approved: bool) -> str:
        before = tx.one(_BEFORE, session=session.id, consent=consent_id(session.subject, client.client_id))
        if before is None:
            raise Refuse(LoginRequired("the session has ended (OpenID Connect Core s3.1.2.6)"))
        use_up(tx, kept.uses)
        # What was read before was decided before; only a client that changed since is decided again.
        if (stored := self._clients.as_stored(tx, client)) is not client:
            try:
                client = registered(stored, kept.request.to)
                asked = self._reader.allowed(kept.request, asked, client)
            except Problem as problem:
                raise Refuse(problem) from problem
        order = _order(kept.request, session, asked, self._ladder.told(session.acr, kept.request.asked_acr))
        consent = None if before.client_id is None else _consent(before)
        if approved:
            self._remember(tx, order, details, consent)
        elif not is_implicit(client) and not self._covers(consent, session.subject, (*asked.all, *details.keys)):
            raise Refuse(ConsentRequired("the consent was withdrawn (OpenID Connect Core s3.1.2.6)"))
        return self._codes.issue(tx, order)

    def allow(self, tx: Tx, proposal: Proposal, session: SessionView, *, origin: bytes, until: int) -> None:
        """See :meth:`greatseal.api.authorization.Authorizations.allow`: a code that waits under ``origin`` for another grant."""
        before = tx.one(_BEFORE, session=session.id, consent=consent_id(session.subject, proposal.client.client_id))
        if before is None:
            raise Refuse(LoginRequired("the session has ended (OpenID Connect Core s3.1.2.6)"))
        if self._clients.as_stored(tx, proposal.client) is None:
            raise Refuse(NotFound(Message("the application is not registered any more")))
        order = _approval(proposal, session, self._ladder.told(session.acr, proposal.authorization.acr))
        self._remember(tx, order, Details(keys=proposal.keys), None if before.client_id is None else _consent(before))
        self._codes.keep(tx, origin, order, until=until)

    def _covers(self, consent: Consent | None, subject: str, scopes: Collection[str]) -> bool:
        """Whether a consent that is not over has all of the scopes."""
        if consent is None or self._endings.cover(consent.client_id, subject, consent.granted_at):
            return False
        return set(consent.scopes).issuperset(scopes)

    def _remember(self, tx: Tx, order: CodeOrder, details: Details, before: Consent | None) -> None:
        id = consent_id(order.subject, order.client_id)
        allowed = (*order.scopes, *order.implied)
        kept = before.scopes if before is not None and self._covers(before, order.subject, ()) else ()
        encoded = msgspec.json.encode(sorted({*kept, *allowed, *details.keys})).decode()
        tx.put(t.CONSENT, id, subject=order.subject, client_id=order.client_id, scopes=encoded, granted_at=tx.now)
        tx.audit(
            AuditEvent(event_type="consent_granted", service="idp", sub=order.subject, client_id=order.client_id, detail=" ".join(allowed))
        )


def is_implicit(client: Client) -> bool:
    """Whether nobody is asked about the client."""
    return client.more.get("consent") == "implicit"


@lru_cache(1024)
def consent_id(subject: str, client_id: str) -> str:
    """The key of the consent of a person to a client."""
    return sha256(f"{subject}\0{client_id}".encode()).hexdigest()


def _order(request: AuthorizationRequest, session: SessionView, asked: Asked, acr: str | None) -> CodeOrder:
    return CodeOrder(
        client_id=request.to.client_id,
        redirect_uri=request.to.redirect_uri,
        subject=session.subject,
        scopes=asked.scopes,
        implied=asked.implied,
        auth_time=session.auth_time,
        amr=session.amr,
        acr=acr,
        session_id=session.id,
        code_challenge=request.code_challenge,
        nonce=request.nonce,
        claims=request.claims,
        more=request.more,
    )


def _approval(proposal: Proposal, session: SessionView, acr: str | None) -> CodeOrder:
    """It has no redirect URI, so that it is never taken for a code of /authorize, and outlives the session."""
    authorization = proposal.authorization
    return CodeOrder(
        client_id=authorization.client_id,
        redirect_uri="",
        subject=session.subject,
        scopes=authorization.scopes,
        implied=authorization.implied,
        auth_time=session.auth_time,
        amr=session.amr,
        acr=acr,
        claims=authorization.claims,
        more=authorization.more,
    )


def _deny(tx: Tx, uses: tuple[str, ...], event: AuditEvent) -> None:
    use_up(tx, uses)
    tx.audit(event)


def _load(tx: Tx, id: str) -> Consent | None:
    row = tx.one(_BY_ID, consent=id)
    return None if row is None else _consent(row)


def _of(tx: Tx, subject: str, after: tuple[int, str], wanted: int) -> list[Consent]:
    return [_consent(row) for row in tx.all(_OF, subject=subject, moment=after[0], last=after[1], wanted=wanted)]


def _consent(row: Row) -> Consent:
    return Consent(client_id=row.client_id, scopes=tuple(msgspec.json.decode(row.scopes)), granted_at=row.granted_at)
