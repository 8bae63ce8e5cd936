"""The logs of this service, by the CA whose certificates are in them: opened by the plugin's lifespan, fed with what waits."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

from greatseal.api.log import LogBackend
from greatseal.api.messages import Message
from greatseal.api.problems import NotFound, Problem, Unavailable
from greatseal.api.services import ISSUANCE
from greatseal.host import Host
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.authorities import LOG_NUMBERS, Authority
from greatseal_mtc.backends.files import FilesBackend
from greatseal_mtc.checkpoints import Checkpoints
from greatseal_mtc.keys import LogKeys, open_keys
from greatseal_mtc.landmarks import Landmarks
from greatseal_mtc.recording import Numbers, give_up, open_number, record, recorded_size, waiting
from greatseal_mtc.revoked_ranges import RevokedRanges
from greatseal_mtc.sequencer import Appended, Log, Witnessed
from greatseal_mtc.settings import MtcSettings
from greatseal_mtc.state import Batch, Made
from greatseal_mtc.stored_checkpoints import newest_of
from greatseal_mtc.stored_landmarks import newest_size
from greatseal_mtc.subtrees import SubtreeSigner
from greatseal_mtc.tiles import TileCache
from greatseal_mtc.views import LogView
from greatseal_mtc.wire import MAX_LOG_NUMBER, entry_of_tbs

FILES = "files"
CACHE = 32 << 20
"""Bytes of tiles that are kept in memory, of all logs together."""
LATEST = 253_402_300_799_000_000
"""The end of 9999: the certificate of a CA that is a log has no other end (RFC 5280 s4.1.2.5)."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds until what the log could not take is appended again."""


