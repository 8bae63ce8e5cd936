"""Rules as they are stored and changed. The axes are those of FreeIPA's rules, with clients and scopes beside hosts and services."""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_network
from operator import is_not
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from sqlalchemy import func, select

from greatseal.api.access import RuleSource
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest, Conflict, NotFound
from greatseal.api.store import Refuse, Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_hbac import tables as t
from greatseal_hbac.evaluation import Content, Rule, RuleSet, pattern_of
from greatseal_hbac.sources import Books, Copy

MOST_RULES = 10_000
MOST_MEMBERS = 1000
"""Of one list of a rule."""
LONGEST = 512
"""Characters of a member."""
MAX_NAME = 256
MAX_DESCRIPTION = 1024

AXES = {
    "user_category": ("users", "user_groups"),
    "client_category": ("clients",),
    "host_category": ("hosts", "hostgroups"),
    "service_category": ("services", "servicegroups"),
    "scope_category": ("scopes",),
}
"""Each category with the lists that it stands for."""
LISTS = (*(name for names in AXES.values() for name in names), "networks", "delegation_targets")

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ALL = select(t.rule).order_by(t.rule.c.rule_id)
_ONE = select(t.rule).where(t.rule.c.rule_id == param("rule_id"))
_COUNT = select(func.count().label("many")).select_from(t.rule)

Texts = tuple[str, ...] | UnsetType
Category = Literal["all"] | UnsetType | None


class RuleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be said of a rule. A misspelt axis would leave it to the default, so it is refused."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    users: Texts = UNSET
    user_groups: Texts = UNSET
    user_category: Category = UNSET
    clients: Texts = UNSET
    client_category: Category = UNSET
    hosts: Texts = UNSET
    hostgroups: Texts = UNSET
    host_category: Category = UNSET
    services: Texts = UNSET
    servicegroups: Texts = UNSET
    service_category: Category = UNSET
    scopes: Texts = UNSET
    scope_category: Category = UNSET
    networks: Texts = UNSET
    require_mfa: bool | UnsetType = UNSET
    delegation_targets: Texts = UNSET
    delegation_target_category: bool | UnsetType = UNSET
    # What answers have and nobody sets, so that an answer can be sent back.
    rule_id: object = UNSET
    source: object = UNSET
    delegation_target_count: object = UNSET
    created_at: object = UNSET
    updated_at: object = UNSET

    def said(self) -> dict[str, Any]:
        """The members that were given, of those that can be set."""
        given = {name: getattr(self, name) for name in Content.__struct_fields__}
        return {name: value for name, value in given.items() if value is not UNSET}


