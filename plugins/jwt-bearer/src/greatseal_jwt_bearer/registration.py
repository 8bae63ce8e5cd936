"""Which clients may be registered for assertions."""

import msgspec

from greatseal.api.authorization import Extension
from greatseal.api.clients import InvalidClientMetadata, Registration
from greatseal_jwt_bearer.grant import GRANT_TYPE, UNPROVEN


class Bearers(Extension[msgspec.Struct]):
    """Assertions are brought by programs that an administrator knows, and that prove themselves."""

    name = "jwt-bearer"

    def check(self, registration: Registration) -> None:
        client = registration.client
        if GRANT_TYPE not in client.grant_types:
            return
        if registration.open or not client.is_administered:
            raise InvalidClientMetadata("grant_types: only an administrator registers a client for jwt-bearer (RFC 7591 s3.2.2)")
        if client.token_endpoint_auth_method == UNPROVEN:
            raise InvalidClientMetadata("grant_types: jwt-bearer needs a client that proves itself (RFC 7591 s3.2.2)")
