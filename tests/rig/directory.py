"""The parts of plugin ipa over a server of a test, without a service."""

from collections.abc import Callable
from typing import Any

import structlog
from rig.slapd import REALM, SERVICE, SERVICE_PASSWORD, SUFFIX

from greatseal.host import Blocking, Clock
from greatseal.kernel.blocking import BlockingPools
from greatseal.testing import FakeClock
from greatseal_ipa.freeipa import FreeIpa
from greatseal_ipa.ldap3_link import Ldap3
from greatseal_ipa.library import Library, Link, Outcome, Terms
from greatseal_ipa.pool import Pool
from greatseal_ipa.reader import Reader
from greatseal_ipa.schema import Schema
from greatseal_ipa.servers import Servers, server_of


def bind_as_service(link: Link) -> Outcome:
    return link.bind(SERVICE, SERVICE_PASSWORD)


class Parts:
    """A pool and a reader; ``close`` them. ``schema`` is one of plugin ipa, made for the directory of the rig."""

    def __init__(
        self,
        *uris: str,
        schema: type[Schema] = FreeIpa,
        library: Library | None = None,
        bind: Callable[[Link], Outcome] = bind_as_service,
        clock: Clock | None = None,
        cache: float = 0.0,
        **terms: Any,
    ) -> None:
        self.clock = clock or FakeClock()
        self.blocking = BlockingPools(threads=4)
        self.terms = Terms(**{"start_tls": False, **terms})
        log = structlog.get_logger()
        self.servers = Servers([server_of(uri) for uri in uris], REALM, None, log)
        blocking: Blocking = self.blocking
        self.pool = Pool(library or Ldap3(), self.servers, self.terms, bind=bind, blocking=blocking, size=4)
        self.reader = Reader(self.pool, schema(SUFFIX, REALM), self.clock, log, seconds=cache)

    def close(self) -> None:
        self.pool.close()
        self.blocking.close()
