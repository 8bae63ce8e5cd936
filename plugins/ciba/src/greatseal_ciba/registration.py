"""What a client registers for CIBA (CIBA Core s4), checked when it is stored."""

from urllib.parse import urlsplit

import msgspec

from greatseal.api.authorization import Extension
from greatseal.api.clients import Client, InvalidClientMetadata, Registration

GRANT_TYPE = "urn:openid:params:grant-type:ciba"
MODES = ("poll", "ping")
MODE, ENDPOINT = "backchannel_token_delivery_mode", "backchannel_client_notification_endpoint"
LONGEST = 2000
"""Characters of a URL."""


class CibaFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a client."""

    backchannel_token_delivery_mode: str | None = None
    backchannel_client_notification_endpoint: str | None = None
    backchannel_user_code_parameter: bool = False


class CibaRegistration(Extension[msgspec.Struct]):
    """The members, and what a client with the grant must have."""

    name = "ciba"
    fields = CibaFields

    def check(self, registration: Registration) -> None:
        client = registration.client
        mode, endpoint = client.more.get(MODE), client.more.get(ENDPOINT)
        if mode not in {None, *MODES}:
            raise InvalidClientMetadata(f"{MODE}: expected one of {', '.join(MODES)} (CIBA Core s4)")
        if endpoint is not None and not is_endpoint(endpoint):
            raise InvalidClientMetadata(f"{ENDPOINT}: expected an https URL without a fragment (CIBA Core s4)")
        if client.more.get("backchannel_user_code_parameter"):
            raise InvalidClientMetadata("backchannel_user_code_parameter: user codes are not offered here (CIBA Core s4)")
        if GRANT_TYPE in client.grant_types:
            if registration.open or not client.is_administered:
                # Who may ask by name learns who is there, and can ask everybody until somebody gives in.
                raise InvalidClientMetadata(
                    "grant_types: only an administrator registers a client that asks people by CIBA (RFC 7591 s3.2.2)"
                )
            _check_grant(client, mode, endpoint)


def _check_grant(client: Client, mode: str | None, endpoint: str | None) -> None:
    if client.token_endpoint_auth_method == "none":  # noqa: S105  # the name of a method
        raise InvalidClientMetadata("token_endpoint_auth_method: a client with this grant proves itself (CIBA Core s7.1)")
    if mode is None:
        raise InvalidClientMetadata(f"{MODE}: a client with this grant names one of {', '.join(MODES)} (CIBA Core s4)")
    if mode == "ping" and endpoint is None:
        raise InvalidClientMetadata(f"{ENDPOINT}: must be given for the mode ping (CIBA Core s4)")


def is_endpoint(uri: str) -> bool:
    """Whether pings may be sent there: https, or http on this machine; who resolves it decides which addresses are right."""
    if len(uri) > LONGEST or not uri.isascii() or not uri.isprintable() or " " in uri or "#" in uri:
        return False
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in {"localhost", "127.0.0.1", "::1"}))
