"""The parameters of a request that are CIBA's own (CIBA Core s7.1), and its refusals (s13)."""

import re

import msgspec

from greatseal.api.clients import Client
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest
from greatseal_ciba.registration import MODE

HINTS = ("login_hint", "login_hint_token", "id_token_hint")
LONGEST_MESSAGE = 100
LONGEST_TOKEN = 1024
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 s2.1
_POSITIVE = re.compile(r"0{0,9}[1-9][0-9]{0,8}", re.ASCII)


class InvalidBindingMessage(BadRequest):
    """The message cannot be shown."""

    error = "invalid_binding_message"


class UnknownUserId(BadRequest):
    """Nobody here is meant by the hint, or nobody who may sign in."""

    error = "unknown_user_id"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Beside what is asked for. ``expiry`` is seconds; ``notification_token`` is set in the mode ping alone."""

    hint: tuple[str, str]
    binding_message: str | None
    expiry: int | None
    notification_token: str | None


def read(given: Parameters, client: Client) -> Wanted:
    """Raises BadRequest and its neighbours, none of which repeats what was sent."""
    return Wanted(
        hint=_hint(given),
        binding_message=_message(given.get("binding_message")),
        expiry=_expiry(given.get("requested_expiry")),
        notification_token=_token(given.get("client_notification_token")) if client.more.get(MODE) == "ping" else None,
    )


def _hint(given: Parameters) -> tuple[str, str]:
    named = [name for name in HINTS if name in given]
    if len(named) != 1:
        raise BadRequest(f"expected exactly one of {', '.join(HINTS)} (CIBA Core s7.1)")
    if named == ["login_hint_token"]:
        raise BadRequest("login_hint_token: no form of it is taken here; send login_hint or id_token_hint (CIBA Core s7.1)")
    return named[0], given[named[0]]


def _message(message: str | None) -> str | None:
    if message is not None and (len(message) > LONGEST_MESSAGE or not message.isprintable()):
        raise InvalidBindingMessage(f"binding_message: at most {LONGEST_MESSAGE} characters, and none that cannot be seen (CIBA Core s7.1)")
    return message


def _expiry(expiry: str | None) -> int | None:
    if expiry is not None and _POSITIVE.fullmatch(expiry) is None:
        raise BadRequest("requested_expiry: expected a positive number of seconds (CIBA Core s7.1)")
    return None if expiry is None else int(expiry)


def _token(token: str | None) -> str:
    if token is None:
        raise BadRequest("client_notification_token is required in the mode ping (CIBA Core s7.1)")
    if len(token) > LONGEST_TOKEN or _BEARER.fullmatch(token) is None:
        raise BadRequest(f"client_notification_token: expected at most {LONGEST_TOKEN} characters of a bearer token (RFC 6750 s2.1)")
    return token
