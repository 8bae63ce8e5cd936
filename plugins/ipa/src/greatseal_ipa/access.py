"""Access rules of FreeIPA: what is under cn=hbac, for the plugin hbac."""

from collections.abc import Sequence

from greatseal.api.access import LONGEST_ID, MOST_RULES, AccessRule, RuleBook, RuleSource
from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.messages import Message
from greatseal_ipa.library import Entry, Oversized, Query
from greatseal_ipa.names import child_of
from greatseal_ipa.pool import Pool
from greatseal_ipa.schema import SOURCE

RULE = (
    "ipaUniqueID", "cn", "description", "ipaEnabledFlag", "accessRuleType", "userCategory", "hostCategory", "serviceCategory",
    "memberUser", "memberHost", "memberService",
)  # fmt: skip
FLAGS = {"TRUE": True, "FALSE": False}
ALL = "all"


class IpaRules(RuleSource):
    """The rules and the groups of services, whole at every reading. Entries that are not there any more are left out of the rules."""

    name = SOURCE

    def __init__(self, pool: Pool, base_dn: str) -> None:
        self._pool = pool
        accounts = f"cn=accounts,{base_dn}"
        self._rules = f"cn=hbac,{base_dn}"
        self._services = f"cn=hbacservices,{self._rules}"
        self._servicegroups = f"cn=hbacservicegroups,{self._rules}"
        self._users, self._groups = f"cn=users,{accounts}", f"cn=groups,{accounts}"
        self._computers, self._hostgroups = f"cn=computers,{accounts}", f"cn=hostgroups,{accounts}"

    async def read(self) -> RuleBook:
        """See :class:`greatseal.api.access.RuleSource`."""
        rules = await self._all(Query(base=self._rules, filter="(objectClass=ipaHBACRule)", attributes=RULE, limit=MOST_RULES))
        kinds = "(objectClass=ipaHBACService)"
        services = await self._all(Query(base=self._services, filter=kinds, attributes=("cn", "memberOf"), limit=MOST_RULES))
        groups = {name: frozenset(_under(one.texts("memberOf"), self._servicegroups)) for one in services if (name := one.text("cn"))}
        return RuleBook(rules=tuple(map(self._rule, rules)), servicegroups={name: some for name, some in groups.items() if some})

    async def _all(self, query: Query) -> Sequence[Entry]:
        try:
            found = await self._pool.search(query)
        except Oversized as error:
            raise DirectoryUnavailable(Message("the directory gave no usable answer"), cause=str(error)) from None
        if not found.complete:
            raise DirectoryUnavailable(
                Message("the directory gave no usable answer"), cause=f"{query.base} has more than {query.limit} entries"
            )
        return found.entries

    def _rule(self, entry: Entry) -> AccessRule:
        enabled = FLAGS.get((entry.text("ipaEnabledFlag") or "").upper())
        kind = (entry.text("accessRuleType") or "").lower()
        wrong = "" if kind == "allow" else f"its accessRuleType is {kind or 'missing'}; only allow is understood"
        if enabled is None:
            wrong = "its ipaEnabledFlag is missing, or may not be read"
        users, hosts, services = (entry.texts(name) for name in ("memberUser", "memberHost", "memberService"))
        return AccessRule(
            id=(entry.text("ipaUniqueID") or entry.dn)[:LONGEST_ID],
            name=(entry.text("cn") or "")[:256],
            description=(entry.text("description") or "")[:1024],
            enabled=enabled is not False,
            users=_under(users, self._users),
            user_groups=_under(users, self._groups),
            any_user=_everybody(entry, "userCategory"),
            hosts=_under(hosts, self._computers),
            hostgroups=_under(hosts, self._hostgroups),
            any_host=_everybody(entry, "hostCategory"),
            services=_under(services, self._services),
            servicegroups=_under(services, self._servicegroups),
            any_service=_everybody(entry, "serviceCategory"),
            wrong=wrong,
        )


def _under(dns: Sequence[str], container: str) -> tuple[str, ...]:
    """Names of the entries right below a container."""
    return tuple(sorted(name for dn in dns if (name := child_of(dn, container))))


def _everybody(entry: Entry, category: str) -> bool:
    return (entry.text(category) or "").lower() == ALL
