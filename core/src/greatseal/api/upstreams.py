"""Other providers: those that a directory names (FreeIPA's ipaIdP), and where sessions that came of one are ended too."""

from abc import abstractmethod
from collections.abc import Sequence

import msgspec

from greatseal.api.components import Component
from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.identity import SessionView

__all__ = ["NamedUpstream", "SignOut", "UpstreamSource"]


class NamedUpstream(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as its source names it. With an ``issuer`` its metadata says where its endpoints are; without one, they stand here.

    ``subject_claim`` is the claim of the provider by which the source knows its people: its value is compared to the letter.
    """

    id: str
    display_name: str
    client_id: str
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    subject_claim: str = "sub"
    client_secret: Secret | None = None
    default_acr: str | None = None
    default_amr: tuple[str, ...] = ()
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    userinfo_endpoint: str | None = None


class UpstreamSource(Component):
    """Names providers and the people who sign in there. The plugin federation leads people to them; ``name`` is shown as their source."""

    @abstractmethod
    def upstreams(self) -> Sequence[NamedUpstream]:
        """Those that were there when the source was read last; from memory. The same objects as long as they are the same providers."""

    @abstractmethod
    async def person(self, upstream_id: str, value: str) -> User | None:
        """The one person who signs in at that provider with this value of its ``subject_claim``; None for nobody, and for two.

        Raises DirectoryUnavailable.
        """


class SignOut(Component):
    """Where a browser goes to end a session elsewhere too, after it has ended here (OpenID Connect RP-Initiated Logout s2)."""

    @abstractmethod
    async def leads_to(self, session: SessionView, back: str | None) -> str | None:
        """The URL, None for a session that was begun nowhere else. Asked for the session that has just ended.

        ``back`` is where the browser wants to go at last, a URL that was checked; None for nowhere. What it raises is logged, and the
        person is signed out here alone.
        """
