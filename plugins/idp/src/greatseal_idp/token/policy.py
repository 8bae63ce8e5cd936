"""Who may get what, asked again at every step: the account's state and the grant checks."""

from collections.abc import Sequence
from functools import cached_property

import msgspec

from greatseal.api.clients import Client
from greatseal.api.identity import AccessDenied
from greatseal.api.tokens import GrantCheck, GrantQuestion
from greatseal.host import Host
from greatseal_idp.clients.principals import KERBEROS
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
        if question.phase == "client" and _has_service(question.client) and not any(check.decides_programs for check in self._checks):
            raise AccessDenied(
                "no rule lets this client in", cause="it has a kerberos_hbac_service, and no enabled plugin has rules of access"
            )
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


def _has_service(client: Client | None) -> bool:
    return client is not None and client.kerberos_hbac_service is not None and client.token_endpoint_auth_method == KERBEROS
