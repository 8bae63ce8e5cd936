"""Access rules that are kept elsewhere: in a directory, in a file, at a policy server. The plugin hbac reads them beside its own.

They say what FreeIPA's HBAC rules say: who may use which service on which machine. A server that decides itself, question by question, is
no source of rules but a :class:`greatseal.api.tokens.GrantCheck`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from greatseal.api.components import Component

__all__ = ["LONGEST_ID", "MOST_RULES", "AccessRule", "RuleBook", "RuleSource"]

MOST_RULES = 10_000
"""Rules of one source. A book with more is refused as a whole: one that was cut might lack what an administrator counts on."""

LONGEST_ID = 200
"""Characters of the id of a rule."""


class AccessRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule allows what fits all of its three axes: the user, the machine that is used, and the service there.

    An axis fits by a name, by a group, or for everybody (``any_``); one with none of these fits nobody. Names are compared without case.
    Users are short names of the service's own realm, ``name@REALM``, or principals.
    """

    id: str
    """Stable, and unique in its source."""
    name: str
    description: str = ""
    enabled: bool = True
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    any_user: bool = False
    hosts: tuple[str, ...] = ()
    hostgroups: tuple[str, ...] = ()
    any_host: bool = False
    services: tuple[str, ...] = ()
    servicegroups: tuple[str, ...] = ()
    any_service: bool = False
    wrong: str = ""
    """Why the source cannot say what the rule means, such as one that forbids. While such a rule is enabled, its source allows nothing."""


class RuleBook(msgspec.Struct, frozen=True, kw_only=True):
    """All rules of a source at one moment, and the groups of each service that is in some, nested ones too."""

    rules: tuple[AccessRule, ...] = ()
    servicegroups: Mapping[str, frozenset[str]] = {}


class RuleSource(Component):
    """Whoever keeps rules.

    Reading is all that a source does. The plugin hbac asks again and again, keeps the last good book for a stated time, and allows nothing
    by a source whose book is older.
    """

    deadline: ClassVar[float] = 10.0

    @abstractmethod
    async def read(self) -> RuleBook:
        """Every rule, now. Raises Unavailable when not all of them can be read: a part is never an answer."""
