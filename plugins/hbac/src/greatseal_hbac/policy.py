"""What the rules decide of what the provider asks: grants to people, services that act for them, and programs of Kerberos clients."""

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import urlsplit

import msgspec

from greatseal.api.directory import Directories
from greatseal.api.identity import AccessDenied
from greatseal.api.messages import Message
from greatseal.api.problems import Unavailable
from greatseal.api.services import DIRECTORIES
from greatseal.api.tokens import GrantCheck, GrantQuestion
from greatseal.host import Host
from greatseal.principals import principal_of
from greatseal_hbac.evaluation import LOCAL, Decision, Facts, Kind, Rule, RuleSet, subject_of
from greatseal_hbac.rules import Rules
from greatseal_hbac.sources import UNREADABLE

KERBEROS = "kerberos_client_auth"
NEAREST = 10
"""Rules that are shown although they do not match."""


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who wants what. ``target_service`` makes it an exchange, ``service`` the sign-in of a Kerberos client, neither of them a grant."""

    user: str
    client_id: str = ""
    scopes: tuple[str, ...] = ()
    address: str | None = None
    mfa: bool = False
    target_service: str | None = None
    service: str | None = None


class Missed(msgspec.Struct, frozen=True):
    """A rule that does not match, and where."""

    rule: Rule
    axes: tuple[str, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say of a request, and why."""

    kind: Kind
    facts: Facts
    allowed: bool
    scopes: frozenset[str]
    reason: str
    rules: tuple[Rule, ...] = ()
    nearest: tuple[Missed, ...] = ()
    enforced: "Verdict | None" = None
    """What it would be with ``enforce_grants``, where that is off and decides."""


