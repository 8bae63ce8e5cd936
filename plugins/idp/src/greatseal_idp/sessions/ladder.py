"""How strong a sign-in is: the `[[acr]]` ladder (OpenID Connect Core s2, RFC 9470)."""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence

from greatseal.api.identity import Upstream
from greatseal.host import Host
from greatseal_idp.settings import Rbac, Rung

UNSPECIFIED_ACR = "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"
"""The class of a sign-in about which nothing more is said: below every rung, where it is none itself."""
METHODS = (
    "face", "fed", "fpt", "geo", "hwk", "iris", "kba", "kerberos", "mca", "mfa", "otp", "pin", "pop", "pwd", "rba", "retina", "sc", "sms",
    "swk", "tel", "user", "vbm", "wia",
)  # fmt: skip
"""Authentication method references: those of RFC 8176, with ``kerberos`` (a ticket) and ``fed`` (another provider)."""


class Ladder:
    """The rungs. One that is reached stands for all below it."""

    def __init__(self, rungs: Iterable[Rung]) -> None:
        self._rungs = sorted(rungs, key=lambda rung: rung.level, reverse=True)
        self._levels = {UNSPECIFIED_ACR: 0, **{rung.value: rung.level for rung in self._rungs}}
        self._ways = [(rung, [frozenset(way.split("+")) for way in rung.satisfied_by]) for rung in self._rungs]

    @property
    def values(self) -> tuple[str, ...]:
        """Every value that a sign-in may have here, the strongest first; none where there is no ladder."""
        return tuple(sorted(self._levels, key=self._levels.__getitem__, reverse=True)) if self._rungs else ()

    def knows(self, value: str) -> bool:
        """Whether some sign-in may reach it."""
        return value in self._levels

    def of(self, amr: Sequence[str], given: str | None = None) -> str:
        """The value of a sign-in by these methods. ``given`` is what another provider says of it: one that is no rung stands as it is."""
        if given is not None and given not in self._levels:
            return given
        proven = set(amr)
        reached = {rung.value for rung, ways in self._ways if any(way <= proven for way in ways)}
        return max((*reached, given or UNSPECIFIED_ACR, UNSPECIFIED_ACR), key=self._levels.__getitem__)

    def of_session(self, amr: Sequence[str], upstream: Upstream | None, given: str | None = None) -> str:
        """As :meth:`of`, of a session that another provider may have begun: what it names counts by ``given`` alone."""
        told = () if upstream is None else upstream.told
        return self.of([method for method in amr if method not in told], given)

    def met(self, acr: str | None, wanted: Sequence[str]) -> str | None:
        """The first of ``wanted`` that a sign-in with ``acr`` satisfies: its own value, or a lower one. None when it satisfies none."""
        level = -1 if acr is None else self._levels.get(acr, -1)
        return next((value for value in wanted if value == acr or self._levels.get(value, level + 1) <= level), None)

    def meets(self, acr: str | None, groups: Iterable[Sequence[str]]) -> bool:
        """Whether it satisfies one of each group."""
        return all(self.met(acr, wanted) is not None for wanted in groups)

    def told(self, acr: str | None, groups: Iterable[Sequence[str]]) -> str | None:
        """What a client is told that asked for one of each of ``groups``: a value of the first that is satisfied.

        It is one that the client named (OpenID Connect Core s5.5.1.1), though the sign-in may be stronger.
        """
        return next((found for wanted in groups if (found := self.met(acr, wanted)) is not None), acr)


def ladder_of(host: Host) -> Ladder:
    """That of the configuration."""
    return Ladder(host.settings_list(Rung))


def problems(host: Host) -> list[str]:
    """What is wrong with the ladder and with what names its values."""
    rungs = host.settings_list(Rung)
    found: list[str] = []
    for what, seen in (("value", [rung.value for rung in rungs]), ("level", [str(rung.level) for rung in rungs])):
        found += [
            f"[[acr]] {what}: {one} stands there {count} times; each has its own" for one, count in Counter(seen).items() if count > 1
        ]
    for rung in rungs:
        found += [f"[[acr]] {rung.value!r}: satisfied_by: {why}" for way in rung.satisfied_by if (why := _unmeant(way)) is not None]
    known = Ladder(rungs)
    found += [
        f"[rbac] admin_acr_values: {value!r} is no value of [[acr]]: nobody could reach it"
        for value in host.settings(Rbac).admin_acr_values
        if not known.knows(value)
    ]
    return found


def _unmeant(way: str) -> str | None:
    """Why a way is none that can be taken: a misspelt method would be proven by nobody, in silence."""
    for method in way.split("+"):
        if method not in METHODS:
            close = difflib.get_close_matches(method.strip().lower(), METHODS, n=1)
            cure = f"did you mean {close[0]!r}?" if close else f"expected one or several of {', '.join(METHODS)}, with + between them"
            return f"{way!r}: no method is called {method!r}; {cure}"
    return None
