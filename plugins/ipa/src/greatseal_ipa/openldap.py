"""inetOrgPerson and posixAccount, with groups of names (member, uniqueMember) or of RFC 2307 (memberUid), as OpenLDAP has them."""

from collections.abc import Sequence
from typing import ClassVar

from greatseal.api.directory import AccountState, User
from greatseal.api.languages import ranges_of
from greatseal.api.moments import SECOND
from greatseal_ipa.library import EXPIRED, LOCKED, MUST_CHANGE, Entry, Query, Scope
from greatseal_ipa.names import first_value
from greatseal_ipa.schema import ONE, SOURCE, Facts, Schema, begins, equals, moment, whole

USER = (
    "uid", "cn", "displayName", "givenName", "sn", "mail", "telephoneNumber", "uidNumber", "gidNumber", "homeDirectory", "loginShell",
    "preferredLanguage",
    "pwdChangedTime", "pwdAccountLockedTime", "pwdReset", "pwdEndTime", "shadowExpire", "shadowLastChange", "shadowMax",
)  # fmt: skip
GROUP = ("cn", "description", "gidNumber")
MEMBERS = ("member", "uniqueMember", "memberUid")
PEOPLE = "(|(objectClass=inetOrgPerson)(objectClass=posixAccount))"
GROUPS = "(|(objectClass=groupOfNames)(objectClass=groupOfUniqueNames)(objectClass=posixGroup))"
FOR_GOOD = "000001010000Z"
"""pwdAccountLockedTime of an account that only an administrator unlocks (draft-behera-ldap-password-policy s5.3.3)."""
DAY = 86_400 * SECOND


class OpenLdap(Schema):
    """People and groups anywhere below the base. Groups are found by their members: neither memberOf nor any overlay is needed."""

    name: ClassVar[str] = "openldap"
    levels: ClassVar[int] = 16
    state: ClassVar[tuple[str, ...]] = ("pwdChangedTime",)

    def user(self, name: str) -> Query:
        return Query(base=self.base_dn, filter=f"(&{PEOPLE}{equals('uid', name)})", attributes=USER, limit=ONE)

    def users(self, prefix: str) -> Query:
        return Query(base=self.base_dn, filter=f"(&{PEOPLE}{begins('uid', prefix)})", attributes=("uid",))

    def anybody(self, limit: int) -> Query:
        return Query(base=self.base_dn, filter=PEOPLE, attributes=USER, limit=limit)

    def people(self, names: Sequence[str]) -> Query:
        anyone = "".join(equals("uid", name) for name in names)
        return Query(base=self.base_dn, filter=f"(&{PEOPLE}(|{anyone}))", attributes=USER, limit=len(names))

    def username(self, entry: Entry) -> str | None:
        return entry.text("uid")

    def aliases(self, entry: Entry) -> Sequence[str]:
        return entry.texts("uid")

    def read_user(self, entry: Entry, facts: Facts) -> User:
        return User(
            username=self.username(entry) or "",
            realm=self.realm,
            source=SOURCE,
            display_name=entry.text("displayName") or entry.text("cn"),
            given_name=entry.text("givenName"),
            family_name=entry.text("sn"),
            email=entry.text("mail"),
            phone=entry.text("telephoneNumber"),
            uid_number=whole(entry.text("uidNumber")),
            gid_number=whole(entry.text("gidNumber")),
            home_directory=entry.text("homeDirectory"),
            login_shell=entry.text("loginShell"),
            languages=ranges_of(entry.text("preferredLanguage") or ""),
            groups=facts.groups,
            password_changed_at=moment(entry.text("pwdChangedTime")),
            state=AccountState(
                locked=entry.text("pwdAccountLockedTime") == FOR_GOOD,
                expired=_over(entry, facts.now),
                password_expired=_must_change(entry, facts.now),
            ),
        )

    def group(self, name: str, *, members: bool) -> Query:
        attributes = (*GROUP, *MEMBERS) if members else GROUP
        return Query(base=self.base_dn, filter=f"(&{GROUPS}{equals('cn', name)})", attributes=attributes, limit=ONE)

    def groups(self, prefix: str) -> Query:
        return Query(base=self.base_dn, filter=f"(&{GROUPS}{begins('cn', prefix)})", attributes=("cn",))

    def groups_named(self, names: Sequence[str]) -> Query:
        any_ = "".join(equals("cn", name) for name in names)
        return Query(base=self.base_dn, filter=f"(&{GROUPS}(|{any_}))", attributes=GROUP, limit=len(names))

    def group_name(self, entry: Entry) -> str | None:
        return entry.text("cn")

    def own_members(self, group: Entry) -> tuple[str, ...]:
        return (*group.texts("memberUid"), *(name for dn in _dns(group) if (name := first_value(dn, "uid"))))

    def group_at(self, dn: str) -> Query:
        return Query(base=dn, filter=GROUPS, attributes=(*GROUP, *MEMBERS), scope=Scope.BASE, limit=1)

    def subgroups(self, group: Entry) -> tuple[str, ...]:
        """Whoever has no uid in the name may be a group."""
        return tuple(dn for dn in _dns(group) if first_value(dn, "uid") is None)

    def groups_with(self, dns: Sequence[str], usernames: Sequence[str]) -> Query:
        entries = "".join(equals("member", dn) + equals("uniqueMember", dn) for dn in dns)
        names = "".join(equals("memberUid", name) for name in usernames)
        return Query(base=self.base_dn, filter=f"(&{GROUPS}(|{entries}{names}))", attributes=("cn",))

    def refused_as(self, code: int, message: str, policy: int | None) -> str | None:  # noqa: ARG002  # the contract's parameters
        """What its password policy says of a bind; a server says it of a right password alone, or hides it (ppolicy_use_lockout)."""
        if policy in {EXPIRED, MUST_CHANGE}:
            return "expired"
        return "locked" if policy == LOCKED else None


def _dns(group: Entry) -> tuple[str, ...]:
    return (*group.texts("member"), *group.texts("uniqueMember"))


def _over(entry: Entry, now: int) -> bool:
    end, day = moment(entry.text("pwdEndTime")), whole(entry.text("shadowExpire"))
    return (end is not None and end <= now) or (day is not None and day * DAY <= now)


def _must_change(entry: Entry, now: int) -> bool:
    changed, longest = whole(entry.text("shadowLastChange")), whole(entry.text("shadowMax"))
    old = changed is not None and longest is not None and (changed + longest) * DAY < now
    return changed == 0 or old or (entry.text("pwdReset") or "").upper() == "TRUE"
