"""Finds a trust chain (OpenID Federation 1.0 s10.1): from the subject up to an anchor, the shortest that is valid, within bounds."""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

from greatseal.api.moments import SECOND
from greatseal.api.problems import Outbound, Problem, Unavailable, Unreachable
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.keysets import VerificationKey
from greatseal.net import AddressPolicy, Fetched, NameResolver, fetch
from greatseal_openid_federation.chains import FEDERATION_ENTITY, Chain, validated
from greatseal_openid_federation.entities import configuration_url, fetch_url, host_of
from greatseal_openid_federation.policy import PolicyError
from greatseal_openid_federation.problems import InvalidMetadata, InvalidTrustAnchor, InvalidTrustChain
from greatseal_openid_federation.statements import MEDIA_TYPE, Statement, read, signed_by

FETCHES, BYTES, SECONDS = 32, 2 * 1024 * 1024, 10.0
"""Statements that are fetched for one subject, their bytes together, and the time for all of it."""
LARGEST, EACH = 256 * 1024, 4.0
"""Bytes and seconds of one."""
PER_HOST, WINDOW = 300, 60.0
"""Statements of one host in so many seconds, but for hosts of trust anchors."""
ENTITIES, PATHS, HINTS = 8, 64, 16
"""Entities of a chain, ways that are tried, and superiors of one entity that are asked besides trust anchors."""

Keys = Sequence[VerificationKey]
Get = Callable[[str], Awaitable[Fetched]]


class Broken(Exception):
    """A statement that is not good: ``words`` are for the client, ``entity`` for the log."""

    def __init__(self, words: str, entity: str) -> None:
        super().__init__(words)
        self.words = words
        self.entity = entity


class Gone(Broken):
    """There is none: a client error of HTTP."""


class Away(Broken):
    """It cannot be had now."""


