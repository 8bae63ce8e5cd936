"""/api/admin/hbac: the rules, and what they would say."""

from ipaddress import ip_address
from typing import Any

import msgspec

from greatseal.api.http import Call, Permission, Reply, Route
from greatseal.api.lists import listed, page_of
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, NotFound
from greatseal.host import Host
from greatseal_hbac.evaluation import Rule
from greatseal_hbac.policy import Hbac, Missed, Trial, Verdict
from greatseal_hbac.rules import RuleBody, RuleChange, Rules

PATH = "/api/admin/hbac"
READ, WRITE = Permission("hbac:read"), Permission("hbac:write")


class RulesAdmin:
    """Every route."""

    def __init__(self, host: Host, rules: Rules, policy: Hbac) -> None:
        self._issuer = host.issuer
        self._rules = rules
        self._policy = policy

    def routes(self) -> list[Route]:
        """For the kernel."""
        one = f"{PATH}/{{rule_id}}"
        return [
            Route("GET", PATH, self.listed, auth=READ, summary="Access rules, by id"),
            Route("POST", PATH, self.create, auth=WRITE, summary="Create an access rule"),
            Route("POST", f"{PATH}/test", self.test, auth=READ, summary="What the access rules say of a request, and which of them"),
            Route("GET", one, self.shown, auth=READ, summary="One access rule"),
            Route("PUT", one, self.change, auth=WRITE, summary="Change an access rule; what is left out stays"),
            Route("DELETE", one, self.delete, auth=WRITE, summary="Delete an access rule"),
        ]

    async def listed(self, call: Call) -> Reply:
        page, rules = page_of(call), await self._rules.known()
        found = page.of(rules.rules.values(), lambda rule: rule.rule_id)
        return listed(call, self._issuer, page, found, key=lambda rule: rule.rule_id, shown=_shown)

    async def create(self, call: Call) -> Reply:
        return Reply.json(_shown(await self._rules.create(await call.body(RuleBody), by=call.caller.subject)), status=201)

    async def shown(self, call: Call) -> Reply:
        rule = (await self._rules.known()).rules.get(call.path["rule_id"])
        if rule is None:
            raise NotFound("there is no rule of this id")
        return Reply.json(_shown(rule))

    async def change(self, call: Call) -> Reply:
        change = await call.body(RuleChange)
        return Reply.json(_shown(await self._rules.change(call.path["rule_id"], change, by=call.caller.subject)))

    async def delete(self, call: Call) -> Reply:
        await self._rules.delete(call.path["rule_id"], by=call.caller.subject)
        return Reply.empty()

    async def test(self, call: Call) -> Reply:
        trial = await call.body(Trial)
        if trial.address is not None:
            _check_address(trial.address)
        verdict = await self._policy.tried(trial)
        return Reply.json(_said(verdict))


def _said(verdict: Verdict) -> dict[str, Any]:
    said = {
        "kind": verdict.kind,
        "allowed": verdict.allowed,
        "reason": verdict.reason,
        "sub": verdict.facts.subject,
        "groups": sorted(verdict.facts.groups),
        "scopes": sorted(verdict.scopes),
        "rules": [_named(rule) for rule in verdict.rules],
        "nearest": [_missed(one) for one in verdict.nearest],
    }
    return said if verdict.enforced is None else {**said, "with_enforce_grants": _said(verdict.enforced)}


def _check_address(text: str) -> None:
    try:
        ip_address(text)
    except ValueError:
        raise BadRequest("address: expected an IP address") from None


def _shown(rule: Rule) -> dict[str, Any]:
    return {
        "rule_id": rule.rule_id,
        "source": rule.source,
        **msgspec.structs.asdict(rule.content),
        "delegation_target_count": len(rule.content.delegation_targets),
        "created_at": rule.created_at // SECOND if rule.created_at is not None else None,
        "updated_at": rule.updated_at // SECOND if rule.updated_at is not None else None,
    }


def _named(rule: Rule) -> dict[str, Any]:
    return {"rule_id": rule.rule_id, "name": rule.content.name}


def _missed(missed: Missed) -> dict[str, Any]:
    return {**_named(missed.rule), "misses": missed.axes}
