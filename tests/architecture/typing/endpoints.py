"""Login options of another plugin, and providers that a registry names.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from greatseal.api.directory import User
from greatseal.api.identity import LoginContext, LoginOption, LoginOptions, SessionView
from greatseal.api.services import DIRECTORIES
from greatseal.api.upstreams import NamedUpstream, SignOut, UpstreamSource
from greatseal.host import Host


class Saml(LoginOptions):
    """Providers of SAML as buttons; a user of type idp has to take one."""

    name = "saml"

    def __init__(self, host: Host, options: Sequence[LoginOption]) -> None:
        self.host = host
        self.configured = options

    async def options(self, context: LoginContext) -> Sequence[LoginOption]:
        return self.configured

    async def hint(self, username: str) -> str | None:
        user = await self.host.service(DIRECTORIES).user(username)
        return None if user is None else user.upstream


class Registry(UpstreamSource):
    """Providers of member states, and who has which number there."""

    name = "registry"

    def __init__(self, found: Sequence[NamedUpstream], people: Mapping[tuple[str, str], User]) -> None:
        self.found = found
        self.people = people

    def upstreams(self) -> Sequence[NamedUpstream]:
        return self.found

    async def person(self, upstream_id: str, value: str) -> User | None:
        return self.people.get((upstream_id, value))


class Cas(SignOut):
    """A server of another protocol, which has one place to sign out."""

    name = "cas"

    async def leads_to(self, session: SessionView, back: str | None) -> str | None:
        return None if session.upstream is None else f"https://cas.example/logout?{urlencode({'service': back or ''})}"
