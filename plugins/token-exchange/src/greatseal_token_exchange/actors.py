"""Who acts for whom: the claims ``act`` and ``may_act`` (RFC 8693 s4.1, s4.4)."""

from collections.abc import Mapping
from typing import Any

from greatseal.api.clients import Client
from greatseal.api.identity import AccessDenied
from greatseal.api.problems import BadRequest
from greatseal.api.tokens import SubjectToken

DEPTH = 5
"""How many actors a token names at most, the current one and those before it."""
CARRIED = ("act", "may_act", "family")
"""What a new token has of the subject token: by whom, and by whom alone, it is used, and the family with which it ends."""


def check_permission(claims: Mapping[str, Any], client: Client, issuer: str) -> None:
    """Raise AccessDenied when the subject token says who may act for its subject and the client is somebody else."""
    if "may_act" not in claims:
        return
    named = claims["may_act"]
    if not isinstance(named, dict) or named.get("sub") != client.client_id or named.get("iss", issuer) != issuer:
        raise AccessDenied("may_act of the subject token does not name this client (RFC 8693 s4.4)")


def carried(subject: SubjectToken, client: Client) -> dict[str, Any]:
    """The claims that every exchange hands on, and ``via``: the clients from whose tokens the new one came, with each of which it ends."""
    claims = {name: subject.claims[name] for name in CARRIED if name in subject.claims}
    via = [one for one in (*subject.claims.get("via", ()), subject.client_id) if one not in {None, client.client_id}]
    return claims | ({"via": list(dict.fromkeys(via))} if via else {})


def acting(client: Client, prior: object) -> dict[str, Any]:
    """``act`` of a client that acts, with the actors before it. Raises BadRequest when they are too many.

    ``workload_type`` is that of the registration: what a token says of it was written by somebody else.
    """
    if depth(prior) >= DEPTH:
        raise BadRequest(f"the subject token went through {DEPTH} actors, and there may be no more (RFC 8693 s2.2.2)")
    act: dict[str, Any] = {"sub": client.client_id}
    if client.workload_type is not None:
        act["workload_type"] = client.workload_type
    if prior is not None:
        act["act"] = prior
    return act


def depth(act: object) -> int:
    """How many actors a claim names."""
    found = 0
    while isinstance(act, dict) and found <= DEPTH:
        found, act = found + 1, act.get("act")
    return found
