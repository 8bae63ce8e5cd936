"""The body of a registration: what a client left out is filled in, what a trusted party says of it counts more than its own word."""

from collections.abc import Mapping
from typing import Any

from greatseal.api.clients import InvalidClientMetadata
from greatseal.api.http import Call
from greatseal.api.problems import BadRequest
from greatseal_registration.settings import Registration

ASSIGNED = frozenset(
    {"client_id", "client_id_issued_at", "client_secret_expires_at", "registration_access_token", "registration_client_uri"}
)
"""Members that the server gives (RFC 7591 s3.2.1)."""


async def body_of(call: Call) -> dict[str, Any]:
    """The members of a registration request. Raises InvalidClientMetadata for what is no JSON object."""
    try:
        return await call.body(dict[str, Any])
    except BadRequest as problem:
        raise InvalidClientMetadata("the body is no JSON object (RFC 7591 s3.1)", cause=problem.detail) from None


def completed(body: Mapping[str, Any], settings: Registration) -> dict[str, Any]:
    """The body with scopes where it names none, and with the resources that it may name, which is all where it names none.

    Raises InvalidClientMetadata for a resource of nobody: which APIs there are is not for the client to say.
    """
    asked = {name: value for name, value in body.items() if name not in ASSIGNED and name != "software_statement"}
    if asked.get("scope") is None or asked["scope"] == "":
        asked["scope"] = " ".join(settings.scopes)
    named = asked.get("resources")
    if named is None:
        asked["resources"] = list(settings.resources) or None
    elif not isinstance(named, list) or not all(resource in settings.resources for resource in named):
        raise InvalidClientMetadata("resources: expected some of those in [registration] resources of the operator (RFC 8707 s2)")
    return asked
