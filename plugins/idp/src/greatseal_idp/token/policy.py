"""Who may get what, asked again at every step: the account's state and the grant checks."""

from collections.abc import Sequence
from functools import cached_property

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

    async def permitted(self, question: GrantQuestion) -> frozenset[str]:
        """The scopes that remain."""
        if question.phase != "client":
            await self._directories.account(question.subject, auth_time=question.auth_time)
        if question.target_service is not None and not any(check.decides_targets for check in self._checks):
            raise AccessDenied("no rule lets anybody act at another service")
        scopes = question.scopes
        for check in self._checks:
            if check.concerns(question):
                scopes &= await check.check(msgspec.structs.replace(question, scopes=scopes))
        if question.scopes and not scopes:
            raise AccessDenied("nothing of what was asked for may be granted")
        return scopes

    @cached_property
    def _checks(self) -> Sequence[GrantCheck]:
        return tuple(check for _, check in sorted(self._host.components(GrantCheck).items()))
