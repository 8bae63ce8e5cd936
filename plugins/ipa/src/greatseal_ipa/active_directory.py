"""Active Directory, of Windows or Samba.

Groups in groups are found by the server (LDAP_MATCHING_RULE_IN_CHAIN), and members by their own entries: ``member``, which servers give in
ranges, is never read. The primary group of a user, Domain Users as a rule, is not told: nobody is its ``member``.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from greatseal import principals
from greatseal.api.directory import AccountState, User
from greatseal.api.languages import ranges_of
from greatseal.api.moments import SECOND
from greatseal_ipa.library import INVALID_CREDENTIALS, Entry, Query
from greatseal_ipa.names import same
from greatseal_ipa.schema import ONE, SOURCE, Facts, Schema, begins, equals, whole

IN_CHAIN, ALL_BITS = "1.2.840.113556.1.4.1941", "1.2.840.113556.1.4.803"
CONTROL, LOCKOUT, COMPUTED = "userAccountControl", "lockoutTime", "msDS-User-Account-Control-Computed"
USER = (
    "sAMAccountName", "userPrincipalName", "cn", "displayName", "givenName", "sn", "mail", "telephoneNumber", "uidNumber", "gidNumber",
    "preferredLanguage", "unixHomeDirectory", "loginShell", "accountExpires", "pwdLastSet", CONTROL, LOCKOUT, COMPUTED,
)  # fmt: skip
GROUP = ("sAMAccountName", "description", "gidNumber")
HOST = ("sAMAccountName", "dNSHostName")
PEOPLE = "(sAMAccountType=805306368)"
"""Normal accounts of users: neither machines nor trusts."""
GROUPS = f"(&(objectCategory=group)(groupType:{ALL_BITS}:=2147483648))"
"""Groups of security: who is on a list for mail alone gets nothing by it, in Windows too."""
MACHINES = "(objectCategory=computer)"
DISABLED, LOCKED, NEVER_EXPIRES, EXPIRED = 0x2, 0x10, 0x10000, 0x800000
NEVER = frozenset({0, 0x7FFF_FFFF_FFFF_FFFF})
TICKS = 10
"""Of 100 nanoseconds, in a microsecond."""
EPOCH = int(datetime(1601, 1, 1, tzinfo=UTC).timestamp()) * SECOND
CAUSE = re.compile(r"\bdata ([0-9a-f]{1,8})\b")
CAUSES = {"532": "expired", "773": "expired", "533": "disabled", "701": "disabled", "775": "locked"}
"""Why a bind was refused, by the Windows error in hexadecimal: all but 775 are said of a right password alone."""


class ActiveDirectory(Schema):
    """People anywhere below the base, by sAMAccountName, or by a userPrincipalName of the realm."""

    name: ClassVar[str] = "active-directory"
    levels: ClassVar[int] = 1
    state: ClassVar[tuple[str, ...]] = ("pwdLastSet", CONTROL)
    password_attribute: ClassVar[str | None] = "unicodePwd"  # noqa: S105  # the name of an attribute

    def user(self, name: str) -> Query:
        either = equals("sAMAccountName", name) + equals("userPrincipalName", f"{name}@{self.realm}")
        return self._people(f"(|{either})", USER, ONE)

    def users(self, prefix: str) -> Query:
        return Query(base=self.base_dn, filter=f"(&{PEOPLE}{begins('sAMAccountName', prefix)})", attributes=("sAMAccountName",))

    def anybody(self, limit: int) -> Query:
        return self._people("", USER, limit)

    def people(self, names: Sequence[str]) -> Query:
        return self._people(f"(|{''.join(equals('sAMAccountName', name) for name in names)})", USER, len(names))

    def username(self, entry: Entry) -> str | None:
        return entry.text("sAMAccountName")

    def aliases(self, entry: Entry) -> Sequence[str]:
        name, at, realm = (entry.text("userPrincipalName") or "").rpartition("@")
        return [name] if at and same(realm, self.realm) else []

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
            home_directory=entry.text("unixHomeDirectory"),
            login_shell=entry.text("loginShell"),
            languages=ranges_of(entry.text("preferredLanguage") or ""),
            groups=facts.groups,
            password_changed_at=_moment(entry.text("pwdLastSet")),
            state=_state(entry, facts.now),
        )

    def group(self, name: str, *, members: bool) -> Query:  # noqa: ARG002  # they are found by their own entries
        return Query(base=self.base_dn, filter=f"(&{GROUPS}{equals('sAMAccountName', name)})", attributes=GROUP, limit=ONE)

    def groups(self, prefix: str) -> Query:
        return Query(base=self.base_dn, filter=f"(&{GROUPS}{begins('sAMAccountName', prefix)})", attributes=("sAMAccountName",))

    def groups_named(self, names: Sequence[str]) -> Query:
        any_ = "".join(equals("sAMAccountName", name) for name in names)
        return Query(base=self.base_dn, filter=f"(&{GROUPS}(|{any_}))", attributes=GROUP, limit=len(names))

    def group_name(self, entry: Entry) -> str | None:
        return entry.text("sAMAccountName")

    def members(self, group: Entry) -> Query:
        return Query(base=self.base_dn, filter=f"(&{PEOPLE}{equals(f'memberOf:{IN_CHAIN}:', group.dn)})", attributes=("sAMAccountName",))

    def groups_with(self, dns: Sequence[str], usernames: Sequence[str]) -> Query:  # noqa: ARG002  # groups name entries alone
        any_ = "".join(equals(f"member:{IN_CHAIN}:", dn) for dn in dns)
        return Query(base=self.base_dn, filter=f"(&{GROUPS}(|{any_}))", attributes=("sAMAccountName",))

    def host(self, hostname: str) -> Query:
        name = hostname.lower().rstrip(".")
        full = name if "." in name else f"{name}.{self.realm.lower()}"
        return Query(base=self.base_dn, filter=f"(&{MACHINES}{equals('dNSHostName', full)})", attributes=HOST, limit=ONE)

    def hostgroups(self, prefix: str) -> Query:
        """A group may have people and machines alike, so every group is one."""
        return self.groups(prefix)

    def hostgroups_with(self, dn: str) -> Query:
        return self.groups_with((dn,), ())

    def hostgroup_name(self, entry: Entry) -> str | None:
        return self.group_name(entry)

    def principal(self, principal: str) -> Query | None:
        try:
            known = principals.parse(principal)
        except ValueError:
            return None
        name = equals("servicePrincipalName", "/".join(known.components))
        return Query(base=self.base_dn, filter=f"(&(objectClass=user){name})", attributes=("sAMAccountName",), limit=ONE)

    def managed_by(self, dn: str) -> Query:
        return Query(base=self.base_dn, filter=f"(&{MACHINES}{equals('managedBy', dn)})", attributes=HOST)

    def read_hosts(self, entry: Entry) -> frozenset[str]:
        return frozenset(name.lower() for name in entry.texts("dNSHostName"))

    def refused_as(self, code: int, message: str, policy: int | None) -> str | None:  # noqa: ARG002  # the contract's parameter
        found = CAUSE.search(message) if code == INVALID_CREDENTIALS else None
        return CAUSES.get(found[1]) if found else None

    def password_value(self, password: str) -> bytes:
        return f'"{password}"'.encode("utf-16-le")

    def _people(self, which: str, attributes: tuple[str, ...], limit: int) -> Query:
        return Query(base=self.base_dn, filter=f"(&{PEOPLE}{which})", attributes=attributes, limit=limit)


def _state(entry: Entry, now: int) -> AccountState:
    """What the server computed, else what it is computed of."""
    control, computed = whole(entry.text(CONTROL)) or 0, _number(entry.text(COMPUTED))
    end = _number(entry.text("accountExpires"))
    if computed is not None:
        locked, over = bool(computed & LOCKED), bool(computed & EXPIRED)
    else:
        locked = _number(entry.text(LOCKOUT)) not in {None, 0}
        over = _number(entry.text("pwdLastSet")) == 0 and not control & NEVER_EXPIRES
    return AccountState(
        disabled=bool(control & DISABLED),
        locked=locked,
        expired=end is not None and end not in NEVER and end // TICKS + EPOCH <= now,
        password_expired=over,
    )


def _number(text: str | None) -> int | None:
    """An integer of 64 bits."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _moment(text: str | None) -> int | None:
    """A FILETIME in microseconds since the epoch; None for never."""
    ticks = _number(text)
    return ticks // TICKS + EPOCH if ticks is not None and ticks > 0 else None
