"""Connections of the service to the directory: bound, kept, and left as soon as they disappoint."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.problems import DnsFailure
from greatseal.host import Blocking
from greatseal_ipa.library import Down, Found, Library, Link, Outcome, Oversized, Query, Refused, Server, Terms, Unusable
from greatseal_ipa.outcomes import BUSY
from greatseal_ipa.servers import Servers

T = TypeVar("T")

RECYCLE_SECONDS = 600.0
"""A connection is not used for longer: what changed meanwhile about certificates or names is noticed."""
IDLE_SECONDS = 120.0
"""Servers and firewalls forget connections that say nothing."""
GONE = "the directory cannot be reached"


class _Kept(msgspec.Struct):
    link: Link
    made_at: float
    used_at: float


class Pool:
    """Questions to whichever server answers. ``bind`` says who the service is, and is called in a thread."""

    def __init__(
        self, library: Library, servers: Servers, terms: Terms, *, bind: Callable[[Link], Outcome], blocking: Blocking, size: int
    ) -> None:
        self.servers = servers
        self._library = library
        self._terms = terms
        self._bind = bind
        self._blocking = blocking
        self._size = size
        self._idle: dict[Server, list[_Kept]] = {}
        self._lock = threading.Lock()
        self.questions = 0
        """Round trips so far: binds and searches, a page of a search each."""

    async def search(self, query: Query) -> Found:
        """Ask. Raises DirectoryUnavailable, and Oversized where the answer would be far too long."""
        return await self._run("ldap", self._anywhere, lambda server: self._with_kept(server, lambda link: self._search(link, query)))

    async def ask(self, then: Callable[[Link], T]) -> T:
        """Do several things on one connection of the service. Raises DirectoryUnavailable.

        They are done again, on another connection, where the first one breaks: so each must be one that may be done twice.
        """
        return await self._run("ldap", self._anywhere, lambda server: self._with_kept(server, lambda link: self._asked(link, then)))

    async def as_itself(self, then: Callable[[Link], Outcome]) -> Outcome:
        """Do something on a connection of the service. Raises DirectoryUnavailable."""

        def once(server: Server) -> Outcome:
            link = self._new(server)
            try:
                self.questions += 1
                return then(link)
            finally:
                link.close()

        return await self._run("ldap-bind", self._anywhere, once)

    async def as_user(self, dn: str, password: str, then: Callable[[Link, Outcome], T]) -> T:
        """:meth:`as_other`, by a password."""
        return await self.as_other(lambda link: link.bind(dn, password), then)

    async def as_other(self, bind: Callable[[Link], Outcome], then: Callable[[Link, Outcome], T]) -> T:
        """Bind on a connection of its own as somebody else, and do what follows with the outcome. Raises DirectoryUnavailable."""

        def bound(server: Server) -> T:
            link = self._library.open(server, self._terms)
            try:
                self.questions += 1
                outcome = bind(link)
                if outcome.code in BUSY:
                    raise Down(f"{server}: {outcome.message} ({outcome.code})")
                return then(link, outcome)
            finally:
                link.close()

        return await self._run("ldap-bind", self._anywhere, bound)

    async def look(self) -> None:
        """See whether servers that were down answer again: nobody who signs in waits for them meanwhile."""
        with suppress(DnsFailure):
            await self.servers.find()
        for server in self.servers.down():
            await self._blocking.run("ldap-look", self._probe, server)

    async def probe(self, server: Server, query: Query) -> Found:
        """Ask one server on a new connection, whatever is thought of it. Raises Down, Refused and Unusable."""

        def ask() -> Found:
            link = self._new(server)
            try:
                return self._search(link, query)
            finally:
                link.close()

        return await self._blocking.run("ldap-look", ask)

    def close(self) -> None:
        """Let the kept connections go."""
        with self._lock:
            kept = [one for links in self._idle.values() for one in links]
            self._idle.clear()
        for one in kept:
            one.link.close()

    async def _run(self, pool: str, anywhere: Callable[[Callable[[Server], T]], T], ask: Callable[[Server], T]) -> T:
        try:
            await self.servers.find()
        except DnsFailure as problem:
            raise DirectoryUnavailable(GONE, cause=problem.detail) from None
        return await self._blocking.run(pool, anywhere, ask)

    def _anywhere(self, ask: Callable[[Server], T]) -> T:
        """The answer of the first server that has one. Who waited in the queue while a server went down does not try it again."""
        reason = ""
        for server in self.servers.usable():
            try:
                answer = ask(server)
            except Down as error:
                self.servers.failed(server, error)
            except Oversized:
                raise
            except (Refused, Unusable) as error:
                reason = str(error)
            else:
                self.servers.answered(server)
                return answer
        raise DirectoryUnavailable(GONE, cause=reason or self.servers.why())

    def _with_kept(self, server: Server, ask: Callable[[Link], T]) -> T:
        kept = self._take(server)
        if kept is not None:
            try:
                answer = ask(kept.link)
            except Down as error:
                self._forget(server)
                if error.silent:
                    raise
                # The server was started again since, or let go of a connection that said nothing.
            else:
                self._keep(server, kept)
                return answer
        now = time.monotonic()
        kept = _Kept(self._new(server), now, now)
        answer = ask(kept.link)
        self._keep(server, kept)
        return answer

    def _asked(self, link: Link, then: Callable[[Link], T]) -> T:
        self.questions += 1
        return then(link)

    def _search(self, link: Link, query: Query) -> Found:
        self.questions += 1
        return link.search(query)

    def _new(self, server: Server) -> Link:
        link = self._library.open(server, self._terms)
        try:
            outcome = self._bind(link)
        except BaseException:
            link.close()
            raise
        if outcome.code in BUSY:
            link.close()
            raise Down(f"{server}: {outcome.message} ({outcome.code})")
        if not outcome.ok:
            link.close()
            raise Refused(outcome.code, f"{server} refuses the bind of this service: {outcome.message} ({outcome.code})")
        return link

    def _probe(self, server: Server) -> None:
        try:
            link = self._new(server)
        except Down as error:
            self.servers.failed(server, error)
        except Refused:
            self.servers.answered(server)
        else:
            now = time.monotonic()
            self._keep(server, _Kept(link, now, now))
            self.servers.answered(server)

    def _take(self, server: Server) -> _Kept | None:
        now = time.monotonic()
        old: list[_Kept] = []
        try:
            with self._lock:
                links = self._idle.get(server, [])
                while links:
                    kept = links.pop()
                    if now - kept.made_at < RECYCLE_SECONDS and now - kept.used_at < IDLE_SECONDS:
                        return kept
                    old.append(kept)
            return None
        finally:
            for one in old:
                one.link.close()

    def _keep(self, server: Server, kept: _Kept) -> None:
        kept.used_at = time.monotonic()
        with self._lock:
            links = self._idle.setdefault(server, [])
            if len(links) < self._size:
                links.append(kept)
                return
        kept.link.close()

    def _forget(self, server: Server) -> None:
        with self._lock:
            links = self._idle.pop(server, [])
        for one in links:
            one.link.close()
