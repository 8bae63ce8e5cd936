"""What an exchange asks for: the parameters of RFC 8693 s2.1, read before any token is looked at."""

from typing import Literal

import msgspec

from greatseal.api.clients import Client
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest
from greatseal.api.tokens import InvalidScope, InvalidTarget

TYPE = "urn:ietf:params:oauth:token-type:"
ACCESS_TOKEN, ID_TOKEN, JWT = f"{TYPE}access_token", f"{TYPE}id_token", f"{TYPE}jwt"
OFFERED = frozenset({ACCESS_TOKEN, ID_TOKEN, JWT})
LONGEST_PRINCIPAL = 256
NEVER = "offline_access"
"""An exchange gives no refresh token."""


class Presented(msgspec.Struct, frozen=True, kw_only=True):
    """A token with the type that the request says it is of. ``name`` is its parameter."""

    name: Literal["subject_token", "actor_token"]
    text: str
    type: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is whole. ``targets`` are the audiences of the new token, none for the issuer."""

    subject: Presented
    actor: Presented | None
    requested: str
    targets: tuple[str, ...]
    target_service: str | None


def read(form: Parameters, client: Client, issuer: str) -> Order:
    """The request. Raises BadRequest and InvalidTarget for what may not be asked."""
    subject = _presented(form, "subject_token")
    if subject is None:
        raise BadRequest("subject_token and subject_token_type are required (RFC 8693 s2.1)")
    requested = form.get("requested_token_type", ACCESS_TOKEN)
    if requested not in OFFERED:
        raise BadRequest("requested_token_type: expected access_token, id_token or jwt (RFC 8693 s3)")
    if requested == JWT and client.more.get("access_token_format") == "opaque":
        raise BadRequest("requested_token_type: the client is registered for access tokens that are no JWT (RFC 8693 s2.1)")
    service = form.get("target_service")
    if service is not None and not ("/" in service and service.isprintable() and len(service) <= LONGEST_PRINCIPAL):
        raise BadRequest(f"target_service: expected the principal of a service, with a / and at most {LONGEST_PRINCIPAL} characters")
    return Order(
        subject=subject,
        actor=_presented(form, "actor_token"),
        requested=requested,
        targets=_targets(form, client, issuer, requested),
        target_service=service,
    )


def scopes_of(form: Parameters, held: frozenset[str], client: Client) -> tuple[str, ...]:
    """The scopes of the new token: what is asked for, of those that the subject token holds and the client is registered with.

    Raises InvalidScope for one that the client may never have, and when nothing of what was asked is left.
    """
    may = [scope for scope in client.scopes if scope in held and scope != NEVER]
    asked = form.get("scope")
    if asked is None:
        return tuple(may)
    names = dict.fromkeys(asked.split(" "))
    if not names.keys() <= set(client.scopes):
        raise InvalidScope("scope: one of them is not registered for this client (RFC 6749 s3.3)")
    left = tuple(name for name in names if name in may)
    if not left:
        raise InvalidScope("scope: the subject token holds none of them (RFC 6749 s3.3)")
    return left


def _presented(form: Parameters, name: Literal["subject_token", "actor_token"]) -> Presented | None:
    text, type = form.get(name), form.get(f"{name}_type")
    if text is None and type is None:
        return None
    if text is None or type is None:
        raise BadRequest(f"{name} and {name}_type go together (RFC 8693 s2.1)")
    if type not in OFFERED:
        raise BadRequest(f"{name}_type: expected access_token, id_token or jwt (RFC 8693 s3)")
    return Presented(name=name, text=text, type=type)


def _targets(form: Parameters, client: Client, issuer: str, requested: str) -> tuple[str, ...]:
    named = tuple(dict.fromkeys((*form.all("audience"), *form.all("resource"))))
    if named and requested == ID_TOKEN:
        raise InvalidTarget("audience and resource: an ID token is for the client that asks for it (OpenID Connect Core s2)")
    if not set(named) <= {issuer, *client.more.get("resources", ())}:
        raise InvalidTarget("audience or resource: one of them is not registered for this client (RFC 8693 s2.2.2)")
    return named