class RuleChange(RuleBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PUT: what is left out stays. Targets are added before they are removed."""

    add_delegation_targets: tuple[str, ...] = ()
    remove_delegation_targets: tuple[str, ...] = ()


class Rules:
    """Every rule. Reads are from memory."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._snapshot = host.changes.snapshot([t.RULE.name], _load(host.realm))
        self.books = Books(host)
        self._joined: tuple[tuple[object, ...], RuleSet] | None = None

    async def all(self) -> RuleSet:
        """Our own rules as of now."""
        return await self._snapshot.get()

    async def everywhere(self) -> tuple[RuleSet, Mapping[str, str]]:
        """Our own and those of other sources, and of which sources there are none, and why."""
        own = await self.all()
        copies, missing = await self.books.current()
        return self._join(own, tuple(copies.values())), missing

    async def known(self) -> RuleSet:
        """Our own, and those of other sources as they were read last, however old."""
        await self.books.current()
        return self._join(await self.all(), tuple(self.books.copies.values()))

    def _join(self, own: RuleSet, copies: Sequence[Copy]) -> RuleSet:
        made_of = (own, *copies)
        if self._joined is None or len(made_of) != len(self._joined[0]) or any(map(is_not, made_of, self._joined[0])):
            rules = [*own.rules.values(), *(rule for copy in copies for rule in copy.rules)]
            groups: dict[str, frozenset[str]] = {}
            for copy in copies:
                for service, names in copy.servicegroups.items():
                    groups[service] = groups.get(service, frozenset()) | names
            self._joined = made_of, RuleSet(rules, self._host.realm, groups)
        return self._joined[1]

    async def create(self, body: RuleBody, *, by: str) -> Rule:
        """Store a rule. One that names no axis is for everybody (R94). Raises BadRequest, and Conflict when there are too many."""
        said = body.said()
        if not any(said.get(name) for category, names in AXES.items() for name in (category, *names)):
            said |= dict.fromkeys(AXES, "all")
        return await self._host.db.write(_create, str(uuid.uuid4()), checked(said), by)

    async def change(self, rule_id: str, change: RuleChange, *, by: str) -> Rule:
        """Change what is given. Raises NotFound, BadRequest for what the rule would be, and Conflict for a rule of another source."""
        self._refuse_others(rule_id)
        return await self._host.db.write(_change, rule_id, change, by)

    async def delete(self, rule_id: str, *, by: str) -> None:
        """Raises NotFound, and Conflict for a rule of another source."""
        self._refuse_others(rule_id)
        await self._host.db.write(_delete, rule_id, by)

    def _refuse_others(self, rule_id: str) -> None:
        source, colon, _ = rule_id.partition(":")
        if colon and source in self._host.components(RuleSource):
            raise Conflict(f"this rule is kept by {source}, and is changed and deleted there")


def checked(members: Mapping[str, Any]) -> Content:
    """A rule that can be stored: lists without what stands twice, networks and host names as they are written usually.

    Raises BadRequest that names the member.
    """
    said = dict(members)
    for name in LISTS:
        if name in said:
            said[name] = _checked_list(name, said[name])
    for name, longest in (("name", MAX_NAME), ("description", MAX_DESCRIPTION)):
        if len(said.get(name, "")) > longest or _CONTROL.search(said.get(name, "")):
            raise BadRequest(f"{name}: at most {longest} characters, no control characters")
    for category, names in AXES.items():
        if said.get(category) == "all" and (listed := [name for name in names if said.get(name)]):
            raise BadRequest(f"{category}: all is already everybody in {' and '.join(listed)}; clear the one or the other")
    _check_patterns(said.get("users", ()))
    if "networks" in said:
        said["networks"] = tuple(map(_network, said["networks"]))
    if "hosts" in said:
        said["hosts"] = tuple(host.lower() for host in said["hosts"])
    if any("/" not in target for target in said.get("delegation_targets", ())):
        raise BadRequest("delegation_targets: expected principals of services, such as HTTP/files.example.org@EXAMPLE.ORG")
    return Content(**said)


def _checked_list(name: str, values: Sequence[str]) -> tuple[str, ...]:
    unique = tuple(dict.fromkeys(values))
    if len(unique) > MOST_MEMBERS:
        raise BadRequest(f"{name}: at most {MOST_MEMBERS}")
    if not all(0 < len(value) <= LONGEST and not _CONTROL.search(value) for value in unique):
        raise BadRequest(f"{name}: 1 to {LONGEST} characters each, no control characters")
    return unique


def _check_patterns(users: Sequence[str]) -> None:
    try:
        for user in users:
            pattern_of(user)
    except ValueError as error:
        raise BadRequest(f"users: the pattern {error}; expected such as host/*.example.org@EXAMPLE.ORG") from None


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise BadRequest("networks: expected addresses or CIDR blocks without host bits, such as 192.0.2.0/24 or 2001:db8::/32") from None


def _load(realm: str) -> Callable[[Tx], RuleSet]:
    @scan
    def load(tx: Tx) -> RuleSet:
        return RuleSet([_rule(row) for row in tx.all(_ALL)], realm)

    return load


def _rule(row: Row) -> Rule:
    content = msgspec.json.decode(row.content, type=Content)
    return Rule(rule_id=row.rule_id, created_at=row.created_at, updated_at=row.updated_at, content=content)


def _create(tx: Tx, rule_id: str, content: Content, by: str) -> Rule:
    (counted,) = tx.all(_COUNT)
    if counted.many >= MOST_RULES:
        raise Refuse(Conflict(f"there are {MOST_RULES} rules, and there may be no more"))
    return _put(tx, Rule(rule_id=rule_id, created_at=tx.now, updated_at=tx.now, content=content), "hbac_created", by)


def _change(tx: Tx, rule_id: str, change: RuleChange, by: str) -> Rule:
    row = tx.one(_ONE, rule_id=rule_id)
    if row is None:
        raise Refuse(NotFound("there is no rule of this id"))
    rule = _rule(row)
    members = {**msgspec.structs.asdict(rule.content), **change.said()}
    removed = set(change.remove_delegation_targets)
    members["delegation_targets"] = [
        target for target in (*members["delegation_targets"], *change.add_delegation_targets) if target not in removed
    ]
    try:
        content = checked(members)
    except BadRequest as problem:
        raise Refuse(problem) from None
    return _put(tx, msgspec.structs.replace(rule, content=content, updated_at=tx.now), "hbac_updated", by)


def _put(tx: Tx, rule: Rule, event: str, by: str) -> Rule:
    content = msgspec.json.encode(rule.content).decode()
    tx.put(t.RULE, rule.rule_id, content=content, created_at=rule.created_at, updated_at=rule.updated_at)
    tx.audit(AuditEvent(event_type=event, service="idp", sub=by, detail=rule.rule_id))
    return rule


def _delete(tx: Tx, rule_id: str, by: str) -> None:
    if not tx.remove(t.RULE, rule_id):
        raise Refuse(NotFound("there is no rule of this id"))
    tx.audit(AuditEvent(event_type="hbac_deleted", service="idp", sub=by, detail=rule_id))
