"""Who may get what, asked again at every step: the account's state and the grant checks."""

import msgspec

from greatseal.api.identity import AccessDenied
from greatseal.api.tokens import GrantCheck, GrantQuestion
from greatseal.host import Host
from greatseal_idp.directories import DirectoriesImpl


class Policy:
    """Answers :meth:`greatseal.api.tokens.Tokens.permitted`."""

    def __init__(self, host: Host, directories: DirectoriesImpl) -> None:
        self._host = host
        self._directories = directories
        self._checks: tuple[GrantCheck, ...] | None = None

    async def permitted(self, question: GrantQuestion) -> frozenset[str]:
        """The scopes that remain."""
        if question.phase != "client":
            await self._directories.account(question.subject, auth_time=question.auth_time)
        scopes = question.scopes
        for check in self._ordered():
            scopes &= await check.check(msgspec.structs.replace(question, scopes=scopes))
        if question.scopes and not scopes:
            raise AccessDenied("nothing of what was asked for may be granted")
        return scopes

    def _ordered(self) -> tuple[GrantCheck, ...]:
        if self._checks is None:
            components = self._host.components(GrantCheck)
            self._checks = tuple(components[name] for name in sorted(components))
        return self._checks
