"""Token exchange (RFC 8693)."""

from collections.abc import Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.declarations import EventType
from greatseal.api.services import TOKENS
from greatseal.api.tokens import Grant
from greatseal.api.trust import TrustedIssuer
from greatseal.host import Host
from greatseal_token_exchange.grant import TokenExchange
from greatseal_token_exchange.registration import Exchangers


class Plugin:
    """Gives a service a token of the person for whom it was called."""

    requires = (TOKENS,)

    @hookimpl
    def grants(self, host: Host) -> Sequence[Grant[Any]]:
        return [TokenExchange(host.service(TOKENS), host.issuer, lambda: host.components(TrustedIssuer))]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [EventType("token_exchange", "idp", "A client exchanged the token of a person; detail tells whether as a named actor.")]

    @hookimpl
    def extensions(self) -> Sequence[Extension[Any]]:
        return [Exchangers()]
