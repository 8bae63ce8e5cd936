"""Who has a token must use it, and who is in some groups must have a second factor."""

from collections.abc import Sequence

from greatseal.api.directory import User
from greatseal.api.factors import Factor, FactorPolicy
from greatseal.api.http import Call
from greatseal.api.identity import Authenticated, PasswordAndCode, SessionView
from greatseal.api.otp import Holder
from greatseal.host import Host
from greatseal_otp.codes import Codes
from greatseal_otp.enough import is_enough
from greatseal_otp.enrol import PAGE
from greatseal_otp.factor import OwnCode
from greatseal_otp.settings import OtpSettings


class OwnToken(FactorPolicy):
    """Wants a code of whoever has a confirmed token, unless what was proven is as much, or the browser is remembered.

    Members of the required groups who have nothing of the sort get an app first.
    """

    name = "otp"

    def __init__(self, host: Host, codes: Codes) -> None:
        self._host = host
        self._codes = codes
        self._groups = frozenset(host.settings(OtpSettings).required_groups)

    async def missing(self, authenticated: Authenticated, user: User | None, call: Call) -> Sequence[str]:
        if is_enough(authenticated):
            return ()
        holder = Holder(subject=(user or authenticated).subject, user=user)
        if await self._codes.has_token(holder):
            remembered = await self._codes.devices.is_remembered(call, holder, await self._codes.tokens(holder))
            return () if remembered else (PasswordAndCode.__name__,)
        if not self._is_required(user):
            return ()
        return await self._others(holder) or (PasswordAndCode.__name__,)

    async def enrolment(self, authenticated: Authenticated, user: User | None) -> str | None:
        holder = Holder(subject=(user or authenticated).subject, user=user)
        if not self._is_required(user) or is_enough(authenticated) or await self._codes.has_token(holder):
            return None
        return PAGE if self._codes.store(holder).manages and not await self._others(holder) else None

    async def lacks(self, session: SessionView) -> bool:
        return not await self._codes.is_proven(session) and await self._codes.has_token(await self._codes.holder(session.subject))

    def _is_required(self, user: User | None) -> bool:
        return user is not None and not self._groups.isdisjoint(user.groups)

    async def _others(self, holder: Holder) -> tuple[str, ...]:
        """Other factors that the person has."""
        others = [factor for factor in self._host.components(Factor).values() if factor.name != OwnCode.name]
        return tuple([factor.name for factor in others if await factor.held(holder.subject, holder.user)])
