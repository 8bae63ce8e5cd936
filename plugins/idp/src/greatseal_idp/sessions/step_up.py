"""What the person of a session could prove besides what they have."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from greatseal.api.directory import User
from greatseal.api.factors import Factor
from greatseal.api.identity import Authenticated, SessionView, Upstream
from greatseal.host import Host
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.sessions.ladder import Ladder

Groups = Sequence[Sequence[str]]
"""Values of acr; one of each group is wanted."""


class Need(NamedTuple):
    """The factors by which a person can prove what a session lacks; where there are none, those that they could get."""

    ways: tuple[Factor, ...]
    obtainable: tuple[Factor, ...]


class StepUp:
    """Looks at the factors of the plugins."""

    def __init__(self, host: Host, directories: DirectoriesImpl, ladder: Ladder) -> None:
        self._host = host
        self._directories = directories
        self._ladder = ladder

    async def need(self, session: SessionView, asked: Sequence[Groups]) -> "Need | None":
        """What the session lacks of the first of ``asked`` that it has not and that the person can prove; None when it lacks nothing.

        Each of ``asked`` is less than the one before, and the last is what must be.
        """
        for groups in asked:
            if self._ladder.meets(session.acr, groups):
                return None
            if ways := await self.ways(session, groups):
                return Need(ways, ())
        return Need((), self.obtainable(session, asked[-1]))

    async def anything(self, session: SessionView) -> "Need | None":
        """What the person could prove besides what the session has; None when there is nothing."""
        user = await self._directories.user(session.subject)
        new = [factor for factor in self._factors() if not set(factor.amr) <= set(session.amr)]
        ways = tuple([factor for factor in new if await factor.held(session.subject, user)])
        return Need(ways, ()) if ways else None

    async def ways(self, session: SessionView, groups: Groups) -> tuple[Factor, ...]:
        """The factors that the person has, and that bring the session to one of each group."""
        leading = self.obtainable(session, groups)
        user = await self._directories.user(session.subject) if leading else None
        return tuple([factor for factor in leading if await factor.held(session.subject, user)])

    def obtainable(self, session: SessionView, groups: Groups) -> tuple[Factor, ...]:
        """Those that would, if the person had them."""
        return tuple(factor for factor in self._factors() if self._ladder.meets(self._reached(session, factor), groups))

    def _reached(self, session: SessionView, factor: Factor) -> str:
        return self._ladder.of_session(proven(session, factor), upstream_of(session, factor) if factor.typed else None)

    def _factors(self) -> list[Factor]:
        return [factor for _, factor in sorted(self._host.components(Factor).items())]


def upstream_of(session: SessionView, factor: Factor) -> Upstream | None:
    """Whence the session came, and what that other provider named which the factor has not proven here."""
    came = session.upstream
    if came is None:
        return None
    return msgspec.structs.replace(came, told=tuple(one for one in came.told if one not in factor.amr))


def proven(session: SessionView, factor: Factor) -> tuple[str, ...]:
    """The methods of the session after the factor: what is typed comes beside them, another way to sign in begins anew."""
    return tuple(dict.fromkeys((*session.amr, *factor.amr))) if factor.typed else factor.amr


def with_factor(session: SessionView, factor: Factor, user: User | None, ladder: Ladder, *, now: int) -> Authenticated:
    """The person of the session, who has proven the factor too, ``now``; ``user`` as their directory knows them."""
    came = upstream_of(session, factor)
    return Authenticated(
        username=session.username,
        realm=session.realm,
        amr=proven(session, factor),
        acr=session.acr if session.acr is not None and ladder.knows(session.acr) else None,
        upstream=None if came is None else msgspec.structs.replace(came, proven_at=now),
        password_changed_at=None if user is None else user.password_changed_at,
    )
