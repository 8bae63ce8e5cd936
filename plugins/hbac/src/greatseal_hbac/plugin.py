"""Access rules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from greatseal import hookimpl
from greatseal.api.declarations import Check, CheckResult, EventType, Owns, PermissionName, Schema
from greatseal.api.http import Route
from greatseal.api.services import DIRECTORIES
from greatseal.api.tokens import GrantCheck
from greatseal.host import Host
from greatseal_hbac.evaluation import useless
from greatseal_hbac.policy import Hbac
from greatseal_hbac.routes import RulesAdmin
from greatseal_hbac.rules import Rules
from greatseal_hbac.settings import HbacSettings
from greatseal_hbac.tables import SCHEMA

if TYPE_CHECKING:
    import click


class Plugin:
    """Says who may use what, and which service may act where for people."""

    requires = (DIRECTORIES,)

    def __init__(self) -> None:
        self._policy: tuple[Rules, Hbac] | None = None

    def _parts(self, host: Host) -> tuple[Rules, Hbac]:
        """Made when the first hook needs them."""
        if self._policy is None:
            rules = Rules(host)
            self._policy = rules, Hbac(host, rules, enforce_grants=host.settings(HbacSettings).enforce_grants)
        return self._policy

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("hbac", HbacSettings)]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def permissions(self) -> Sequence[PermissionName]:
        return [PermissionName("hbac:read", "Read access rules"), PermissionName("hbac:write", "Create, change and delete access rules")]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("hbac_created", "idp", "An access rule was created; detail is its id."),
            EventType("hbac_updated", "idp", "An access rule was changed; detail is its id."),
            EventType("hbac_deleted", "idp", "An access rule was deleted; detail is its id."),
        ]

    @hookimpl
    def ctl(self) -> "Sequence[click.Command]":
        from greatseal_hbac.ctl import COMMANDS

        return COMMANDS

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        return RulesAdmin(host, *self._parts(host)).routes()

    @hookimpl
    def grant_checks(self, host: Host) -> Sequence[GrantCheck]:
        return [self._parts(host)[1]]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        async def run() -> CheckResult:
            return await health(self._parts(host)[0])

        return [Check(name="access-rules", run=run, ready=False)]


async def health(rules: Rules) -> CheckResult:
    """How many rules there are, and which of them no request can match."""
    found = (await rules.all()).rules.values()
    idle = [(rule, why) for rule in found if (why := useless(rule.content))]
    if idle:
        named = "; ".join(f"{rule.rule_id} ({rule.content.name or 'no name'}): {why}" for rule, why in idle[:10])
        return CheckResult(ok=False, detail=f"{len(idle)} of {len(found)} access rules can never match: {named}")
    return CheckResult(ok=True, detail=f"{len(found)} access rules")
