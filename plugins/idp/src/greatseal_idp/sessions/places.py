"""Where a person has signed in before: wrong passwords from elsewhere do not keep them out.

A browser has it in a sealed cookie, an address in a row. Neither proves anything: both only choose which failures count.
"""

import hashlib
import unicodedata
from collections.abc import Mapping

import msgspec
from sqlalchemy import delete, select, tuple_, update

from greatseal.api.browsers import browser_of, is_browser
from greatseal.api.http import Call
from greatseal.api.store import Tx, scan
from greatseal.db.tables import insert_new, param
from greatseal.host import Host
from greatseal.http.cookies import cookie_of, set_cookie
from greatseal.net.addresses import source_of
from greatseal_idp import tables as t

NAME = "greatseal_known"
KIND = "kb"
"""The kind of the handles in the cookie."""
DAYS = 90
"""How long a place is remembered after the last sign-in there."""
PEOPLE = 8
"""Who signed in last at a browser; others begin there as strangers."""
BITE = 500
"""Rows that one transaction of the purge deletes."""
DAY = 86_400_000_000

_KNOWN = select(t.place.c.used_at).where(t.place.c.name == param("name"), t.place.c.source == param("source"))
_NEW = insert_new(t.place)
_AGAIN = update(t.place).where(t.place.c.name == param("name"), t.place.c.source == param("source")).values(used_at=param("used_at"))
_OLD = delete(t.place).where(
    tuple_(t.place.c.name, t.place.c.source).in_(
        select(t.place.c.name, t.place.c.source).where(t.place.c.used_at < param("before")).order_by(t.place.c.used_at).limit(BITE)
    )
)


class _Browser(msgspec.Struct, frozen=True):
    """Who has signed in at a browser, with the moment (microseconds) after which that is forgotten."""

    people: Mapping[str, int]


class Device(msgspec.Struct, frozen=True):
    """One that somebody has not signed in with; ``program`` is by what it is known the next time, None for a browser."""

    program: str | None = None


class Places:
    """The browsers and addresses of people, by :func:`key_of` of the user name."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._secure = host.issuer.startswith("https:")

    async def is_known(self, call: Call, key: str) -> bool:
        """Whether ``key`` has signed in at the browser or from the address of the call."""
        if key in await self._people(call):
            return True
        return await self._host.db.read(_is_known, key, source_of(call.remote))

    async def unknown_device(self, call: Call, key: str) -> "Device | None":
        """The device of the call, None when ``key`` has signed in with it.

        A browser is known by its cookie alone. A program keeps none: it is known by its name and its address.
        """
        if key in await self._people(call):
            return None
        agent = call.headers.get("User-Agent")
        if is_browser(agent):
            return Device()
        program = f"{browser_of(agent)} {source_of(call.remote)}"
        return None if await self._host.db.read(_is_known, key, program) else Device(program)

    async def remembered(self, call: Call, key: str) -> tuple[str, str]:
        """The header by which the browser knows ``key`` from now on."""
        others = [(name, until) for name, until in (await self._people(call)).items() if name != key]
        latest = sorted(others, key=lambda one: one[1], reverse=True)[: PEOPLE - 1]
        browser = _Browser({**dict(latest), key: self._host.clock.now() + DAYS * DAY})
        value = await self._host.envelopes.seal(KIND, browser, seconds=DAYS * 86_400)
        return set_cookie(NAME, value, max_age=DAYS * 86_400, secure=self._secure)

    def note(self, tx: Tx, key: str, remote: str, device: "Device | None") -> None:
        """Remember the address, and a new program, in the transaction of the sign-in."""
        for source in (source_of(remote), *([device.program] if device is not None and device.program else [])):
            row = {"name": key, "source": source, "used_at": tx.now}
            if tx.count(_AGAIN, **row) == 0:
                tx.count(_NEW, **row)

    async def forget_old(self) -> None:
        """Delete the addresses that nobody came from for long."""
        before = self._host.clock.passed() - DAYS * DAY
        while await self._host.db.write(_forget, before) == BITE:
            pass

    async def _people(self, call: Call) -> Mapping[str, int]:
        value = cookie_of(call.headers.get("Cookie", ""), NAME, secure=self._secure)
        browser = None if value is None else await self._host.envelopes.open(KIND, value, _Browser)
        now = self._host.clock.now()
        people = {} if browser is None else browser.people
        return {name: until for name, until in people.items() if now < until}


def key_of(username: str) -> str:
    """One key for all spellings of a user name, of a fixed size."""
    name = unicodedata.normalize("NFKC", username.strip()).partition("@")[0].casefold()
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


def _is_known(tx: Tx, key: str, source: str) -> bool:
    return tx.one(_KNOWN, name=key, source=source) is not None


@scan
def _forget(tx: Tx, before: int) -> int:
    return tx.count(_OLD, before=before)
