"""One-time code tokens of FreeIPA: entries under ``cn=otp``, as ``ipa otptoken-add`` makes them (ipaserver/plugins/otptoken.py).

Whether a code was used is in the entry, where FreeIPA looks for it too: ``ipatokenTOTPwatermark`` is the first step and
``ipatokenHOTPcounter`` the first counter that is good yet (libotp/otp_token.c).
"""

import re
import uuid
from collections.abc import Iterator, Sequence

import msgspec
from structlog.stdlib import BoundLogger

from greatseal.api.audit import AuditEvent
from greatseal.api.directory import DirectoryUnavailable, User
from greatseal.api.messages import Message
from greatseal.api.moments import SECOND
from greatseal.api.otp import Algorithm, CodeStore, Holder, Kind, NewToken, Token, TokenKey
from greatseal.api.problems import Conflict
from greatseal.host import Host
from greatseal_ipa.bind_with_code import BindWithCode
from greatseal_ipa.library import Change, Entry, Link, Outcome, Query, Scope
from greatseal_ipa.names import folded, rdn_value
from greatseal_ipa.outcomes import ALREADY, CONSTRAINT, FORBIDDEN, MISSING, NO_ENTRY, NOT_ALLOWED, THERE, UNWILLING, heard, refusal
from greatseal_ipa.reader import Reader
from greatseal_ipa.schema import SOURCE, equals, moment, spelt

