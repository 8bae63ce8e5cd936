"""Who must prove more than they did.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Sequence

from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.factors import Factor, FactorPolicy
from greatseal.api.http import Call
from greatseal.api.identity import Authenticated


class AdministratorsByTwo(FactorPolicy):
    """Members of a group prove themselves by two factors."""

    name = "administrators"

    def __init__(self, group: str) -> None:
        self.group = group

    async def missing(self, authenticated: Authenticated, user: User | None, call: Call) -> Sequence[str]:
        return ("PasswordAndCode",) if user is not None and self.group in user.groups and "mfa" not in authenticated.amr else ()


class PaperList(Factor):
    """Numbers on paper that a person was given, each good once: one by one, from the top."""

    name = "paper"
    amr = ("otp", "mfa")
    page = "/account/paper"
    words = "Order a new list"

    def __init__(self, lists: dict[str, list[str]]) -> None:
        self.lists = lists

    async def held(self, subject: str, user: User | None) -> bool:
        return bool(self.lists.get(subject))

    async def prove(self, subject: str, user: User | None, code: Secret) -> bool:
        left = self.lists.get(subject, [])
        return left[:1] == [code.value] and bool(left.pop(0))
