"""Sign-in with a passkey: the options that a browser is given, and what it sends back (WebAuthn s7.2)."""

import asyncio
import unicodedata
from collections.abc import Sequence

import msgspec

from greatseal import faults
from greatseal.api.http import Call, Handler, Reply, Route, optional_body
from greatseal.api.identity import Authenticated, Denied
from greatseal.api.messages import Message, plural
from greatseal.api.passkeys import Passkey
from greatseal.api.problems import BadRequest, RateLimited
from greatseal.api.services import LOGIN
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.net.addresses import source_of
from greatseal_passkey import records
from greatseal_passkey.ceremony import Authentication, Proven, Unproven, id_of, prove
from greatseal_passkey.challenges import Challenges, Given, owner_of_challenge
from greatseal_passkey.decoys import Decoys
from greatseal_passkey.keys import BadKey, digest_of
from greatseal_passkey.origin import OwnOrigin
from greatseal_passkey.settings import PasskeyLimit, RelyingParty
from greatseal_passkey.stores import Stores

WRONG = Message("this passkey is not known here, or it does not prove who you are")
MAX_USERNAME = 512
"""Characters, as at every other sign-in."""
WINDOW = 300.0
LEAST = 0.005
"""Seconds that an answer about a name takes at least: what is looked up for it takes a tenth, and more for some people than for others."""
TIMEOUT = 60_000
"""Milliseconds that a browser may take."""
NOBODY = Passkey(
    id=b"",
    subject="",
    public_key=bytes.fromhex(
        "3059301306072a8648ce3d020106082a8648ce3d030107034200046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
    ),
)
"""What an unknown id is checked against, so that it takes as long: the generator of P-256, whose private key is 1."""


class Asked(msgspec.Struct, frozen=True):
    """The body of a question for options."""

    username: str | None = None


