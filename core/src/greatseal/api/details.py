"""Types of authorization details (RFC 9396): what may stand in an object of each, how a person is told of it, and what narrows it.

The plugin rar reads them: it parses the parameter ``authorization_details``, refuses what no type checks, asks the person, and puts what
was allowed into tokens. Types come from its configuration, and from plugins by the hook ``components``.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from greatseal.api.authorization import Shown
from greatseal.api.clients import Client
from greatseal.api.components import Component
from greatseal.api.problems import BadRequest

__all__ = ["DetailType", "InvalidAuthorizationDetails", "is_less"]


class InvalidAuthorizationDetails(BadRequest):
    """Details that are unknown, malformed, or more than was authorized (RFC 9396 s5, s6)."""

    error = "invalid_authorization_details"


class DetailType(Component):
    """One type of authorization details; ``name`` is the value of their member ``type``.

    A detail is JSON as it was decoded: at most eight levels deep, no member twice, no number beyond a double or 64 bits. It rests with the
    request, the code and the refresh family, unsealed, so a type asks for no secrets.
    """

    @abstractmethod
    def check(self, detail: Mapping[str, Any], client: Client) -> None:
        """Whether it is a detail of this type that the client may have: every member known, each of its type and within its bounds.

        Raises :class:`InvalidAuthorizationDetails`, whose text names the rule and repeats nothing of the detail (RFC 9396 s5). Asked when
        a request comes and again when tokens are made of it, in a transaction: no I/O.
        """

    @abstractmethod
    async def shown(self, detail: Mapping[str, Any], subject: str) -> Shown:
        """What the person reads: all that it allows, in words. Plain text; it is asked about every time, ``remember`` is not looked at."""

    def narrows(self, asked: Mapping[str, Any], granted: Mapping[str, Any]) -> bool:
        """Whether ``asked`` is ``granted`` or less (RFC 9396 s6.1). Both passed :meth:`check`. No I/O."""
        return is_less(asked, granted)

    def for_itself(self, client: Client) -> bool:
        """Whether the client may have it without a person (grant client_credentials)."""
        return False


def is_less(asked: Mapping[str, Any], granted: Mapping[str, Any]) -> bool:
    """Whether both are equal, but for members that are lists, of which some may be left out.

    A list that becomes empty is none: to many APIs it means everything. ``true`` is not 1, and 1 is not 1.0.
    """
    return asked.keys() == granted.keys() and all(_is_part(asked[name], whole) for name, whole in granted.items())


def _is_part(asked: Any, whole: Any) -> bool:
    if isinstance(asked, list) and isinstance(whole, list) and asked and len(asked) <= len(whole):
        return all(any(_is_same(one, other) for other in whole) for one in asked)
    return _is_same(asked, whole)


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)
