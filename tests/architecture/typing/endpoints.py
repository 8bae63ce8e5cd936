"""Endpoints of other plugins: a registration, login options, a lookup behind a token.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Sequence

from greatseal.api.http import Call, Reply
from greatseal.api.identity import LoginContext, LoginOption, LoginOptions
from greatseal.api.services import DIRECTORIES
from greatseal.api.tokens import BearerCaller
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


async def identity_groups(host: Host, call: Call) -> Reply:
    """GET /api/identity/users/{id}/groups behind Bearer("directory.read")."""
    caller = call.caller_as(BearerCaller)
    user = await host.service(DIRECTORIES).user(call.path["id"])
    host.log.info("lookup", client_id=caller.token.client_id)
    return Reply.json([] if user is None else [{"name": name} for name in user.groups])