SHOWN = (
    "objectClass", "ipatokenUniqueID", "description", "managedBy", "ipatokenDisabled", "ipatokenNotBefore", "ipatokenNotAfter",
    "ipatokenVendor", "ipatokenOTPalgorithm", "ipatokenOTPdigits", "ipatokenTOTPclockOffset", "ipatokenTOTPtimeStep",
    "ipatokenTOTPwatermark", "ipatokenHOTPcounter", "createTimestamp",
)  # fmt: skip
KEY, WATERMARK, COUNTER = "ipatokenOTPkey", "ipatokenTOTPwatermark", "ipatokenHOTPcounter"
DISABLED, NOT_AFTER = "ipatokenDisabled", "ipatokenNotAfter"
TOKENS = "(|(objectClass=ipatokenTOTP)(objectClass=ipatokenHOTP))"
VENDOR = "Greatseal"
"""Of tokens that were made here."""
ALGORITHMS: dict[str, Algorithm] = {"sha1": "sha1", "sha256": "sha256", "sha384": "sha384", "sha512": "sha512"}
DIGITS = frozenset({6, 8})
STEP, SHORTEST_STEP = 30, 5
"""Seconds. FreeIPA takes a shorter step for the usual one."""
NUMBER = re.compile(r"-?[0-9]{1,18}")
MOST = 10
"""Tokens of a person with which another one may be made."""
LISTED = 100
"""Tokens of a person that are looked at."""
WAITING = 3600 * SECOND
"""How long a token waits for its first code."""
SAMPLE = 20
SWEEP = 100
"""Tokens that the job deletes at once."""
LOST = frozenset({MISSING, CONSTRAINT, ALREADY, UNWILLING, NOT_ALLOWED})
"""What a change gives that another one came before; FreeIPA's ipa-otp-counter is unwilling."""
TRIES = 5


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A token as its entry has it. ``used`` is the last step or counter that is used up, ``raw`` what the entry says of it."""

    dn: str
    token_id: str
    label: str
    type: Kind
    algorithm: Algorithm | None
    digits: int
    period: int
    offset: int
    used: int | None
    raw: str | None
    key: bytes | None
    disabled: bool
    starts: int | None
    ends: int | None
    made_here: bool
    managed_by: frozenset[str]
    created_at: int | None

    @property
    def is_whole(self) -> bool:
        """Whether codes can be counted with it; FreeIPA counts with no token of a person who has one that is not."""
        return self.algorithm is not None and self.digits in DIGITS

    @property
    def is_waiting(self) -> bool:
        """Made here, and no code of it was given yet: FreeIPA takes none of it before."""
        return self.made_here and self.disabled and self.raw is None

    def is_current(self, now: int) -> bool:
        """Within its time, of which the first and the last second are part, as in FreeIPA."""
        second = now - now % SECOND
        return (self.starts is None or self.starts <= second) and (self.ends is None or second <= self.ends)

    def may_be_used(self, now: int) -> bool:
        """Whether a code of it is good now, a first one too."""
        return self.is_current(now) and (self.is_waiting or not self.disabled)


class IpaTokens(CodeStore):
    """Of everybody in a directory with FreeIPA's schema.

    A token that FreeIPA's own commands made counts where FreeIPA has the person use it: where ``otp`` is among the authentication types.
    One that was made here counts in any case, and waits disabled for its first code.
    """

    name = SOURCE
    recovery = False

    def __init__(self, host: Host, reader: Reader, together: BindWithCode | None) -> None:
        self._host = host
        self._reader = reader
        self._together = together
        self._log: BoundLogger = host.log
        self._base = f"cn=otp,{reader.schema.base_dn}"
        self.some = Query(base=self._base, filter=TOKENS, attributes=("ipatokenUniqueID", KEY), scope=Scope.ONE, limit=SAMPLE)
        """Tokens of anybody, with what must be seen of them."""

    def keeps(self, holder: Holder) -> bool:
        return holder.user is not None and holder.user.source == self.name

    async def takes_both(self, holder: Holder) -> bool:
        return self._together is not None and holder.user is not None and await self._together.serves(holder.user)

    async def tokens(self, holder: Holder) -> Sequence[Token]:
        now = self._host.clock.now()
        return [_token(one, _counts(one, holder.user, now)) for one in await self._of(holder, SHOWN) if not _is_left(one, now)]

    async def keys(self, holder: Holder) -> Sequence[TokenKey]:
        now = self._host.clock.now()
        held = [one for one in await self._of(holder, (*SHOWN, KEY)) if one.is_whole and _counts(one, holder.user, now)]
        if any(one.key is None for one in held) and await self.takes_both(holder):
            return []  # FreeIPA alone counts
        return [_key(one) for one in held]

    async def advance(self, holder: Holder, key: TokenKey, to: int) -> bool:
        owner = await self._dn(holder)
        if owner is None:
            return False
        query, now = self._one(owner, key.token_id), self._host.clock.now()
        before, outcome = await self._reader.pool.ask(lambda link: _use_up(link, query, to, now))
        if before is None or outcome.code in LOST:
            return False
        self._require_done(outcome, "to note that a code was used")
        if before.is_waiting:
            await self._tell("otp_token_confirmed", holder, key.token_id)
        return True

    async def add(self, holder: Holder, new: NewToken) -> Token:
        owner = await self._dn(holder)
        if owner is None:
            raise DirectoryUnavailable(
                Message("the directory does not know this person now"), cause=f"{holder.subject} is not there any more"
            )
        now = self._host.clock.now()
        there = await self._of(holder, SHOWN)
        left = [one for one in there if _is_left(one, now)]
        await self._delete(left)
        if len(there) - len(left) >= MOST:
            raise Conflict(Message("there are %(most)d tokens already; delete one first", {"most": MOST}))
        token_id = str(uuid.uuid4())
        dn = f"ipatokenuniqueid={rdn_value(token_id)},{self._base}"
        values = _values(token_id, owner, new, ends=now + WAITING)
        outcome = await self._reader.pool.ask(lambda link: heard(link.add(dn, values)))
        if outcome.code != THERE:  # it broke off after the server had done it
            self._require_allowed(outcome, "a new token")
        await self._tell("otp_token_created", holder, token_id)
        made = next((one for one in await self._of(holder, SHOWN) if one.token_id == token_id), None)
        if made is None:
            raise DirectoryUnavailable(Message("the directory does not show the new token yet; look again soon"), cause=f"{dn} is not seen")
        return _token(made, enabled=True)

    async def remove(self, holder: Holder, token_id: str, *, by: str | None = None) -> bool:
        held, now = await self._of(holder, SHOWN), self._host.clock.now()
        found = next((one for one in held if one.token_id == token_id), None)
        if found is None:
            return False
        others = any(_counts(one, holder.user, now) and not one.is_waiting for one in held if one is not found)
        if by is None and _needs_code(holder.user) and not (others or found.is_waiting):
            raise Conflict(Message("without this token you could not sign in any more: make another one first"))
        if by is None and folded(await self._dn(holder) or "") not in found.managed_by:
            raise Conflict(Message("this token was given to you by an administrator of the directory, who alone deletes it"))
        outcome = await self._reader.pool.ask(lambda link: heard(link.delete(found.dn)))
        if outcome.code != NO_ENTRY:
            self._require_allowed(outcome, "the end of a token")
        await self._tell("otp_token_deleted", holder, token_id, by)
        return True

    async def sweep(self) -> None:
        """Delete tokens of which no code was ever given."""
        now = self._host.clock.now()
        filter_ = f"(&{TOKENS}{equals('ipatokenVendor', VENDOR)}({DISABLED}=TRUE)(!({WATERMARK}=*))({NOT_AFTER}<={spelt(now)}))"
        query = Query(base=self._base, filter=filter_, attributes=SHOWN, scope=Scope.ONE, limit=SWEEP)
        found = [held for entry in (await self._reader.ask(query)).entries if (held := read(entry)) is not None]
        await self._delete([one for one in found if _is_left(one, now)])

    async def _delete(self, left: Sequence[Held]) -> None:
        for one in left:
            outcome = await self._reader.pool.ask(lambda link, dn=one.dn: heard(link.delete(dn)))  # type: ignore[misc]
            if not outcome.ok and outcome.code != NO_ENTRY:
                self._log.warning("a token without a first code stays in the directory", cause=refusal(outcome, "to delete it"))

    async def _of(self, holder: Holder, attributes: Sequence[str]) -> list[Held]:
        """The oldest first. Raises DirectoryUnavailable where not all are told: a token that is not seen would not be asked for."""
        owner = await self._dn(holder)
        if owner is None:
            return []
        query = Query(base=self._base, filter=_owned_by(owner), attributes=tuple(attributes), scope=Scope.ONE, limit=LISTED)
        found = await self._reader.ask(query)
        if not found.complete:
            raise DirectoryUnavailable(Message("the directory gave no usable answer"), cause=f"{owner} has more than {LISTED} tokens")
        held = [one for entry in found.entries if (one := read(entry)) is not None]
        return sorted(held, key=lambda one: (one.created_at or 0, one.token_id))

    async def _dn(self, holder: Holder) -> str | None:
        user = holder.user if self.keeps(holder) else None
        person = await self._reader.person(user.username) if user is not None else None
        return person.dn if person is not None else None

    def _one(self, owner: str, token_id: str) -> Query:
        filter_ = f"(&{_owned_by(owner)}{equals('ipatokenUniqueID', token_id)})"
        return Query(base=self._base, filter=filter_, attributes=SHOWN, scope=Scope.ONE, limit=1)

    async def _tell(self, event_type: str, holder: Holder, token_id: str, by: str | None = None) -> None:
        event = AuditEvent(event_type=event_type, service="idp", sub=holder.subject, principal=by, detail=token_id)
        await self._host.audit_log(event)

    def _require_allowed(self, outcome: Outcome, what: str) -> None:
        """Raises Conflict where the service has no right to it, else as :meth:`_require_done`."""
        if outcome.code in {FORBIDDEN, NO_ENTRY}:
            detail = "the directory does not let this service keep tokens; ask your administrator"
            raise Conflict(detail, cause=refusal(outcome, what))
        self._require_done(outcome, what)

    def _require_done(self, outcome: Outcome, what: str) -> None:
        if not outcome.ok:
            raise DirectoryUnavailable(Message("the directory did not take it; try again soon"), cause=refusal(outcome, what))


def read(entry: Entry) -> Held | None:
    """The token of an entry; None for one of another kind."""
    classes = {one.lower() for one in entry.texts("objectClass")}
    token_id = entry.text("ipatokenUniqueID")
    type: Kind | None = "totp" if "ipatokentotp" in classes else "hotp" if "ipatokenhotp" in classes else None
    if type is None or token_id is None:
        return None
    raw = entry.text(WATERMARK if type == "totp" else COUNTER)
    next_one = _number(raw)
    step = _number(entry.text("ipatokenTOTPtimeStep"))
    return Held(
        dn=entry.dn,
        token_id=token_id,
        label=entry.text("description") or "",
        type=type,
        algorithm=ALGORITHMS.get((entry.text("ipatokenOTPalgorithm") or "sha1").lower()),
        digits=_number(entry.text("ipatokenOTPdigits")) or 0,
        period=step if step is not None and step >= SHORTEST_STEP else STEP,
        offset=_number(entry.text("ipatokenTOTPclockOffset")) or 0,
        used=None if next_one is None else next_one - 1,
        raw=raw,
        key=next(iter(entry.values.get(KEY.lower(), ())), None),
        disabled=(entry.text(DISABLED) or "").upper() == "TRUE",
        starts=moment(entry.text("ipatokenNotBefore")),
        ends=moment(entry.text(NOT_AFTER)),
        made_here=(entry.text("ipatokenVendor") or "").lower() == VENDOR.lower(),
        managed_by=frozenset(folded(dn) for dn in entry.texts("managedBy")),
        created_at=moment(entry.text("createTimestamp")),
    )


def _counts(one: Held, user: User | None, now: int) -> bool:
    """Whether codes of it are wanted, and good."""
    return one.may_be_used(now) and (one.made_here or (user is not None and "otp" in user.authentication_types))


def _needs_code(user: User | None) -> bool:
    """Whether the directory takes nobody's password alone for this person, as ipa-otp-lasttoken sees to it where they delete it there."""
    types = user.authentication_types if user is not None else ()
    return "otp" in types and "password" not in types


