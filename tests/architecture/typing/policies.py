"""Who must prove more than they did.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Sequence

from greatseal.api.directory import User
from greatseal.api.identity import Authenticated, FactorPolicy


class AdministratorsByTwo(FactorPolicy):
    """Members of a group prove themselves by two factors."""

    name = "administrators"

    def __init__(self, group: str) -> None:
        self.group = group

    async def missing(self, authenticated: Authenticated, user: User | None) -> Sequence[str]:
        return ("PasswordAndCode",) if user is not None and self.group in user.groups and "mfa" not in authenticated.amr else ()
