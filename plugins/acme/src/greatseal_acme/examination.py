"""Why would a certificate for this name be refused? Every step that an order takes, without an order (`greatseal doctor --name`)."""

import secrets
from collections.abc import Sequence
from ipaddress import ip_address

from greatseal.api.acme import AccountView, Attempt, Challenge, ChallengeValidator, Identifier
from greatseal.api.declarations import CheckResult, Step
from greatseal.api.issuance import Finalization, FinalizeCheck, FinalizePhase, IdentifierType, Issuance, Profile, ProvenIdentifier
from greatseal.api.problems import DnsFailure, IncorrectResponse, NotFound, Problem
from greatseal.host import Host
from greatseal.net import Blocked
from greatseal_acme.accounts import Accounts
from greatseal_acme.protocol.identifiers import offering, read_identifiers
from greatseal_acme.protocol.urls import Paths
from greatseal_acme.validation import attempt_of, guarded

NOBODY = "00000000-0000-0000-0000-000000000000"
"""The account that asks where none is given: it has no grants, and no record in DNS names it."""
_PHASES: tuple[FinalizePhase, ...] = ("authorize", "policy")
"""Those that need no CSR."""


class Examination:
    """EXAMINER: what would be said to a client, before a client is blamed."""

    def __init__(self, host: Host, issuance: Issuance, accounts: Accounts, paths: Paths) -> None:
        self._host = host
        self._issuance = issuance
        self._accounts = accounts
        self._paths = paths

    async def examine(self, value: str, *, profile: str | None = None, account_id: str | None = None) -> Sequence[Step]:
        """See :class:`greatseal.api.acme.Examiner`."""
        validators = list(self._host.components(ChallengeValidator).values())
        try:
            (identifier,) = read_identifiers([_written(value)], self._host.components(IdentifierType), validators)
        except Problem as problem:
            return [_refused("identifier", problem)]
        steps = [_passed("identifier", f"{identifier.type} {identifier.value}")]
        try:
            chosen = self._issuance.profile(profile)
            self._issuance.check_validity(chosen, None, None)
            steps.append(_passed("profile", f"{chosen.id} of the CA {chosen.ca_id}: {chosen.validity_days} days"))
            self._issuance.check_identifier(chosen, identifier)
        except Problem as problem:
            return [*steps, _refused("profile", problem)]
        account = await self._account(account_id)
        if account is None:
            return [*steps, _refused("account", NotFound(f"there is no account {account_id}; give the last part of its URL"))]
        reached = {one.type: await self._reach(one, identifier, account) for one in offering(identifier, validators)}
        steps += reached.values()
        able = [type for type, step in reached.items() if step.result.ok]
        return [*steps, *await self._decided(identifier, chosen, account, able or list(reached))]

    async def _account(self, id: str | None) -> AccountView | None:
        if id is not None:
            return await self._accounts.find(id)
        url = self._paths.account(NOBODY, "")
        return AccountView(id=NOBODY, url=url, status="valid", thumbprint=secrets.token_urlsafe(32))

    async def _reach(self, validator: ChallengeValidator, identifier: Identifier, account: AccountView) -> Step:
        """What a validation says whose answer nobody has put there: that another one is there is as good as it can be."""
        if validator.kept_as is not None:
            return _passed(validator.type, "depends on what the client sends; nothing can be looked at now")
        attempt = _attempt(validator.type, identifier, account)
        found = await guarded(self._host, validator.deadline, validator.validate(attempt))
        if not isinstance(found, Problem):
            return _passed(validator.type, "would prove it now")
        if isinstance(found, IncorrectResponse) and not isinstance(found, Blocked):
            return _passed(validator.type, f"can be asked; now {found.detail}")
        if isinstance(found, DnsFailure) and "NXDOMAIN" in found.detail and f".{identifier.base}" in found.detail:
            return _passed(validator.type, f"can be asked, and there is no record yet: {found.detail}")
        return _refused(validator.type, found)

    async def _decided(self, identifier: Identifier, profile: Profile, account: AccountView, types: Sequence[str]) -> list[Step]:
        """The checks of a finalization, for each type that could prove it: CAA may allow one and not another."""
        steps: list[Step] = []
        for check in self._checks():
            said: dict[str, list[str]] = {}
            for type in types:
                said.setdefault(await self._refusal(check, _finalization(identifier, profile, account, type)), []).append(type)
            for words, proven in said.items():
                name = check.name if len(said) == 1 else f"{check.name} after {', '.join(proven)}"
                steps.append(Step(name=name, result=CheckResult(ok=not words, detail=words or "passes")))
        return steps

    def _checks(self) -> list[FinalizeCheck]:
        found = (check for check in self._host.components(FinalizeCheck).values() if check.phase in _PHASES)
        return sorted(found, key=lambda check: (_PHASES.index(check.phase), check.order, check.name))

    async def _refusal(self, check: FinalizeCheck, finalization: Finalization) -> str:
        """What the check refuses with, empty when it passes."""
        found = await guarded(self._host, None, check.check(finalization))
        return found.detail if isinstance(found, Problem) else ""


def _written(value: str) -> tuple[str, str]:
    """Type and value: ``type:value`` where the type has letters alone, else what it looks like."""
    type, colon, rest = value.partition(":")
    if colon and type.isalpha() and not _is_address(value):
        return type, rest
    return "ip" if _is_address(value) else "email" if "@" in value else "dns", value


def _is_address(value: str) -> bool:
    try:
        ip_address(value)
    except ValueError:
        return False
    return True


def _attempt(type: str, identifier: Identifier, account: AccountView) -> Attempt:
    challenge = Challenge(
        id=NOBODY,
        type=type,
        status="processing",
        token=secrets.token_urlsafe(32),
        identifier=Identifier(identifier.type, identifier.base),
        wildcard=identifier.wildcard,
        authorization_id=NOBODY,
        account_id=account.id,
        account_url=account.url,
        expires=0,
    )
    return attempt_of(challenge, account)


def _finalization(identifier: Identifier, profile: Profile, account: AccountView, type: str) -> Finalization:
    proven = ProvenIdentifier(identifier=identifier, validated_by=type)
    return Finalization(order_id=NOBODY, profile=profile, identifiers=(proven,), account=account, csr=None, ca_id=profile.ca_id, payload={})


def _passed(name: str, detail: str) -> Step:
    return Step(name=name, result=CheckResult(ok=True, detail=detail))


def _refused(name: str, problem: Problem) -> Step:
    return Step(name=name, result=CheckResult(ok=False, detail=problem.detail, cause=problem.cause))
