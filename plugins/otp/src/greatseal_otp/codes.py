"""The codes of a person, wherever their tokens rest."""

import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from greatseal.api.authorization import LoginRequired
from greatseal.api.declarations import Secret
from greatseal.api.directory import Directories
from greatseal.api.http import Call
from greatseal.api.identity import AccountRefused, SessionView
from greatseal.api.messages import Message
from greatseal.api.moments import SECOND
from greatseal.api.notices import seen
from greatseal.api.otp import CodeStore, Holder, NewToken, Token
from greatseal.api.problems import BadRequest, Conflict
from greatseal.host import Host
from greatseal_otp import recovery
from greatseal_otp.arithmetic import matching, otpauth_uri
from greatseal_otp.devices import Devices
from greatseal_otp.enough import is_enough
from greatseal_otp.recovery import Recovery
from greatseal_otp.settings import Look, OtpSettings
from greatseal_otp.tokens import LocalTokens
from greatseal_otp.wrong import WrongCodes

PERIOD = 30
KEY_BYTES = {"sha1": 20, "sha256": 32, "sha512": 64}
"""As many as the hash has (RFC 4226 s4 R6, RFC 6238 s3 R6)."""
RECENT = 900 * SECOND
"""How long ago a sign-in may be after which tokens are made and deleted."""
LONGEST_LABEL = 64


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A token and what an app needs of it: this once."""

    token: Token
    key: bytes
    uri: str

    def __repr__(self) -> str:
        return f"Made(token={self.token!r})"


class Codes:
    """Finds the store of a person, and counts."""

    def __init__(
        self, host: Host, directories: Directories, *, local: LocalTokens, recovery: Recovery, devices: Devices, wrong: WrongCodes
    ) -> None:
        self._host = host
        self._directories = directories
        self._settings = host.settings(OtpSettings)
        self._issuer = host.settings(Look).display_name or urlsplit(host.issuer).hostname or host.issuer
        self.local = local
        self.recovery = recovery
        self.devices = devices
        self.wrong = wrong

    async def holder(self, subject: str, call: Call | None = None) -> Holder:
        """The person of a canonical subject, who is told of changes in the language of the call."""
        languages = seen(call).languages if call is not None else ()
        return Holder(subject=subject, user=await self._directories.user(subject), languages=languages)

    def store(self, holder: Holder) -> CodeStore:
        """Where their tokens rest."""
        others = (one for one in self._host.components(CodeStore).values() if one is not self.local)
        return next((one for one in others if one.keeps(holder)), self.local)

    async def are_taken_with_the_password(self, username: str) -> bool:
        """Whether the codes of whoever has this name are checked at their home, with the password."""
        user = await self._directories.user(username)
        if user is None:
            return False
        holder = Holder(subject=user.subject, user=user)
        return await self.store(holder).takes_both(holder)

    async def tokens(self, holder: Holder) -> Sequence[Token]:
        """Every token of the person."""
        return await self.store(holder).tokens(holder)

    async def has_token(self, holder: Holder) -> bool:
        """Whether the person has a token that they must use."""
        return any(token.confirmed and token.enabled for token in await self.tokens(holder))

    async def use(self, holder: Holder, password: Secret | None, code: Secret) -> bool:
        """Whether the code is good. It is used up, and so are the codes before it. ``password`` is what came with it, if any did.

        Raises AccountRefused after too many wrong codes in a row: only a recovery code is good then.
        """
        if (digits := recovery.read(code.value)) is not None:
            good = self.store(holder).recovery and await self.recovery.use(holder, digits)
        elif await self.wrong.are_too_many(holder.subject):
            raise AccountRefused(
                Message("too many wrong codes were given: sign in with a recovery code, or ask whoever administers this service")
            )
        else:
            good = await self._use(holder, password, code)
        if good:
            await self.wrong.clear(holder.subject)
        else:
            await self.wrong.note(holder.subject)
        return good

    async def _use(self, holder: Holder, password: Secret | None, code: Secret) -> bool:
        store = self.store(holder)
        keys = await store.keys(holder)
        now = self._host.clock.now()
        # A token that waits for its first code may be of somebody who knows the password alone: beside one in use it is none.
        for key in [one for one in keys if one.confirmed] or keys:
            at = matching(key, code.value, now)
            if at is not None and await store.advance(holder, key, at):
                return True
        return not keys and password is not None and await store.check(holder, password, code)

    async def confirm(self, holder: Holder, token_id: str, code: str) -> bool:
        """Whether it is a good code of this very token, which is used up: the token counts from now on."""
        store = self.store(holder)
        key = next((one for one in await store.keys(holder) if one.token_id == token_id), None)
        at = None if key is None else matching(key, code, self._host.clock.now())
        return key is not None and at is not None and await store.advance(holder, key, at)

    async def make(self, session: SessionView, label: str) -> Made:
        """A new token for the person of a session. Raises BadRequest for a label that is none, LoginRequired, Conflict."""
        self.require_recent(session)
        return await self.make_for(await self.holder(session.subject), label, username=session.username)

    async def make_for(self, holder: Holder, label: str, *, username: str) -> Made:
        """A new token. Raises BadRequest for a label that is none, Conflict."""
        store = self.store(holder)
        if not store.manages:
            raise Conflict(Message("your one-time codes are kept elsewhere, and made there"))
        key = secrets.token_bytes(KEY_BYTES[self._settings.algorithm])
        new = NewToken(label=label_of(label), key=key, algorithm=self._settings.algorithm, digits=self._settings.digits, period=PERIOD)
        token = await store.add(holder, new)
        return Made(token=token, key=key, uri=otpauth_uri(new, issuer=self._issuer, username=username))

    async def remove(self, session: SessionView, token_id: str, call: Call | None = None) -> bool:
        """Delete a token of the person of a session; False when they have none of this id. Raises LoginRequired."""
        holder = await self.holder(session.subject, call)
        self.require_recent(session)
        store = self.store(holder)
        return store.manages and await store.remove(holder, token_id)

    async def new_recovery_codes(self, session: SessionView) -> tuple[str, ...]:
        """Raises LoginRequired, and Conflict for a person who does not need any."""
        holder = await self.holder(session.subject)
        self.require_recent(session)
        if not (self.store(holder).recovery and any(token.confirmed for token in await self.tokens(holder))):
            raise Conflict(Message("recovery codes stand in for a token: there is none yet"))
        return await self.recovery.make(session.subject)

    async def remove_all(self, holder: Holder, *, by: str) -> int:
        """Delete every token of a person and their recovery codes; how many tokens there were."""
        store = self.store(holder)
        removed = [await store.remove(holder, token.token_id, by=by) for token in await store.tokens(holder)] if store.manages else []
        await self.recovery.forget(holder.subject)
        await self.devices.forget(holder.subject)
        await self.wrong.clear(holder.subject)
        return sum(removed)

    async def is_proven(self, session: SessionView) -> bool:
        """Whether the session proved as much as its person can: before they had a token, or on a remembered device, it did not.

        One in which a token was confirmed did (:meth:`greatseal.api.identity.Login.go_on`).
        """
        return is_enough(session) or not any(one.confirmed for one in await self.tokens(await self.holder(session.subject)))

    def is_recent(self, session: SessionView) -> bool:
        """Whether the sign-in was a short while ago."""
        now = self._host.clock.now()
        return session.was_proven(now - RECENT, now)

    def require_recent(self, session: SessionView) -> None:
        """Raises LoginRequired for a sign-in of some time ago: a computer that was left open changes nothing."""
        if not self.is_recent(session):
            raise LoginRequired(
                Message("sign in again: this takes a sign-in of the last %(minutes)d minutes", {"minutes": RECENT // SECOND // 60})
            )


def label_of(text: str) -> str:
    """The word of a person for a token. Raises BadRequest."""
    label = " ".join(text.split())
    if not label or len(label) > LONGEST_LABEL or not label.isprintable():
        raise BadRequest(
            Message("label: expected 1 to %(longest)d characters that can be printed, such as My phone", {"longest": LONGEST_LABEL})
        )
    return label


def shown(token: Token, source: str) -> dict[str, object]:
    """A token for programs: never its key. Moments are seconds."""

    def second(moment: int | None) -> int | None:
        return None if moment is None else moment // SECOND

    return {
        "token_id": token.token_id,
        "label": token.label,
        "type": token.type,
        "algorithm": token.algorithm,
        "digits": token.digits,
        "period": token.period,
        "created_at": second(token.created_at),
        "confirmed": token.confirmed,
        "enabled": token.enabled,
        "last_used_at": second(token.last_used_at),
        "source": source,
    }
