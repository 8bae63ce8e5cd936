"""Who has a token must use it."""

from collections.abc import Sequence

from greatseal.api.directory import User
from greatseal.api.identity import Authenticated, FactorPolicy, PasswordAndCode
from greatseal.api.otp import Holder
from greatseal_otp.codes import Codes


class OwnToken(FactorPolicy):
    """Wants a code of whoever has a confirmed token, unless what was proven is as much."""

    name = "otp"

    def __init__(self, codes: Codes) -> None:
        self._codes = codes

    async def missing(self, authenticated: Authenticated, user: User | None) -> Sequence[str]:
        if is_enough(authenticated):
            return ()
        holder = Holder(subject=(user or authenticated).subject, user=user)
        has_one = any(token.confirmed and token.enabled for token in await self._codes.tokens(holder))
        return (PasswordAndCode.__name__,) if has_one else ()


def is_enough(authenticated: Authenticated) -> bool:
    """Two factors, a smart card, a key that verified its user; or another provider, whose business it is (RFC 8176)."""
    proven = set(authenticated.amr)
    return bool(proven & {"otp", "mfa", "sc"}) or {"hwk", "user"} <= proven or authenticated.upstream is not None
