"""Registration of a passkey by its person (WebAuthn s7.1)."""

import secrets

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.authorization import LoginRequired
from greatseal.api.http import Call, Reply, Route, Session
from greatseal.api.identity import Login, SessionCaller, SessionView
from greatseal.api.messages import Message, marked
from greatseal.api.moments import SECOND, seconds
from greatseal.api.notices import Met, seen, warning
from greatseal.api.passkeys import Passkey, PasskeysReadOnly
from greatseal.api.problems import BadRequest, Conflict, Forbidden, Unavailable
from greatseal.api.services import LOGIN, NOTICES
from greatseal.api.store import Refuse, Tx
from greatseal.host import Clock, Host
from greatseal.jose.compact import b64url_encode
from greatseal_passkey import records
from greatseal_passkey.attestation import Unattested
from greatseal_passkey.ceremony import Registered, Registration, Unproven, register
from greatseal_passkey.challenges import Challenges, Given, owner_of_challenge
from greatseal_passkey.keys import ALGORITHMS, digest_of
from greatseal_passkey.models import BadMetadata, Models
from greatseal_passkey.settings import RelyingParty
from greatseal_passkey.sign_in import TIMEOUT
from greatseal_passkey.stores import Home, Stores

FRESH = 600
"""Seconds after a sign-in in which its session may add and delete passkeys: a browser that somebody left open may not."""
MAX_LABEL = 64
TRANSPORTS = frozenset({"ble", "hybrid", "internal", "nfc", "smart-card", "usb"})
"""Those that are kept (WebAuthn s5.8.4); a browser may send others."""


class Stale(Forbidden):
    """The sign-in was too long ago."""

    error = "reauthentication_required"


class Unsuited(Forbidden):
    """The device is of no model that may be used."""

    error = "device_not_allowed"


async def require_whole(login: Login, clock: Clock, session: SessionView) -> None:
    """Raises Stale unless the person signed in a short while ago, LoginRequired unless they proved then all that they are asked for."""
    if not is_fresh(clock, session):
        raise Stale(Message("you signed in too long ago for this; sign in again"))
    if await login.lacks(session):
        raise LoginRequired(Message("this takes a sign-in with your second factor"))


def is_fresh(clock: Clock, session: SessionView) -> bool:
    """Whether the person signed in a short while ago."""
    now = clock.now()
    return session.was_proven(now - FRESH * SECOND + 1, now)


