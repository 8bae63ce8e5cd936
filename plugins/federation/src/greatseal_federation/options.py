"""The buttons of the sign-in page, and the provider that somebody has to take."""

from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

from greatseal.api.directory import Directories
from greatseal.api.identity import LoginContext, LoginOption, LoginOptions
from greatseal.host import Host
from greatseal_federation import accounts
from greatseal_federation.upstreams import Upstreams

NOBODY = "nobody"
"""Whose accounts are looked for when nobody has the name: the time must not tell."""


class FederationLogin(LoginOptions):
    """One for each provider."""

    name = "federation"

    def __init__(self, host: Host, upstreams: Upstreams, directories: Directories) -> None:
        self._host = host
        self._upstreams = upstreams
        self._directories = directories
        self._prefix = urlsplit(host.issuer).path

    async def options(self, context: LoginContext) -> Sequence[LoginOption]:
        query = "" if context.return_to is None else f"?{urlencode({'return_to': context.return_to})}"
        return [
            LoginOption(
                id=one.id,
                display_name=one.display_name,
                url=f"{self._prefix}/auth/external/{one.id}{query}",
                source=one.source,
            )
            for one in self._upstreams.all()
        ]

    async def hint(self, username: str) -> str | None:
        """The provider of the linked account that the person used last, else the one that their directory names."""
        user = await self._directories.user(username)
        found = await self._host.db.read(accounts.of_subject, NOBODY if user is None else user.subject)
        linked = [one for one in found if not one.disabled and self._upstreams.find(one.upstream_id) is not None]
        if linked:
            return max(linked, key=lambda one: one.last_login_at or 0).upstream_id
        named = None if user is None or user.upstream is None else self._upstreams.find(user.upstream)
        return None if named is None else named.id
