"""Which node keeps what a request is about: the code, token or waiting request that it holds names it (``Route.owner``).

Nobody is authenticated yet, and nothing is refused here: what cannot be read is for the handler of whoever was asked.
"""

from collections.abc import Mapping
from typing import Any

from greatseal.api.http import Call, Owner
from greatseal.api.problems import Problem
from greatseal.api.tokens import Grant
from greatseal.host import Host
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.pages.forms import media_type


def owner_of_handle(host: Host, *handles: tuple[str, str], prefix: str = "") -> Owner:
    """The node that made the handle; each is a parameter and a kind, and the first that is there counts. ``prefix`` may stand before it."""

    async def owner(call: Call) -> str | None:
        return _owner(host, await _sent(call), handles, prefix)

    return owner


def owner_of_grant(host: Host) -> Owner:
    """For the token endpoint: the grant says where its handle stands (:attr:`greatseal.api.tokens.Grant.handle`), or what it uses up."""

    async def owner(call: Call) -> str | None:
        sent = await _sent(call)
        grant = host.components(Grant).get(_text(sent, "grant_type"))
        if grant is None:
            return None
        if grant.handle is not None:
            return _owner(host, sent, (grant.handle,))
        key = grant.outside_key(sent)
        return None if key is None else host.handles.owner_of_key(key)

    return owner


def _owner(host: Host, sent: Mapping[str, Any], handles: tuple[tuple[str, str], ...], prefix: str = "") -> str | None:
    for parameter, kind in handles:
        if handle := _text(sent, parameter):
            return host.handles.node_of(handle.removeprefix(prefix), kind)
    return None


async def _sent(call: Call) -> Mapping[str, Any]:
    """The parameters of the body, without one those of the query."""
    try:
        if not call.has_body:
            return call.query
        return await call.body(dict[str, Any]) if media_type(call) == "application/json" else await read_form(call)
    except Problem:
        return {}


def _text(sent: Mapping[str, Any], name: str) -> str:
    try:
        value = sent.get(name)
    except Problem:  # it is there twice
        return ""
    return value if isinstance(value, str) else ""
