"""One-time codes whose tokens rest in FreeIPA, and those of a RADIUS server that only says yes or no.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from collections.abc import Callable, Sequence
from typing import Any

from greatseal.api.declarations import Secret
from greatseal.api.otp import CodeStore, Holder, NewToken, Token, TokenKey
from greatseal.host import Host

Entry = dict[str, Any]
TAKEN = 16
"""noSuchAttribute: the watermark is not the one that was read."""


class IpaTokens(CodeStore):
    """Entries of class ipatokenTOTP. The watermark changes by compare-and-swap: the old value is deleted, the new one added at once."""

    name = "ipa"
    recovery = False

    def __init__(self, host: Host, search: Callable[[str], Sequence[Entry]], modify: Callable[[str, int | None, int], int]) -> None:
        self.host = host
        self.search = search
        self.modify = modify

    def keeps(self, holder: Holder) -> bool:
        return holder.user is not None and holder.user.source == "ipa"

    async def tokens(self, holder: Holder) -> Sequence[Token]:
        return [
            Token(
                token_id=one["id"],
                label=one.get("description", ""),
                type="totp",
                algorithm=one["algorithm"],
                digits=one["digits"],
                period=one["step"],
                confirmed=True,
                enabled=not one.get("disabled", False),
            )
            for one in await self.host.blocking.run("ldap", self.search, holder.subject)
        ]

    async def keys(self, holder: Holder) -> Sequence[TokenKey]:
        return [
            TokenKey(
                token_id=one["id"],
                type="totp",
                key=one["key"],
                algorithm=one["algorithm"],
                digits=one["digits"],
                period=one["step"],
                offset=one["offset"],
                used=one.get("watermark"),
            )
            for one in await self.host.blocking.run("ldap", self.search, holder.subject)
            if not one.get("disabled", False)
        ]

    async def advance(self, holder: Holder, key: TokenKey, to: int) -> bool:
        return await self.host.blocking.run("ldap", self.modify, key.token_id, key.used, to) != TAKEN

    async def add(self, holder: Holder, new: NewToken) -> Token:
        return Token(
            token_id="made by the server",
            label=new.label,
            type="totp",
            algorithm=new.algorithm,
            digits=new.digits,
            period=new.period,
            confirmed=True,
        )

    async def remove(self, holder: Holder, token_id: str, *, by: str | None = None) -> bool:
        return any(one.token_id == token_id for one in await self.tokens(holder))


class YesOrNo(CodeStore):
    """A RADIUS server, or a bind with the control 2.16.840.1.113730.3.8.10.7: asked with password and code, it keeps all to itself."""

    name = "radius"
    manages = False
    recovery = False

    def __init__(self, ask: Callable[[str, str], bool]) -> None:
        self.ask = ask

    def keeps(self, holder: Holder) -> bool:
        return holder.user is not None and "radius" in holder.user.authentication_types

    async def tokens(self, holder: Holder) -> Sequence[Token]:
        return ()

    async def check(self, holder: Holder, password: Secret, code: Secret) -> bool:
        return self.ask(holder.subject, password.value + code.value)
