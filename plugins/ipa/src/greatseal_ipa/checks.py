"""What ``greatseal doctor`` says of the directory: who answers, whether the service may read, and what it does not see."""

from collections.abc import Sequence

from greatseal.api.declarations import CheckResult
from greatseal.api.moments import SECOND
from greatseal.api.problems import DnsFailure
from greatseal.host import Clock
from greatseal_ipa.library import Down, Entry, Query, Refused, Scope, Server, Unusable
from greatseal_ipa.pool import Pool
from greatseal_ipa.schema import Schema, moment
from greatseal_ipa.tokens import KEY

CLOCK_SECONDS = 300
"""As far as Kerberos lets clocks differ."""
SAMPLE = 20
"""People that are looked at."""


class DirectoryCheck:
    """One look at every server. ``tokens`` finds some with their keys, where people have one-time codes."""

    def __init__(self, pool: Pool, schema: Schema, clock: Clock, tokens: Query | None = None) -> None:
        self._pool = pool
        self._tokens = tokens
        self._schema = schema
        self._clock = clock

    async def run(self) -> CheckResult:
        """Not ok when a server does not answer, refuses the service, lacks the base, shows nobody, or has another time."""
        try:
            await self._pool.servers.find()
        except DnsFailure as problem:
            return CheckResult(
                ok=False, detail="no server of the directory is known", cause=f"{problem.detail}; name one in [ipa] ldap_uri"
            )
        wrong: list[str] = []
        notes: list[str] = []
        for server in self._pool.servers.all:
            try:
                await self._look(server, wrong, notes)
            except (Down, Refused, Unusable) as error:
                wrong.append(str(error))
        servers = len(self._pool.servers.all)
        detail = f"directory: {servers} server{'s' if servers != 1 else ''}" if not wrong else "the directory is not as it should be"
        return CheckResult(ok=not wrong, detail=detail, cause="; ".join((*wrong, *notes)))

    async def _look(self, server: Server, wrong: list[str], notes: list[str]) -> None:
        base = Query(base=self._schema.base_dn, attributes=("objectClass",), scope=Scope.BASE, limit=1)
        if not (await self._pool.probe(server, base)).entries:
            wrong.append(f"{server}: {self._schema.base_dn} is not there, or the service may not see it: [ipa] base_dn")
            return
        people = (await self._pool.probe(server, self._schema.anybody(SAMPLE))).entries
        if not people:
            wrong.append(f"{server}: the service sees no people below {self._schema.base_dn}: [ipa] schema, or its rights")
        elif unseen := self._unseen(people):
            notes.append(f"{server}: of {len(people)} people none shows {', '.join(unseen)}")
        if self._tokens is not None and (unread := _unread((await self._pool.probe(server, self._tokens)).entries)):
            notes.append(f"{server}: {unread}")
        await self._look_at_the_clock(server, wrong)

    def _unseen(self, people: Sequence[Entry]) -> list[str]:
        """Attributes of the account's state without which a lock or a new password goes unnoticed."""
        return [name for name in self._schema.state if not any(name.lower() in entry.values for entry in people)]

    async def _look_at_the_clock(self, server: Server, wrong: list[str]) -> None:
        """Servers that tell their time have it in the root entry."""
        found = await self._pool.probe(server, Query(base="", attributes=("currentTime",), scope=Scope.BASE, limit=1))
        told = moment(found.entries[0].text("currentTime")) if found.entries else None
        if told is not None and abs(apart := (self._clock.now() - told) // SECOND) > CLOCK_SECONDS:
            wrong.append(f"{server}: its clock and this one are {abs(apart)} s apart")


def _unread(tokens: Sequence[Entry]) -> str:
    """What the service does not see of tokens: of people who have one that is not seen, no code is wanted."""
    if not tokens:
        return "no one-time code token is seen; if there are any, greatseal ipa setup says what is missing"
    if any(KEY.lower() in entry.values for entry in tokens):
        return ""
    return f"of {len(tokens)} one-time code tokens none shows its key; greatseal ipa setup says what is missing"