def _is_left(one: Held, now: int) -> bool:
    """Whether nobody gave a first code in time."""
    return one.is_waiting and not one.is_current(now)


def _token(one: Held, enabled: bool) -> Token:
    last = None if one.type == "hotp" or one.used is None or one.used < 0 else (one.used * one.period - one.offset) * SECOND
    return Token(
        token_id=one.token_id,
        label=one.label,
        type=one.type,
        algorithm=one.algorithm or "sha1",
        digits=one.digits,
        period=one.period if one.type == "totp" else None,
        confirmed=not one.is_waiting,
        enabled=enabled,
        created_at=one.created_at,
        last_used_at=last,
    )


def _key(one: Held) -> TokenKey:
    """Raises DirectoryUnavailable where the service may not read the key: on that nobody signs in."""
    if one.key is None:
        cause = f"the service may not read {KEY} of {one.dn}: greatseal ipa setup says what is missing"
        raise DirectoryUnavailable(Message("one-time codes cannot be checked now"), cause=cause)
    assert one.algorithm is not None  # whole
    hotp = one.type == "hotp"
    return TokenKey(
        token_id=one.token_id,
        type=one.type,
        key=one.key,
        algorithm=one.algorithm,
        digits=one.digits,
        period=one.period,
        offset=one.offset,
        counter=(one.used or 0) + 1 if hotp and one.used is not None else 0,
        used=None if hotp else one.used,
        confirmed=not one.is_waiting,
    )