class CaLog:
    """The log of one CA, open: what issues, signs and answers takes it from here."""

    def __init__(self, host: Host, settings: MtcSettings, log: Log, keys: LogKeys, place: "Place", numbers: Numbers) -> None:  # noqa: PLR0917
        self.ca_id = place.ca_id
        self.settings = settings
        self.number = log.made.number
        self.log = log
        self.keys = keys
        self.numbers = numbers
        self.origin = place.origin(numbers)
        """The first line of its checkpoints, and the name of the operator's key."""
        self.prefix_url = place.url
        """Below it are its endpoints."""
        self.signer = SubtreeSigner(log, keys, self.anchor, self.id)
        self.checkpoints = Checkpoints(host, self)
        self.landmarks = Landmarks(host, self, host.service(ISSUANCE))
        self._host = host
        self._woken = asyncio.Event()
        self._woken.set()

    @property
    def anchor(self) -> TrustAnchorId:
        """The ID of the CA."""
        return self.settings.anchor

    @property
    def id(self) -> TrustAnchorId:
        """The ID of the log."""
        return self.anchor.log(self.number)

    @property
    def authority(self) -> Authority:
        """What the certificate of the CA says, by which its Merkle Tree certificates are checked: those of earlier logs too."""
        return Authority(
            dialect=self.settings.of_dialect,
            id=self.anchor,
            hash=self.log.hash,
            key=self.keys.cosigner_public,
            not_before=0,
            not_after=LATEST,
            log_number=self.numbers.first,
            last_log_number=min(self.number + LOG_NUMBERS - 1, MAX_LOG_NUMBER),
        )

    @property
    def vkeys(self) -> tuple[str, str]:
        """The verifier keys of the operator, and of the CA cosigner."""
        return self.keys.note_key(self.origin).vkey, self.keys.cosigner_note_key(self.anchor.name).vkey

    def entry_of(self, tbs: bytes) -> bytes:
        """The log entry of a TBSCertificate. Raises ValueError for one that is too long."""
        return entry_of_tbs(self.settings.of_dialect, self.anchor, self.log.hash, tbs)

    async def append(self, certificate_id: str, tbs: bytes) -> Appended:
        """Give the certificate its index. Raises as :meth:`greatseal_mtc.sequencer.Log.append`."""
        return await self.log.append(certificate_id, self.entry_of(tbs))

    def wake(self) -> None:
        """A certificate waits."""
        self._woken.set()

    async def feed(self) -> None:
        """Append what waits, for ever. What the log cannot take now waits for longer; issuing goes on."""
        wait = FIRST_WAIT
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                while await self._append_some():
                    wait = FIRST_WAIT
            except Problem as problem:
                self._host.log.warning(
                    "certificates are not logged yet; it is tried again",
                    ca=self.ca_id,
                    seconds=wait,
                    reason=problem.cause or problem.detail,
                )
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
                self._woken.set()

    async def _append_some(self) -> bool:
        """Some of those that wait; False when none does."""
        listed = await self._host.db.read(waiting, self.ca_id)
        entries, unfit = [], {}
        for id, tbs in listed:
            try:
                entries.append((id, self.entry_of(tbs)))
            except ValueError as error:
                unfit[id] = str(error)
        for id, reason in unfit.items():
            self._host.log.error("a certificate cannot be logged", ca=self.ca_id, certificate=id, reason=reason)
            await self._host.db.write(give_up, self.ca_id, id, reason)
        outcomes = await asyncio.gather(*(self.log.append(id, entry) for id, entry in entries), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return bool(listed)


class Place:
    """Where the log of a CA is found over HTTP, below ``url``."""

    def __init__(self, base_url: str, ca_id: str, default_id: str) -> None:
        self.ca_id = ca_id
        of = "" if ca_id == default_id else f"/{ca_id}"
        self.url = f"{base_url}/acme{of}/mtc"

    def origin(self, numbers: Numbers) -> str:
        """The origin of the log: a later one of the CA has another, or it would be a fork to whoever watched the one before."""
        return f"{self.url}/tlog" if numbers.current == numbers.first else f"{self.url}/tlog/{numbers.current}"


class Logs:
    """Every log of this service."""

    def __init__(self, host: Host, settings: Mapping[str, MtcSettings], default_id: str) -> None:
        self._host = host
        self.settings = settings
        """By the id of the CA."""
        self.default_id = default_id
        """The CA whose log has the shorter paths."""
        self.open_logs: dict[str, CaLog] = {}
        """Those that are open."""
        self.cache = TileCache(CACHE)
        self.revoked = RevokedRanges(host)

    def of(self, ca_id: str) -> CaLog:
        """The log of a CA. Raises Unavailable where it is not open."""
        found = self.open_logs.get(ca_id)
        if found is None:
            raise Unavailable("the log of the CA takes no entries now", cause=f"the log of CA {ca_id!r} is not open")
        return found

    def wake(self, ca_id: str) -> None:
        """A certificate of the CA waits for its log."""
        if found := self.open_logs.get(ca_id):
            found.wake()

    def place(self, ca_id: str) -> Place:
        """Where the log of the CA is found over HTTP."""
        return Place(self._host.base_url, ca_id, self.default_id)

    def backend(self, ca_id: str) -> LogBackend:
        """Where the log of the CA rests, from the lifespans on."""
        settings = self.settings[ca_id]
        name = settings.log_backend or (FILES if self._host.db.dialect == "sqlite" else "sql")
        if name == FILES:
            return FilesBackend(settings.log_path or self._host.state_dir / "mtc")
        return self._host.components(LogBackend)[name]

    async def view(self, log: CaLog, number: int) -> LogView:
        """The log of that number of the CA: the open one, or one that is not written any more. Raises NotFound where that is gone."""
        if number == log.number:
            return log.log
        found = self.view_of(log.ca_id, number)
        if not await found.refresh():
            raise NotFound(Message("the log %(number)d of this CA is not there any more", {"number": number}))
        return found

    def view_of(self, ca_id: str, number: int) -> LogView:
        """A log for reading, whether it is open or not; it is refreshed first."""
        name = log_name(ca_id, number)
        return LogView(name, self.backend(ca_id).reader(name), self.cache)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Hold every log, and feed it, until the block ends. Raises StartProblem."""
        async with AsyncExitStack() as stack:
            others = self._host.service(ISSUANCE).own_keys()
            for ca_id, settings in self.settings.items():
                keys = await open_keys(self._host, ca_id, settings, others)
                found = await self._open(stack, ca_id, settings, keys)
                await found.checkpoints.open()
                self.open_logs[ca_id] = found
                stack.callback(self.open_logs.pop, ca_id)
                await stack.enter_async_context(_running(found.feed(), f"mtc-feed-{ca_id}"))
            yield

    async def _open(self, stack: AsyncExitStack, ca_id: str, settings: MtcSettings, keys: LogKeys) -> CaLog:
        numbers = await self._host.db.write(open_number, ca_id, settings.log_number)
        number, place = numbers.current, self.place(ca_id)
        if number > settings.log_number:
            self._host.log.info("the log that is written is a later one than log_number says", ca=ca_id, log_number=number)
        log = await stack.enter_async_context(
            Log.open(
                self.backend(ca_id),
                log_name(ca_id, number),
                made_of(settings, number),
                record=partial(self._record, ca_id, number),
                cache=self.cache,
                logger=self._host.log,
                witnessed=await self._witnessed(ca_id, number),
                recorded=await self._host.db.read(recorded_size, ca_id, number),
            )
        )
        return CaLog(self._host, settings, log, keys, place, numbers)

    async def _record(self, ca_id: str, number: int, batch: Batch) -> None:
        await self._host.db.write(record, ca_id, number, batch)

    async def _witnessed(self, ca_id: str, number: int) -> list[Witnessed]:
        """What the database knows of the log, of which none may be gone."""
        newest = await self._host.db.read(newest_of, ca_id, number)
        sizes = {
            await self._host.db.read(recorded_size, ca_id, number),
            await self._host.db.read(newest_size, ca_id, number),
        }
        found = [Witnessed(size) for size in sizes if size]
        return found if newest is None else [*found, Witnessed(newest.size, newest.root)]


def log_name(ca_id: str, number: int) -> str:
    """What the log is called where it rests."""
    return f"{ca_id}-{number}"


def made_of(settings: MtcSettings, number: int) -> Made:
    """What a log keeps of the settings that it was made with."""
    return Made(settings.hash_alg, settings.dialect, number, settings.anchor.ascii)


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
