"""Login options of another plugin.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Sequence

from greatseal.api.identity import LoginContext, LoginOption, LoginOptions
from greatseal.api.services import DIRECTORIES
from greatseal.host import Host


class Upstreams(LoginOptions):
    """Configured providers as buttons; a user of type idp has to take one."""

    name = "federation"

    def __init__(self, host: Host, options: Sequence[LoginOption]) -> None:
        self.host = host
        self.configured = options

    async def options(self, context: LoginContext) -> Sequence[LoginOption]:
        return self.configured

    async def hint(self, username: str) -> str | None:
        user = await self.host.service(DIRECTORIES).user(username)
        return None if user is None else user.upstream