class Federation:
    """The federations of the configured trust anchors."""

    def __init__(self, host: Host, resolver: NameResolver, anchors: Mapping[str, Keys], *, allow_private: bool) -> None:
        self._host = host
        self._resolver = resolver
        self._policy = AddressPolicy(allow_private=allow_private)
        self._tls: ssl.SSLContext | None = None
        self._ours = frozenset(map(host_of, anchors))
        self.anchors = anchors

    async def resolve(self, subject: str) -> Chain | None:
        """The chain of an entity, None where there is none of that name.

        Raises InvalidTrustChain, InvalidTrustAnchor, InvalidMetadata, and Unavailable when statements cannot be had now.
        """
        walk = Walk(self.get, self.anchors, self._host.clock.now() // SECOND)
        try:
            async with asyncio.timeout(SECONDS):
                chain = await walk.chain_of(subject)
        except TimeoutError:
            raise Unavailable("the trust chain of the client was not found in time", cause=f"{subject}: {walk.fetched} fetches") from None
        except Gone:
            return None
        for key in chain.used:
            if blocked := await self._host.blocked_keys.find(spki_sha256(key.key)):
                raise InvalidTrustChain("the key is blocked that made a signature of the trust chain", cause=blocked.reason)
        return chain

    async def get(self, url: str, media_type: str = MEDIA_TYPE) -> Fetched:
        """What is there, guarded. Raises Outbound.

        So many in a minute from one host: strangers say whom else to ask, and must not send us to somebody who has no part in it.
        """
        host = host_of(url)
        if host not in self._ours and self._host.limits.hit("federation-statements", host, PER_HOST, WINDOW) is not None:
            raise Unreachable(f"{host} is asked for too much at the moment")
        if self._tls is None:  # reading the machine's CAs takes 20 ms
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return await fetch(
            url,
            resolver=self._resolver,
            policy=self._policy,
            redirects=0,
            seconds=EACH,
            max_body=LARGEST,
            tls=self._tls,
            headers={"Accept": media_type},
        )


class Walk:
    """One search. Nothing is fetched twice."""

    def __init__(self, get: Get, anchors: Mapping[str, Keys], now: int) -> None:
        self._get = get
        self._anchors = anchors
        self._now = now
        self._known: dict[tuple[str, str], Statement | Broken] = {}
        self.fetched = 0
        self._bytes = 0
        self._reasons: list[Problem] = []

    async def chain_of(self, subject: str) -> Chain:
        """The shortest valid chain. Raises Gone, and problems as :meth:`Federation.resolve`."""
        try:
            first = await self.configuration(subject)
        except Gone:
            raise
        except Broken as broken:
            raise _told(broken, "the entity configuration of the client") from None
        paths, tried = deque([[first]]), 0
        while paths and tried < PATHS:
            path = paths.popleft()
            for superior in self._superiors(path):
                tried += 1
                longer = await self._longer(path, superior)
                if isinstance(longer, Chain):
                    return longer
                if longer is not None and len(longer) < ENTITIES:
                    paths.append(longer)
        raise self._refusal()

    def _superiors(self, path: Sequence[Statement]) -> list[str]:
        """Those that may come next, trust anchors first; none twice in one chain."""
        there = {one.claims.sub for one in path}
        hints = [one for one in dict.fromkeys(path[-1].claims.authority_hints) if one not in there]
        others = [one for one in hints if one not in self._anchors]
        return [one for one in hints if one in self._anchors] + others[:HINTS]

    async def _longer(self, path: list[Statement], superior: str) -> Chain | list[Statement] | None:
        """The chain that ends there, or a path that goes on; None for neither."""
        try:
            longer = [*path, await self.configuration(superior)]
        except Broken as broken:
            self._reasons.append(_told(broken, "a superior of the client"))
            return None
        try:
            return await self._ended(longer, self._anchors[superior]) if superior in self._anchors else longer
        except PolicyError as error:
            self._reasons.append(InvalidMetadata(f"the policy of the federation: {error} (OpenID Federation s6.1)", cause=superior))
        except Broken as broken:
            self._reasons.append(_told(broken, "a superior of the client"))
        return longer  # the anchor may have superiors of its own

    async def _ended(self, path: list[Statement], anchor: Keys) -> Chain:
        """The whole chain, from the anchor down: so nobody is asked for whom nobody vouches."""
        subordinates: list[Statement] = []
        for issuer, subject in zip(reversed(path[1:]), reversed(path[:-1]), strict=True):
            subordinates.insert(0, await self.subordinate(issuer, subject.claims.sub))
        try:
            return validated(path, subordinates, anchor)
        except PolicyError:
            raise
        except ValueError as error:
            raise Broken(str(error), path[-1].claims.sub) from None

    async def configuration(self, entity: str) -> Statement:
        """What an entity says of itself. Raises Broken."""
        return await self._statement(entity, entity, configuration_url(entity))

    async def subordinate(self, issuer: Statement, subject: str) -> Statement:
        """What an entity says of one below. Raises Broken."""
        name = issuer.claims.sub
        endpoint = issuer.claims.metadata.get(FEDERATION_ENTITY, {}).get("federation_fetch_endpoint")
        if not isinstance(endpoint, str) or not endpoint.startswith("https://") or "#" in endpoint:
            raise Broken("federation_fetch_endpoint is missing, or no https URL without fragment", name)
        return await self._statement(name, subject, fetch_url(endpoint, subject))

    async def _statement(self, issuer: str, subject: str, url: str) -> Statement:
        known = self._known.get((issuer, subject))
        if known is None:
            try:
                known = self._read(await self._fetched(url, issuer), issuer, subject)
            except Broken as broken:
                known = broken
            self._known[issuer, subject] = known
        if isinstance(known, Broken):
            raise known
        return known

    def _read(self, body: bytes, issuer: str, subject: str) -> Statement:
        if issuer == subject:
            return _configuration(body, subject, self._now)
        try:
            return read(body, issuer=issuer, subject=subject, now=self._now)
        except ValueError as error:
            raise Broken(str(error), issuer) from None

    async def _fetched(self, url: str, entity: str) -> bytes:
        self.fetched += 1
        if self.fetched > FETCHES or self._bytes > BYTES:
            raise Broken("too many statements are needed for it", entity)
        try:
            answer = await self._get(url)
        except Outbound as error:
            raise Away("a statement cannot be fetched now", f"{entity}: {error}") from None
        self._bytes += len(answer.body)
        if answer.status != 200:
            kind = Gone if 400 <= answer.status < 500 else Away
            raise kind(f"a statement is not there: status {answer.status}", entity)
        if answer.headers.get("Content-Type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
            raise Broken(f"Content-Type is not {MEDIA_TYPE} (s9.2, s8.1.2)", entity)
        return answer.body

    def _refusal(self) -> Problem:
        """Why there is no chain: an outage may be over soon, so it counts first; then what was wrong with the first way."""
        for problem in self._reasons:
            if isinstance(problem, Unavailable):
                return problem
        if self._reasons:
            return self._reasons[0]
        return InvalidTrustAnchor("the authority_hints of the client lead to no trust anchor of this service (OpenID Federation s10.1)")


def _configuration(body: bytes, entity: str, now: int) -> Statement:
    """An entity configuration, which its own key signed. Raises Broken."""
    try:
        statement = read(body, issuer=entity, subject=entity, now=now)
        signed_by(statement, statement.keys)
    except ValueError as error:
        raise Broken(str(error), entity) from None
    return statement


def _told(broken: Broken, whose: str) -> Problem:
    """The refusal that the client sees."""
    if isinstance(broken, Away):
        return Unavailable("the trust chain of the client cannot be had now", cause=f"{broken.entity}: {broken.words}")
    return InvalidTrustChain(f"{whose}: {broken.words} (OpenID Federation s3.2, s10)", cause=broken.entity)
