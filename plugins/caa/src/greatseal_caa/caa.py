"""CAA (RFC 8659, RFC 8657): whoever holds a domain says in DNS which CAs may certify it, for which accounts, proven by what."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from greatseal.api.acme import Caa, OnionCaaRequired
from greatseal.api.issuance import Finalization, FinalizeCheck, ProvenIdentifier
from greatseal.api.problems import DnsFailure
from greatseal.api.services import CaaRecord, Found, Resolver
from greatseal.host import Clock
from greatseal.net import excerpt, is_onion, listing
from greatseal_caa.onions import MEMBER, Given, given, records
from greatseal_caa.values import OTHER, refusal

IN_FLIGHT = 20
"""Questions of one finalization that are asked at once."""
MOST_NAMES = 1000
"""Names that one finalization may ask about, those above the names of the order with them: a hundred names of eleven labels that have
nothing in common. A name may have 127 labels, and whoever writes an order can have it finalized again and again."""
CRITICAL = 128
KNOWN = frozenset({"issue", "issuewild", "iodef", "contactemail", "contactphone", "issuemail", "issuevmc"})
"""Properties that are understood, those that speak of no TLS certificate too: critical or not, they deny nothing by being there."""

Answers = Mapping[str, Found[CaaRecord] | DnsFailure]


class CaaCheck(FinalizeCheck):
    """The first name upwards that has records decides; what cannot be looked up is refused.

    ``identities`` are the names of each CA in such records; for one without names nothing is asked. Onion services are in no DNS: for them
    the records count that the client brings, and with ``onions`` it must.
    """

    name = "caa"
    phase = "policy"

    def __init__(self, resolver: Resolver, identities: Mapping[str, Collection[str]], clock: Clock, *, onions: bool) -> None:
        self.resolver = resolver
        self.identities = identities
        self.clock = clock
        self.onions = onions

    async def check(self, finalization: Finalization) -> None:
        ours, url = self.identities.get(finalization.ca_id, ()), finalization.account.url
        if not ours:
            return
        proven = [one for one in finalization.identifiers if one.identifier.type == "dns"]
        names = [one for one in proven if not is_onion(one.identifier.value)]
        brought = {one: given(finalization.payload, one.identifier.base) for one in proven if is_onion(one.identifier.value)}
        if self.onions:
            _check_brought(brought)
        bases = {one.identifier.base for one in names}
        if (number := len({name for base in bases for name in _upwards(base)})) > MOST_NAMES:
            raise Caa(f"CAA would be asked at {number} names, those of the order and above; at most {MOST_NAMES} are. Order fewer at once")
        answers = await self._answers(bases)
        refused: list[Caa] = []
        for one in proven:
            if one not in brought:
                denial = _denial(one, answers, ours, url)
            else:
                denial = None if (its := brought[one]) is None else _onion_denial(one, its, ours, url, self.clock.now())
            if denial is not None:
                refused.append(denial)
            await asyncio.sleep(0)  # others may run: an order has up to a hundred names, and each of them up to two hundred records
        if len(refused) > 1:
            raise Caa(f"{refused[0].detail} (and {len(refused) - 1} more; see subproblems)", subproblems=refused)
        if refused:
            raise refused[0]

    async def _answers(self, bases: Iterable[str]) -> Answers:
        """What stands at each name and at its parents up to the one that decides; a parent of several names is asked once."""
        answers: dict[str, Found[CaaRecord] | DnsFailure] = {}
        room = asyncio.Semaphore(IN_FLIGHT)

        async def ask(name: str) -> None:
            async with room:
                try:
                    answers[name] = await self.resolver.caa(name)
                except DnsFailure as failure:
                    answers[name] = failure

        wanted = {name for name in bases if "." in name}
        while asked := sorted(wanted):
            outcomes = await asyncio.gather(*map(ask, asked), return_exceptions=True)
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome
            wanted = {_parent(name) for name in asked if _goes_on(answers[name])}
            wanted = {name for name in wanted - answers.keys() if "." in name}
        return answers


def _upwards(name: str) -> Iterator[str]:
    """The name and those above it that may be asked."""
    while "." in name:
        yield name
        name = _parent(name)


def _parent(name: str) -> str:
    return name.partition(".")[2]


def _goes_on(answer: Found[CaaRecord] | DnsFailure) -> bool:
    return isinstance(answer, Found) and not answer.records


def _denial(proven: ProvenIdentifier, answers: Answers, ours: Collection[str], account_url: str) -> Caa | None:
    """Why the name may not be certified: what was found, where, and what was expected."""
    value, name = proven.identifier.value, proven.identifier.base
    while name in answers and _goes_on(answers[name]):
        name = _parent(name)
    found = answers.get(name)
    if isinstance(found, DnsFailure):
        return Caa(f"the CAA records of {value} cannot be read: {found.detail}", identifier={"type": "dns", "value": value})
    if found is None or (reason := _reason(proven, found.records, ours, account_url)) is None:
        return None
    return Caa(f"CAA of {value} at {name} ({found.server}): {_shown(found.records)}; {reason}", identifier={"type": "dns", "value": value})


def _check_brought(brought: Mapping[ProvenIdentifier, Given | None]) -> None:
    missing = sorted({one.identifier.base for one, its in brought.items() if its is None})
    if missing:
        raise OnionCaaRequired(
            f"finalize with {MEMBER}, the signed CAA records of {listing(missing)}; null where there are none (RFC 9799 s6.4)"
        )


def _onion_denial(proven: ProvenIdentifier, brought: Given, ours: Collection[str], account_url: str, now: int) -> Caa | None:
    """Why the onion service does not want the certificate, by the records that the client brings."""
    value = proven.identifier.value
    try:
        found = records(brought, proven.identifier.base, now)
    except Caa as unusable:
        return unusable
    if (reason := _reason(proven, found, ours, account_url)) is None:
        return None
    return Caa(f"CAA of {value} in {MEMBER}: {_shown(found)}; {reason}", identifier={"type": "dns", "value": value})


def _shown(found: Iterable[CaaRecord]) -> str:
    return listing(f"{record.flags} {record.tag} {record.value}" for record in found)


def _reason(proven: ProvenIdentifier, records: Sequence[CaaRecord], ours: Collection[str], account_url: str) -> str | None:
    """What forbids, None where the records allow (RFC 8659 s4.2, s4.3)."""
    for record in records:
        if record.flags & CRITICAL and record.tag.lower() not in KNOWN:
            return f"the critical property {excerpt(record.tag)} is not known here"
    wild = proven.identifier.wildcard and any(record.tag.lower() == "issuewild" for record in records)
    tag = "issuewild" if wild else "issue"
    values = [record.value for record in records if record.tag.lower() == tag]
    refusals = [refusal(value, ours, account_url=account_url, method=proven.validated_by) for value in values]
    if not refusals or None in refusals:
        return None
    expected = f"expected {tag} {' or '.join(sorted(ours))}"
    told = [f"{excerpt(value)} {why}" for value, why in zip(values, refusals, strict=True) if why != OTHER]
    return f"{told[0]}; {expected}" if told else expected
