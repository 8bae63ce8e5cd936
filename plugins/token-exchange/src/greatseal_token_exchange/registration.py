"""Which clients may be registered for an exchange."""

import msgspec

from greatseal.api.authorization import Extension
from greatseal.api.clients import InvalidClientMetadata, Registration
from greatseal_token_exchange.grant import GRANT_TYPE, UNPROVEN


class Exchangers(Extension[msgspec.Struct]):
    """An exchange is for services that an administrator knows, and that prove themselves."""

    name = "token-exchange"

    def check(self, registration: Registration) -> None:
        client = registration.client
        if GRANT_TYPE not in client.grant_types:
            return
        if registration.open or not client.is_administered:
            raise InvalidClientMetadata("grant_types: only an administrator registers a client for token exchange (RFC 7591 s3.2.2)")
        if client.token_endpoint_auth_method == UNPROVEN:
            raise InvalidClientMetadata("grant_types: token exchange needs a client that proves itself (RFC 8693 s5)")
