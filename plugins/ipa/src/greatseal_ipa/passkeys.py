"""Passkeys as FreeIPA and SSSD have them: values of ``ipapasskey`` of a person's entry.

A value is ``passkey:`` with two or three parts in base64, between commas: the credential id, the public key as SubjectPublicKeyInfo, and
the user handle where the authenticator gives one (FreeIPA, ipaserver/plugins/baseuser.py; SSSD, src/responder/pam/pamsrv_passkey.c).
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
from structlog.stdlib import BoundLogger

from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.messages import Message
from greatseal.api.passkeys import MOST_PASSKEYS, Passkey, PasskeysReadOnly, PasskeyStore
from greatseal.api.problems import Conflict
from greatseal.api.store import Database, Tx
from greatseal_ipa.library import Change, Entry, Link, Outcome, Query, Scope
from greatseal_ipa.names import is_askable, is_username, same
from greatseal_ipa.outcomes import ALREADY, FORBIDDEN, MISSING, heard, refusal
from greatseal_ipa.reader import Reader
from greatseal_ipa.schema import ONE, SOURCE, begins, equals

PREFIX = "passkey:"
ATTRIBUTE, CLASS = "ipapasskey", "ipaPasskeyUser"
WANTED = ("uid", "objectClass", ATTRIBUTE)
P256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
"""What stands before x and y in the SubjectPublicKeyInfo of a P-256 key. Early versions of SSSD wrote x and y alone."""
POINT = 64
LONGEST = 1023
"""Bytes of a credential id (WebAuthn s6.5.1)."""
TRIES = 3


class Held(msgspec.Struct, frozen=True):
    """A passkey and the value that it was read from."""

    value: str
    passkey: Passkey


class IpaPasskeys(PasskeyStore):
    """Of everybody in a directory with FreeIPA's schema; hosts that ask SSSD take the same ones."""

    name = SOURCE

    def __init__(self, reader: Reader, db: Database, log: BoundLogger) -> None:
        self._reader = reader
        self._db = db
        self._log = log
        self._realm = reader.schema.realm
        self._users = f"cn=users,cn=accounts,{reader.schema.base_dn}"

    def serves(self, subject: str, source: str | None) -> bool:  # noqa: ARG002  # the source says it
        return source == self.name

    async def of(self, subject: str) -> Sequence[Passkey]:
        entry = await self._entry(subject)
        return [one.passkey for one in self._held(entry)][:MOST_PASSKEYS]

    async def find(self, id: bytes) -> Passkey | None:
        """One that stands in two entries is nobody's: whoever wrote the second one may have meant to be taken for the first."""
        found = await self._all(id)
        if len(found) > 1:
            self._log.warning("a passkey of the directory is in more than one value, and signs nobody in", id=b64encode(id).decode())
        return found[0] if len(found) == 1 else None

    async def add(self, passkey: Passkey, also: Callable[[Tx], object]) -> None:
        entry = await self._entry(passkey.subject)
        if entry is None:
            raise DirectoryUnavailable(
                Message("the directory does not know this person now"), cause=f"{passkey.subject} is not there any more"
            )
        await self._require_fewer(passkey.id, 1)
        if len(self._held(entry)) >= MOST_PASSKEYS:
            raise Conflict(Message("you have %(most)d passkeys, which is the most; delete one first", {"most": MOST_PASSKEYS}))
        value = written(passkey)
        outcome = await self._reader.pool.ask(lambda link: _add(link, entry.dn, value))
        _require_done(outcome, "a new passkey")
        try:
            # Nothing in a directory sees to it that an id is there once: of two at the same time neither stays.
            await self._require_fewer(passkey.id, 2)
            await self._db.write(also)
        except Exception:
            with suppress(DirectoryUnavailable):
                await self._reader.pool.ask(lambda link: _delete(link, entry.dn, [value]))
            raise

    async def remove(self, subject: str, id: bytes, also: Callable[[Tx], object]) -> bool:
        entry = await self._entry(subject)
        values = [one.value for one in self._held(entry) if one.passkey.id == id]
        if entry is None or not values:
            return False
        outcome = await self._reader.pool.ask(lambda link: _delete(link, entry.dn, values))
        if outcome.code != MISSING:
            _require_done(outcome, "the end of a passkey")
        await self._db.write(also)
        return True

    async def _entry(self, subject: str) -> Entry | None:
        """Asked anew each time, and as much for nobody as for somebody."""
        username, _, realm = subject.rpartition("@")
        if realm != self._realm or not is_askable(username):
            return None
        filter_ = f"(&(objectClass=posixAccount){equals('uid', username)})"
        found = await self._reader.ask(Query(base=self._users, filter=filter_, attributes=WANTED, scope=Scope.ONE, limit=ONE))
        return next((entry for entry in found.entries if same(entry.text("uid") or "", username)), None)

    async def _all(self, id: bytes) -> list[Passkey]:
        """Every value with that id, whosever it is."""
        filter_ = f"(&(objectClass={CLASS}){begins(ATTRIBUTE, _spelt(id) + ',')})"
        found = await self._reader.ask(Query(base=self._users, filter=filter_, attributes=WANTED, scope=Scope.ONE, limit=ONE))
        return [one.passkey for entry in found.entries for one in self._held(entry) if one.passkey.id == id]

    async def _require_fewer(self, id: bytes, number: int) -> None:
        if len(await self._all(id)) >= number:
            raise Conflict(Message("this passkey is registered already"))

    def _held(self, entry: Entry | None) -> list[Held]:
        uid = entry.text("uid") if entry is not None else None
        if entry is None or uid is None or not is_username(uid):
            return []
        subject = f"{uid}@{self._realm}"
        read = ((value, parsed(value, subject)) for value in sorted(entry.texts(ATTRIBUTE)))
        return [Held(value, passkey) for value, passkey in read if passkey is not None]


