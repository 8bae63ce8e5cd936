"""dns-persist-01 (draft-ietf-acme-dns-persist): a TXT record that stays names the CA and the account that may have certificates.

There is no token: whoever may write the record, and whoever holds the key of the account, is trusted as long as it stands there.
"""

import re

from greatseal.api.acme import VALID, Attempt, Challenge, ChallengeValidator, Identifier, Verdict
from greatseal.api.moments import SECOND
from greatseal.api.problems import IncorrectResponse
from greatseal.api.services import Resolver
from greatseal.host import Clock
from greatseal.net import excerpt, listing
from greatseal_dns_persist_01.settings import canonical

KNOWN = ("accounturi", "policy", "persistuntil")
OTHER = "names another"
_SECONDS = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class DnsPersist01(ChallengeValidator):
    """``issuers`` are the names of this CA, canonical; ``server`` is the resolver to ask, None for the configured one."""

    type = "dns-persist-01"
    identifier_types = frozenset({"dns"})
    wildcard = True
    reusable = False  # the record may be gone: it says itself how long it holds

    def __init__(self, resolver: Resolver, clock: Clock, issuers: tuple[str, ...], server: str | None = None) -> None:
        self.resolver = resolver
        self.clock = clock
        self.issuers = issuers
        self.server = server

    def offers(self, identifier: Identifier) -> bool:
        """Not for onion names: DNS must never be asked for them (RFC 7686 s2)."""
        return not identifier.value.endswith(".onion")

    def members(self, challenge: Challenge) -> dict[str, object]:
        """What a client writes into the record; it may be there before the order is."""
        return {"issuer-domain-names": list(self.issuers), "accounturi": challenge.account_url}

    async def validate(self, attempt: Attempt) -> Verdict:
        name = f"_validation-persist.{attempt.identifier.base}"
        found = await self.resolver.txt(name, server=self.server)
        refusals = [self.refusal(value, attempt.challenge) for value in found.records]
        if None in refusals:
            return VALID
        told = [f"{excerpt(value, 300)} {why}" for value, why in zip(found.records, refusals, strict=True) if why != OTHER]
        shown = told[0] if told else listing(found.records)
        raise IncorrectResponse(f"TXT {name} at {found.server}: {shown}; expected {excerpt(self.expected(attempt.challenge), 300)}")

    def expected(self, challenge: Challenge) -> str:
        """The value of a record that is right."""
        policy = "; policy=wildcard" if challenge.wildcard else ""
        return f"{self.issuers[0]}; accounturi={challenge.account_url}{policy}"

    def refusal(self, value: str, challenge: Challenge) -> str | None:
        """Why a record proves nothing, None where it does; the text follows the value.

        Records of other CAs stand at the same name, whatever they look like; parameters that are not known say nothing.
        """
        issuer, *rest = value.split(";")
        if canonical(issuer.strip()) not in self.issuers:
            return OTHER
        parameters = [(tag.strip(" \t").lower(), text.strip(" \t")) for tag, _, text in (part.partition("=") for part in rest)]
        tags = [tag for tag, _ in parameters]
        if twice := next((tag for tag in KNOWN if tags.count(tag) > 1), None):
            return f"has {twice} twice"
        asked = dict(parameters)
        if asked.get("accounturi") != challenge.account_url:
            return f"is for another account than {challenge.account_url}"
        if challenge.wildcard and asked.get("policy") != "wildcard":
            return "is for no wildcards"
        return self._ended(asked["persistuntil"]) if "persistuntil" in asked else None

    def _ended(self, until: str) -> str | None:
        """Why ``persistUntil`` keeps the record from counting now."""
        if not _SECONDS.fullmatch(until):
            return "has a persistUntil that is no number of seconds"
        now = self.clock.now() // SECOND
        return f"ended: it is {now} now" if int(until) < now else None
