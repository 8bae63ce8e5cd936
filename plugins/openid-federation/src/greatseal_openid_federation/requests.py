"""Requests of clients that nobody registered: each proves by a key of the client that it sent it (OpenID Federation 1.0 s12.1.1)."""

from functools import cached_property

import msgspec

from greatseal.api.authorization import Ask, Extension, Wish
from greatseal.api.clients import Client
from greatseal.api.problems import BadRequest
from greatseal.host import Host
from greatseal_openid_federation.clients import SOURCE


class FederationFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client."""

    issuer_assertion_audience: bool = False
    """Whether its assertions name the issuer as their only audience (OpenID Federation s12.1.1.2)."""


class AutomaticRegistration(Extension[msgspec.Struct]):
    """At /authorize with a signed request object, elsewhere by client authentication."""

    name = "openid-federation"
    fields = FederationFields

    def __init__(self, host: Host) -> None:
        self._host = host

    def complete(self, client: Client) -> Client:
        """What such a client is, whatever its metadata say: client-auth-jwt and jar read it."""
        if client.source != SOURCE:
            return client
        switches = {"issuer_assertion_audience": True, **({"single_use_request_object": True} if self._opens else {})}
        return msgspec.structs.replace(client, more={**client.more, **switches})

    def concerns(self, ask: Ask) -> bool:
        return ask.client.source == SOURCE and ask.at == "authorize" and "request" not in ask.sent

    async def ask(self, ask: Ask) -> Wish[msgspec.Struct] | None:  # noqa: ARG002  # an extension's parameter
        raise BadRequest(
            "a client of a federation signs its request (request), or pushes it to /par and proves itself there (OpenID Federation s12.1.1)"
        )

    @cached_property
    def _opens(self) -> bool:
        """Whether request objects are read here: complete from the lifespans on."""
        return opens_requests(self._host)


def opens_requests(host: Host) -> bool:
    """Whether some extension opens request objects."""
    return any(one.opens == "request" for one in host.components(Extension).values())