def _owned_by(owner: str) -> str:
    return f"(&{TOKENS}{equals('ipatokenOwner', owner)})"


def _use_up(link: Link, query: Query, to: int, now: int) -> tuple[Held | None, Outcome]:
    """The token as it was before, None where the code is not good any more, and how the change went.

    The old value is taken away and the new one put there at once, so of all who read the same one wins; the others look again.
    """
    outcome = Outcome(0)
    for _ in range(TRIES):
        entry = next(iter(link.search(query).entries), None)
        held = read(entry) if entry is not None else None
        if held is None or not held.may_be_used(now) or (held.used is not None and held.used >= to):
            return None, outcome
        outcome = heard(link.modify(held.dn, list(_changes(held, to))))
        if outcome.code not in LOST:
            return held, outcome
    return None, outcome


def _changes(held: Held, to: int) -> Iterator[Change]:
    attribute = WATERMARK if held.type == "totp" else COUNTER
    if held.raw is not None:
        yield Change("delete", attribute, [held.raw])
    yield Change("add", attribute, [str(to + 1)])
    if held.is_waiting:
        yield Change("replace", DISABLED, ["FALSE"])
        yield Change("replace", NOT_AFTER, [])


def _values(token_id: str, owner: str, new: NewToken, *, ends: int) -> dict[str, Sequence[str | bytes]]:
    """The entry of a new token."""
    return {
        "objectClass": ("top", "ipaToken", "ipatokenTOTP"),
        "ipatokenUniqueID": (token_id,),
        "ipatokenOwner": (owner,),
        "managedBy": (owner,),
        "description": (new.label,),
        KEY: (new.key,),
        "ipatokenOTPalgorithm": (new.algorithm,),
        "ipatokenOTPdigits": (str(new.digits),),
        "ipatokenTOTPclockOffset": ("0",),
        "ipatokenTOTPtimeStep": (str(new.period),),
        "ipatokenVendor": (VENDOR,),
        "ipatokenModel": ("ipatokenTOTP",),
        "ipatokenSerial": (token_id,),
        DISABLED: ("TRUE",),
        NOT_AFTER: (spelt(ends),),
    }


def _number(text: str | None) -> int | None:
    return int(text) if text and NUMBER.fullmatch(text) else None
