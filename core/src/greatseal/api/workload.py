"""What is known about a workload, and the selectors that recognise it (SPIFFE)."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import ClassVar, Generic, TypeVar

import msgspec

from greatseal.api.components import Component

V = TypeVar("V", bound=Hashable)


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The process at the other end of the local socket. ``pidfd`` stays open while facts are collected, and proves that it still lives."""

    pid: int
    pidfd: int
    start_time: int


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A caller that wants an identity: a local process (``peer`` is set) or one that another machine describes.

    For a remote caller without ids ``uid`` and ``gid`` are None. ``exe_path`` and ``ima_hash`` are what a trusted proxy or the caller
    declared; of a local process they are found by their selectors. ``hostname`` is in lower case without final dot.
    """

    node_id: str
    hostname: str
    peer: Peer | None = None
    uid: int | None = None
    gid: int | None = None
    supplemental_gids: frozenset[int] = frozenset()
    exe_path: str | None = None
    ima_hash: tuple[str, str] | None = None


class Selector(ABC, Generic[V]):
    """One type of selector. An entry applies when each of its selectors' values is among the facts of the workload."""

    type: ClassVar[str]
    """The word in the registration entry, for example ``Hostgroup``."""
    remote: ClassVar[bool] = False
    """Whether it may match a caller that declares itself over the network; other selectors never do."""

    @abstractmethod
    def parse(self, value: object) -> V:
        """The value of a selector object, decoded from JSON, in canonical form. ValueError says what is wrong, for the 400.

        Called when an entry is written and when entries are loaded; must be fast and do no I/O.
        """

    @abstractmethod
    async def facts(self, workload: Workload, wanted: frozenset[V]) -> frozenset[V]:
        """What is true of the workload, of ``wanted``: the values that any live entry asks for. More than was asked does no harm.

        Called once for each attestation, only where an entry has this type. Nothing found is the empty set: fail closed. An exception is
        logged and counts as the empty set.
        """


class TrustBundle(Component):
    """The X.509 authorities of a trust domain; ``name`` is the domain.

    An SVID counts against the bundle of its own domain and no other, so whoever was shown one asks the bundle that the id names. The
    listener takes SVIDs whose authorities are among the roots of :class:`greatseal.api.http.ClientTrust`.
    """

    @abstractmethod
    async def vouches(self, certificate: bytes, spiffe_id: str) -> bool:
        """Whether the DER is an X.509-SVID of that id (its one URI), issued by an authority of this domain.

        The bytes are what a stranger sent. The caller looks at the times of the certificate itself and at blocked keys.
        """


def trust_domain_of(spiffe_id: str) -> str:
    """The trust domain of a valid SPIFFE ID."""
    return spiffe_id.removeprefix("spiffe://").partition("/")[0]