def written(passkey: Passkey) -> str:
    """The value of a passkey."""
    parts = [passkey.public_key, *([passkey.user_handle] if passkey.user_handle else [])]
    return ",".join((_spelt(passkey.id), *(b64encode(part).decode() for part in parts)))


def parsed(value: str, subject: str) -> Passkey | None:
    """The passkey of a value; None for what is none, such as a mapping of another kind."""
    parts = [part.strip() for part in value.removeprefix(PREFIX).split(",")]
    if not value.startswith(PREFIX) or len(parts) not in {2, 3}:
        return None
    try:
        id, key, *handle = (b64decode(part, validate=True) for part in parts)
    except ValueError:
        return None
    if not 0 < len(id) <= LONGEST:
        return None
    public_key = P256 + key if len(key) == POINT else key
    return Passkey(id=id, subject=subject, public_key=public_key, user_handle=handle[0] or None if handle else None)


def _spelt(id: bytes) -> str:
    return PREFIX + b64encode(id).decode()


def _add(link: Link, dn: str, value: str) -> Outcome:
    """Several may add at once, and the class is there from the first one on."""
    outcome = Outcome(ALREADY)
    for _ in range(TRIES):
        query = Query(base=dn, attributes=WANTED, scope=Scope.BASE, limit=1)
        entry = next(iter(link.search(query).entries), Entry(dn))
        if value in entry.texts(ATTRIBUTE):
            return Outcome(0)
        marked = CLASS.lower() in {one.lower() for one in entry.texts("objectClass")}
        changes = [Change("add", ATTRIBUTE, [value]), *([] if marked else [Change("add", "objectClass", [CLASS])])]
        outcome = heard(link.modify(dn, changes))
        if outcome.code != ALREADY:
            break
    return outcome


def _delete(link: Link, dn: str, values: Sequence[str]) -> Outcome:
    return heard(link.modify(dn, [Change("delete", ATTRIBUTE, values)]))


def _require_done(outcome: Outcome, what: str) -> None:
    """Raises PasskeysReadOnly where the service may not do it, else DirectoryUnavailable."""
    if outcome.code == FORBIDDEN:
        raise PasskeysReadOnly(
            "the directory does not let this service change passkeys; ask your administrator", cause=refusal(outcome, what)
        )
    if not outcome.ok:
        raise DirectoryUnavailable(Message("the directory did not take it; try again soon"), cause=refusal(outcome, what))
