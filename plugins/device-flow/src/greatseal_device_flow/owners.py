"""Which node keeps the request of a user code: the one that made it (``Route.owner``)."""

from greatseal.api.http import Call, Owner, Parameters
from greatseal.api.problems import Problem
from greatseal.host import Host
from greatseal_device_flow import user_codes
from greatseal_device_flow.api import Decided
from greatseal_device_flow.endpoint import PAGE


def owner_of_user_code(host: Host) -> Owner:
    """By the code in the query, the form or the JSON of a call."""

    async def owner(call: Call) -> str | None:
        try:
            code = user_codes.read(await _sent(call))
        except Problem:  # for the handler of whoever was asked
            return None
        return None if code is None else host.handles.owner_of_key(code)

    return owner


async def _sent(call: Call) -> str:
    if not call.has_body:
        return call.query.get("user_code", "")
    if call.route.path == PAGE:
        return Parameters.parse(await call.raw()).get("user_code", "")
    return (await call.body(Decided)).user_code