class PasskeyRegistration:
    """``/api/auth/passkey/register/begin`` and ``complete``."""

    def __init__(self, host: Host, stores: Stores, challenges: Challenges, party: RelyingParty, models: Models | None) -> None:
        self._host = host
        self._login = host.service(LOGIN)
        self._stores = stores
        self._challenges = challenges
        self._party = party
        self._models = models

    def routes(self) -> list[Route]:
        path = "/api/auth/passkey/register"
        owner = owner_of_challenge(self._host, Registration)
        return [
            Route("POST", f"{path}/begin", self.begin, auth=Session(), summary="Options for a new passkey of yours."),
            Route("POST", f"{path}/complete", self.complete, auth=Session(), summary="Register what the device made.", owner=owner),
        ]

    async def begin(self, call: Call) -> Reply:
        session = call.caller_as(SessionCaller).session
        await require_whole(self._login, self._host.clock, session)
        home = await self._stores.home(session.subject)
        _require_writable(home)
        passkeys = await home.store.of(home.subject)
        # One for all passkeys of a person, so that a device replaces its own; random, so that it tells nobody who it is (s14.6.1).
        handle = next((one.user_handle for one in passkeys if one.user_handle), None) or secrets.token_bytes(32)
        made = await self._challenges.make("create", subject=home.subject, session_id=session.id, user_handle=handle)
        shown = home.user.display_name if home.user is not None else None
        options = {
            "rp": {"id": self._party.id, "name": self._party.name},
            "user": {"id": b64url_encode(handle), "name": session.username, "displayName": shown or session.username},
            "challenge": made["challenge"],
            "pubKeyCredParams": [{"type": "public-key", "alg": number} for number in ALGORITHMS],
            "timeout": TIMEOUT,
            "excludeCredentials": [{"type": "public-key", "id": b64url_encode(one.id)} for one in passkeys],
            "authenticatorSelection": {
                "residentKey": "preferred",
                "requireResidentKey": False,
                "userVerification": self._party.verification,
            },
            "attestation": "none" if self._models is None else "direct",
        }
        return Reply.json({"challenge_id": made["challenge_id"], "publicKey": options})

    async def complete(self, call: Call) -> Reply:
        session = call.caller_as(SessionCaller).session
        await require_whole(self._login, self._host.clock, session)
        given = await call.body(Registration)
        label = label_of(given.label)
        try:
            challenge = await self._challenges.read(given, "create")
            _check_session(challenge, session)
            made = await self._made(given, challenge)
        except Unattested as error:
            await self._refused(session, str(error))
            raise Unsuited(
                Message("this kind of device may not be used here; ask your administrator which ones may"), cause=str(error)
            ) from None
        except Unproven as error:
            raise BadRequest(Message("the passkey could not be registered; begin again"), cause=str(error)) from None
        home = await self._stores.home(session.subject)
        _require_writable(home)
        passkey = Passkey(id=made.id, subject=home.subject, public_key=made.public_key, user_handle=challenge.challenge.user_handle)
        noted: list[records.Record] = []

        def note(tx: Tx) -> None:
            name = Message("Passkey %(number)d", {"number": len(records.of_person(tx, home.subject)) + 1})
            record = self._record(tx, home, made, given, label or made.model or self._host.languages.of(call.headers).text(name))
            noted[:] = [self._note(tx, challenge, passkey, record, met=seen(call))]

        await home.store.add(passkey, note)
        faults.point("passkey.registered")
        (record,) = noted
        return Reply.json({"id": record.id, "label": record.label, "created_at": seconds(record.created_at)}, status=201)

    async def _made(self, given: Registration, challenge: Given) -> Registered:
        if self._models is None:
            return register(given, self._party, challenge.text)
        try:
            known = await self._host.blocking.run("passkey-models", self._models.known)
        except (OSError, BadMetadata) as error:
            raise Unavailable(Message("nobody can tell now which devices may be used"), cause=str(error)) from None
        return register(given, self._party, challenge.text, known, self._host.clock.now())

    async def _refused(self, session: SessionView, why: str) -> None:
        event = AuditEvent(event_type="passkey_refused", service="idp", outcome="failure", sub=session.subject, detail=why[:500])
        await self._host.audit_log(event)

    def _note(self, tx: Tx, challenge: Given, passkey: Passkey, record: records.Record, *, met: Met) -> records.Record:
        """What commits with the passkey."""
        if not self._challenges.use(tx, challenge):
            raise Refuse(Conflict(Message("this was registered already; begin again for another passkey")))
        if self._host.blocked_keys.find_in(tx, digest_of(passkey.public_key)) is not None:
            raise Refuse(BadRequest(Message("the key of this passkey is blocked; use another device")))
        records.write(tx, record)
        if (notices := self._host.optional_service(NOTICES)) is not None:
            met = Met(facts={marked("Passkey"): record.label, **met.facts}, languages=met.languages)
            notices.tell(tx, warning("passkey_added", record.subject, Message("A passkey was added to your account"), met))
        return record

    def _record(self, tx: Tx, home: Home, made: Registered, given: Registration, label: str) -> records.Record:
        return records.Record(
            id=b64url_encode(made.id),
            subject=home.subject,
            store=home.store.name,
            label=label,
            aaguid=made.aaguid,
            transports=tuple(sorted(TRANSPORTS.intersection(given.response.transports))),
            sign_count=made.sign_count,
            backup_eligible=made.backup_eligible,
            backup_state=made.backup_state,
            created_at=tx.now,
        )


def label_of(label: str | None) -> str | None:
    """The name that a person gave a passkey; None for none. Raises BadRequest for one that cannot be shown in a line."""
    label = (label or "").strip()
    if len(label) > MAX_LABEL or not label.isprintable():
        raise BadRequest(Message("label: at most %(longest)d characters in one line", {"longest": MAX_LABEL}))
    return label or None


def _check_session(challenge: Given, session: SessionView) -> None:
    """Raises Unproven for a challenge of somebody else, or of another session."""
    if challenge.challenge.session_id != session.id or not challenge.challenge.is_of(session.subject):
        raise Unproven("the challenge is of another session")


def _require_writable(home: Home) -> None:
    if home.store.read_only:
        raise PasskeysReadOnly(Message("your passkeys are administered elsewhere; ask your administrator"))
