"""Access rules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from greatseal import hookimpl
from greatseal.api.declarations import Check, CheckResult, EventType, Job, Owns, PermissionName, Placement, Schema
from greatseal.api.http import Route
from greatseal.api.languages import Catalogue
from greatseal.api.services import DIRECTORIES
from greatseal.api.tokens import GrantCheck
from greatseal.host import Host
from greatseal_hbac.evaluation import LOCAL, Rule, useless
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
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_hbac")]

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
    def jobs(self, host: Host) -> Sequence[Job]:
        seconds = host.settings(HbacSettings).refresh_secs
        return [Job(name="access-rules", every=seconds, run=self._parts(host)[0].books.refresh, placement=Placement.WORKER)]

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        async def run() -> CheckResult:
            return await health(self._parts(host)[0])

        return [Check(name="access-rules", run=run, ready=False)]


async def health(rules: Rules) -> CheckResult:
    """How many rules there are, which of them no request can match, and whether those of other sources are there."""
    everywhere, missing = await rules.everywhere()
    found = everywhere.rules.values()
    wrong = [f"{rule.rule_id} ({rule.content.name or 'no name'}): {why}" for rule in found if (why := _idle(rule))]
    away = [f"{name}: {why}" for name, why in missing.items()]
    counted = f"{len(found)} access rules"
    late = [f"{name}, of {rules.books.age(name):.0f} s ago" for name in rules.books.failures if name not in missing]
    if away or wrong or late:
        said = [
            *([f"rules of these sources cannot be read and allow nothing: {', '.join(missing)}"] if away else []),
            *([f"rules are read from a copy: {', '.join(late)}"] if late else []),
            *([f"{len(wrong)} of {counted} can never match: {'; '.join(wrong[:10])}"] if wrong else []),
        ]
        return CheckResult(ok=False, detail="; ".join(said), cause="; ".join(away))
    return CheckResult(ok=True, detail=counted)


def _idle(rule: Rule) -> str | None:
    """Why it can never match. That a rule of another source is not complete is no mistake: it is complete when its users are named."""
    if rule.source != LOCAL:
        return rule.wrong if rule.content.enabled else None
    return useless(rule.content)