class Hbac(GrantCheck):
    """Without a rule grants are free, and every service that acts for somebody, and every Kerberos client with a service, is refused.

    ``[hbac] enforce_grants`` has rules decide about grants too, as soon as there is one (R101).
    """

    name: ClassVar[str] = "hbac"
    decides_targets: ClassVar[bool] = True
    decides_programs: ClassVar[bool] = True

    def __init__(self, host: Host, rules: Rules, *, enforce_grants: bool) -> None:
        self._host = host
        self._rules = rules
        self._enforce = enforce_grants

    def concerns(self, question: GrantQuestion) -> bool:
        return self._kind(question) is not None

    async def check(self, question: GrantQuestion) -> frozenset[str]:
        kind = self._kind(question)
        if kind is None:
            return question.scopes
        assert question.client is not None  # _kind says so
        if kind == "service":
            decision, facts, rules = await self._service(question.subject, question.client.kerberos_hbac_service or "")
        else:
            rules = await self._rules.all()
            if not rules and kind == "grant":
                return question.scopes
            facts = await self._facts(kind, question, rules)
            decision = rules.decide(facts)
        if not decision.rules:
            asked = facts.service or facts.target_service or facts.client_id
            raise AccessDenied(
                Message("no access rule allows this"), cause=f"{facts.subject} at {asked}: {len(rules.rules)} rules, none matches"
            )
        return question.scopes if kind == "service" else decision.scopes

    def _kind(self, question: GrantQuestion) -> Kind | None:
        """What rules have to say about it; None for nothing."""
        client = question.client
        if client is None:
            return None
        if question.phase == "client":
            return "service" if client.token_endpoint_auth_method == KERBEROS and client.kerberos_hbac_service is not None else None
        if question.target_service is not None:
            return "exchange"
        return "grant" if self._enforce else None

    async def _facts(self, kind: Kind, question: GrantQuestion, rules: RuleSet) -> Facts:
        assert question.client is not None  # _kind says so
        return Facts(
            kind=kind,
            subject=question.subject,
            client_id=question.client.client_id,
            groups=await self._groups(question.subject, rules),
            scopes=question.scopes,
            address=question.remote if question.phase == "authorize" else None,
            amr=question.amr,
            target_service=question.target_service,
        )

    async def _service(self, principal: str, service: str) -> tuple[Decision, Facts, RuleSet]:
        """What all rules say of a program. Raises Unavailable when none allows it and not all of them are known."""
        rules, missing = await self._rules.everywhere()
        facts = await self._of_program(principal, service, rules)
        decision = rules.decide(facts)
        if missing and not decision.rules:
            raise Unavailable(UNREADABLE, cause="; ".join(f"{name}: {why}" for name, why in missing.items()))
        return decision, facts, rules

    async def _of_program(self, principal: str, service: str, rules: RuleSet) -> Facts:
        """For our own rules a principal may stand for its host (R58); those of others are about the machine of this service."""
        named, here = principal_of(principal), urlsplit(self._host.issuer).hostname or ""
        host = None if named is None else named.host
        return Facts(
            kind="service",
            subject=principal,
            groups=await self._groups(principal, rules),
            service=service,
            servicegroups=rules.servicegroups.get(service.casefold(), frozenset()),
            host=host,
            hostgroups=await self._directories.hostgroups_of(host) if host is not None and rules.uses_hostgroups else frozenset(),
            here=here,
            groups_here=await self._directories.hostgroups_of(here) if rules.uses_groups_here else frozenset(),
        )

    async def _groups(self, subject: str, rules: RuleSet) -> frozenset[str]:
        if not rules.uses_groups:
            return frozenset()
        user = await self._directories.user(subject)
        # A directory finds alice for Alice, and to Kerberos these are two: nobody has the groups of another.
        return frozenset() if user is None or user.subject != subject else frozenset(user.groups)

    @property
    def _directories(self) -> Directories:
        return self._host.service(DIRECTORIES)

    # ---- For whoever asks beforehand

    async def tried(self, trial: Trial) -> Verdict:
        """What the rules would say, by the code that decides. Raises DirectoryUnavailable."""
        rules = await self._rules.all()
        if trial.service is not None:
            _, facts, rules = await self._service(subject_of(trial.user, self._host.realm), trial.service)
        else:
            user = await self._directories.user(trial.user)
            facts = Facts(
                kind="grant" if trial.target_service is None else "exchange",
                subject=user.subject if user is not None else subject_of(trial.user, self._host.realm),
                client_id=trial.client_id,
                groups=frozenset(user.groups) if user is not None else frozenset(),
                scopes=frozenset(trial.scopes),
                address=trial.address,
                amr=("mfa",) if trial.mfa else (),
                target_service=trial.target_service,
            )
        verdict = _verdict(rules, facts)
        if facts.kind != "grant" or self._enforce:
            return verdict
        free = "[hbac] enforce_grants is false: rules decide about services that act for people alone"
        return Verdict(kind="grant", facts=facts, allowed=True, scopes=facts.scopes, reason=free, enforced=verdict)


def _verdict(rules: RuleSet, facts: Facts) -> Verdict:
    if facts.kind == "grant" and not rules:
        free = "there is no rule yet: the first one makes everything need one"
        return Verdict(kind="grant", facts=facts, allowed=True, scopes=facts.scopes, reason=free)
    decision = rules.decide(facts)
    return Verdict(
        kind=facts.kind,
        facts=facts,
        allowed=bool(decision.rules),
        scopes=decision.scopes,
        reason=_reason(rules, decision.rules),
        rules=decision.rules,
        nearest=_nearest(rules, facts, decision.rules),
    )


def _reason(rules: RuleSet, found: Sequence[Rule]) -> str:
    if found:
        return f"{len(found)} of {len(rules.rules)} rules match"
    return f"none of {len(rules.rules)} rules matches" if rules else "there is no rule, and this needs one"


def _nearest(rules: RuleSet, facts: Facts, found: Sequence[Rule]) -> tuple[Missed, ...]:
    about = [rule for rule in rules.rules.values() if rule not in found and (rule.source == LOCAL or facts.kind == "service")]
    missed = (Missed(rule, tuple(rules.misses(rule, facts))) for rule in about)
    return tuple(sorted(missed, key=lambda one: (len(one.axes), one.rule.content.name, one.rule.rule_id))[:NEAREST])