class PasskeySignIn:
    """``/api/auth/passkey/begin`` and ``complete``."""

    def __init__(self, host: Host, stores: Stores, challenges: Challenges, decoys: Decoys, party: RelyingParty) -> None:
        self._host = host
        self._login = host.service(LOGIN)
        self._stores = stores
        self._challenges = challenges
        self._decoys = decoys
        self._party = party
        self._origin = OwnOrigin(host)
        self._limit = host.settings(PasskeyLimit).auth_rate_limit

    def routes(self) -> list[Route]:
        proves = Handler("the passkey proves who it is")
        return [
            Route("POST", "/api/auth/passkey/begin", self.begin, auth=proves, summary="Options for a sign-in with a passkey."),
            Route(
                "POST",
                "/api/auth/passkey/complete",
                self.complete,
                auth=proves,
                summary="Sign in with what the passkey answered; sets the session cookie.",
                owner=owner_of_challenge(self._host, Authentication),
            ),
        ]

    async def begin(self, call: Call) -> Reply:
        self._origin.check(call)
        asked = await optional_body(call, Asked)
        name = unicodedata.normalize("NFC", _bounded(asked.username or "").strip())
        begun = self._host.clock.monotonic()
        subject, allowed = await self._allowed(call, name) if name else (None, [])
        made = await self._challenges.make("get", subject=subject)
        options = {
            "challenge": made["challenge"],
            "timeout": TIMEOUT,
            "rpId": self._party.id,
            "allowCredentials": allowed,
            "userVerification": self._party.verification,
        }
        reply = Reply.json({"challenge_id": made["challenge_id"], "publicKey": options})
        if name:
            await asyncio.sleep(LEAST - (self._host.clock.monotonic() - begun))
        return reply

    async def complete(self, call: Call) -> Reply:
        self._origin.check(call)
        given = await call.body(Authentication)
        await self._login.count(call)
        passkey = NOBODY
        try:
            passkey, store = await self._find(given)
            proven = await self._proven(given, passkey, store)
        except (Unproven, BadKey) as problem:
            await self._login.failed(call, f"passkey: {problem}", subject=passkey.subject or None)
            raise Denied(WRONG) from None
        faults.point("passkey.used")
        username, _, realm = passkey.subject.rpartition("@")
        completed = await self._login.complete(call, Authenticated(username=username, realm=realm, amr=methods_of(proven)), given.return_to)
        return await self._login.answer(call, completed, given.return_to)

    async def _allowed(self, call: Call, name: str) -> tuple[str, Sequence[object]]:
        """Whose sign-in it is, empty for nobody's, and the credentials that may be used for it."""
        self._count(call)
        home = await self._stores.named(name)
        passkeys = await self._stores.nobodys(name) if home is None else await home.store.of(home.subject)
        known = await self._host.db.read(records.transports_of, name if home is None else home.subject)
        decoys = self._decoys.of(self._stores.spelling(name))
        if home is None or not passkeys:
            return "", [_descriptor(id, transports) for id, transports in decoys]
        return home.subject, [_descriptor(one.id, known.get(b64url_encode(one.id), ())) for one in passkeys]

    async def _find(self, given: Authentication) -> tuple[Passkey, str]:
        id = id_of(given)
        record = await self._host.db.read(records.find, b64url_encode(id))
        return await self._stores.find(id, record.store if record is not None else None) or (NOBODY, "")

    async def _proven(self, given: Authentication, passkey: Passkey, store: str) -> Proven:
        """What the assertion shows, after which its challenge is used up. Raises Unproven and BadKey."""
        challenge = await self._challenges.read(given, "get")
        proven = prove(given, self._party, challenge.text, passkey.public_key)
        _check_person(passkey, given, challenge)
        blocked = await self._host.blocked_keys.find(digest_of(passkey.public_key))
        problem = "the key is blocked" if blocked is not None else await self._host.db.write(self._use, passkey, store, proven, challenge)
        if problem is not None:
            raise Unproven(problem)
        return proven

    def _use(self, tx: Tx, passkey: Passkey, store: str, proven: Proven, challenge: Given) -> str | None:
        """What is wrong after all, in the transaction that uses the challenge up."""
        if not self._challenges.use(tx, challenge):
            return "the challenge was used before"
        return records.note_use(tx, passkey, store, proven)

    def _count(self, call: Call) -> None:
        """Nobody asks for many names. Raises RateLimited."""
        wait = self._host.limits.hit("passkey-names", source_of(call.remote), self._limit, WINDOW)
        if wait is not None:
            words = plural("too many attempts; try again in one second", "too many attempts; try again in %(count)d seconds", wait)
            raise RateLimited(words, headers={"Retry-After": str(wait)})


def methods_of(proven: Proven) -> tuple[str, ...]:
    """Authentication method references (RFC 8176): a key of hardware or one that is copied between devices, and who unlocked it."""
    key = "swk" if proven.backup_eligible else "hwk"
    return (key, "user", "mfa") if proven.verified else (key,)


def _check_person(passkey: Passkey, given: Authentication, challenge: Given) -> None:
    """Whether the passkey is of the person whose name was typed, or of whom its authenticator says. Raises Unproven."""
    if passkey is NOBODY:
        raise Unproven("the id is of no passkey")
    named, handle = challenge.challenge.person is not None, given.response.user_handle
    if named and not challenge.challenge.is_of(passkey.subject):
        raise Unproven("the passkey is not that of the name")
    if named and (handle is None or passkey.user_handle is None):
        return
    try:
        same = handle is not None and b64url_decode(handle) == passkey.user_handle
    except ValueError:
        same = False
    if not same:
        raise Unproven("the user handle is another one")


def _descriptor(id: bytes, transports: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {"type": "public-key", "id": b64url_encode(id)}
    return {**found, "transports": transports} if transports else found


def _bounded(username: str) -> str:
    if len(username) > MAX_USERNAME:
        raise BadRequest(Message("a user name has at most %(longest)d characters", {"longest": MAX_USERNAME}))
    return username
