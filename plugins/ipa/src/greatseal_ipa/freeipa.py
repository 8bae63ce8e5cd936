"""FreeIPA's own schema."""

import re
from collections.abc import Sequence
from typing import ClassVar

from greatseal import principals
from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, User
from greatseal.api.languages import ranges_of
from greatseal_ipa.library import UNWILLING, Entry, Query, Scope
from greatseal_ipa.names import child_of, folded
from greatseal_ipa.schema import ONE, SOURCE, Facts, Provider, Schema, begins, equals, moment, whole

USER = (
    "uid", "cn", "displayName", "givenName", "sn", "mail", "telephoneNumber", "uidNumber", "gidNumber", "homeDirectory", "loginShell",
    "preferredLanguage",
    "memberOf", "nsAccountLock", "krbCanonicalName", "krbPrincipalName", "krbPrincipalExpiration", "krbPasswordExpiration",
    "krbLastPwdChange", "ipaUserAuthType", "ipaIdpConfigLink",
)  # fmt: skip
GROUP = ("cn", "description", "gidNumber")
PROVIDER = (
    "cn", "ipaIdpClientId", "ipaIdpClientSecret", "ipaIdpIssuerURL", "ipaIdpScope", "ipaIdpSub", "ipaIdpAuthEndpoint",
    "ipaIdpTokenEndpoint", "ipaIdpUserInfoEndpoint", "ipaIdpKeysEndpoint", "ipaIdpDevAuthEndpoint",
)  # fmt: skip
TYPES = frozenset({"password", "radius", "otp", "pkinit", "hardened", "idp", "passkey"})
NO_LETTERS = re.compile(r"[^a-z0-9]+")
LOCAL = re.compile(r"http://localhost(?=[:/]|$)")
PROVIDERS = 200
"""Identity providers that are read at most."""


class FreeIpa(Schema):
    """People under cn=users,cn=accounts; memberOf names indirect groups too. Staged and preserved users are elsewhere and not found."""

    name: ClassVar[str] = "freeipa"
    state: ClassVar[tuple[str, ...]] = ("krbPasswordExpiration", "krbLastPwdChange")

    def __init__(self, base_dn: str, realm: str) -> None:
        super().__init__(base_dn, realm)
        self._accounts = f"cn=accounts,{base_dn}"
        self._users = f"cn=users,{self._accounts}"
        self._groups = f"cn=groups,{self._accounts}"
        self._computers = f"cn=computers,{self._accounts}"
        self._hostgroups = f"cn=hostgroups,{self._accounts}"

    def user(self, name: str) -> Query:
        alias = equals("krbPrincipalName", f"{name}@{self.realm}")
        return Query(base=self._users, filter=f"(&(objectClass=posixAccount)(|{equals('uid', name)}{alias}))", attributes=USER, limit=ONE)

    def users(self, prefix: str) -> Query:
        return Query(base=self._users, filter=f"(&(objectClass=posixAccount){begins('uid', prefix)})", attributes=("uid",))

    def anybody(self, limit: int) -> Query:
        return Query(base=self._users, filter="(objectClass=posixAccount)", attributes=USER, limit=limit)

    def people(self, names: Sequence[str]) -> Query:
        anyone = "".join(equals("uid", name) for name in names)
        attributes = tuple(name for name in USER if name != "memberOf")
        return Query(base=self._users, filter=f"(&(objectClass=posixAccount)(|{anyone}))", attributes=attributes, limit=len(names))

    def aliases(self, entry: Entry) -> Sequence[str]:
        ours = f"@{self.realm}"
        return [name.removesuffix(ours) for name in entry.texts("krbPrincipalName") if name.endswith(ours)]

    def principal_of(self, entry: Entry) -> str:
        """A name of another realm would let the KDC there say whose password is right."""
        names = (*entry.texts("krbCanonicalName"), *entry.texts("krbPrincipalName"))
        ours = (name for name in names if (known := principals.principal_of(name)) is not None and known.realm == self.realm)
        return next(ours, None) or super().principal_of(entry)

    def username(self, entry: Entry) -> str | None:
        return entry.text("uid")

    def read_user(self, entry: Entry, facts: Facts) -> User:
        types = self._types(entry, facts)
        link = entry.text("ipaIdpConfigLink")
        upstream = (facts.upstreams or {}).get(folded(link)) if link and "idp" in types else None
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
            authentication_types=types,
            upstream=upstream,
            password_changed_at=moment(entry.text("krbLastPwdChange")),
            state=AccountState(
                disabled=(entry.text("nsAccountLock") or "").upper() == "TRUE",
                expired=_past(entry.text("krbPrincipalExpiration"), facts.now),
                password_expired=_past(entry.text("krbPasswordExpiration"), facts.now),
            ),
        )

    def group(self, name: str, *, members: bool) -> Query:  # noqa: ARG002  # they are found by memberOf, whole
        return Query(base=self._groups, filter=f"(&(objectClass=ipaUserGroup){equals('cn', name)})", attributes=GROUP, limit=ONE)

    def groups(self, prefix: str) -> Query:
        return Query(base=self._groups, filter=f"(&(objectClass=ipaUserGroup){begins('cn', prefix)})", attributes=("cn",))

    def groups_named(self, names: Sequence[str]) -> Query:
        any_ = "".join(equals("cn", name) for name in names)
        return Query(base=self._groups, filter=f"(&(objectClass=ipaUserGroup)(|{any_}))", attributes=GROUP, limit=len(names))

    def group_name(self, entry: Entry) -> str | None:
        return entry.text("cn")

    def members(self, group: Entry) -> Query:
        return Query(base=self._users, filter=f"(&(objectClass=posixAccount){equals('memberOf', group.dn)})", attributes=("uid",))

    def own_groups(self, entry: Entry) -> tuple[str, ...]:
        return tuple(sorted(name for dn in entry.texts("memberOf") if (name := child_of(dn, self._groups))))

    def host(self, hostname: str) -> Query:
        name = hostname.lower().rstrip(".")
        full = name if "." in name else f"{name}.{self.realm.lower()}"
        filter_ = f"(&(objectClass=ipaHost){equals('fqdn', full)})"
        return Query(base=self._computers, filter=filter_, attributes=("fqdn", "memberOf"), limit=ONE)

    def read_hostgroups(self, entry: Entry) -> frozenset[str]:
        return frozenset(name for dn in entry.texts("memberOf") if (name := child_of(dn, self._hostgroups)))

    def hostgroups(self, prefix: str) -> Query:
        return Query(base=self._hostgroups, filter=f"(&(objectClass=ipaHostGroup){begins('cn', prefix)})", attributes=("cn",))

    def hostgroup_name(self, entry: Entry) -> str | None:
        return entry.text("cn")

    def principal(self, principal: str) -> Query:
        kinds = "(|(objectClass=ipaHost)(objectClass=ipaService))"
        filter_ = f"(&{kinds}{equals('krbPrincipalName', principal)})"
        return Query(base=self._accounts, filter=filter_, attributes=("krbPrincipalName",), limit=ONE)

    def managed_by(self, dn: str) -> Query:
        filter_ = f"(&(|(objectClass=ipaHost)(objectClass=ipaService)){equals('managedBy', dn)})"
        return Query(base=self._accounts, filter=filter_, attributes=("fqdn", "krbPrincipalName"))

    def read_hosts(self, entry: Entry) -> frozenset[str]:
        """A host by its name, a service by the hosts of all its names."""
        if names := entry.texts("fqdn"):
            return frozenset(name.lower() for name in names)
        hosts = (host for name in entry.texts("krbPrincipalName") if (host := self._host_of(name)) is not None)
        return frozenset(hosts)

    def defaults(self) -> Query:
        return Query(base=f"cn=ipaConfig,cn=etc,{self.base_dn}", attributes=("ipaUserAuthType",), scope=Scope.BASE, limit=1)

    def read_defaults(self, entry: Entry | None) -> tuple[tuple[str, ...], bool]:
        """As FreeIPA itself decides: with ``disabled`` in the configuration of all, nobody's own types count."""
        given = [] if entry is None else [kind.lower() for kind in entry.texts("ipaUserAuthType")]
        return _known(given) or ("password",), "disabled" in given

    def linked(self, provider: str, value: str) -> Query:
        filter_ = f"(&(objectClass=posixAccount){equals('ipaIdpConfigLink', provider)}{equals('ipaIdpSub', value)})"
        return Query(base=self._users, filter=filter_, attributes=("uid", "ipaIdpSub"), limit=ONE)

    def read_linked(self, entry: Entry) -> tuple[str, ...]:
        return entry.texts("ipaIdpSub")

    def providers(self) -> Query:
        return Query(base=f"cn=idp,{self.base_dn}", filter="(objectClass=ipaIdP)", attributes=PROVIDER, limit=PROVIDERS)

    def read_providers(self, entries: Sequence[Entry]) -> Sequence[Provider]:
        """Names that differ in no letter and digit get numbers, in the order of their DNs."""
        found: dict[str, Provider] = {}
        for entry in sorted(entries, key=lambda entry: folded(entry.dn)):
            name, client_id = entry.text("cn"), entry.text("ipaIdpClientId")
            if not name or not client_id:
                continue
            slug = f"ipa-{NO_LETTERS.sub('-', name.lower()).strip('-') or 'provider'}"
            number = 2
            id = slug
            while id in found:
                id, number = f"{slug}-{number}", number + 1
            found[id] = Provider(
                id=id,
                dn=folded(entry.dn),
                display_name=name,
                client_id=client_id,
                client_secret=Secret(secret) if (secret := entry.text("ipaIdpClientSecret")) else None,
                issuer=_url(entry.text("ipaIdpIssuerURL")),
                scopes=tuple((entry.text("ipaIdpScope") or "").split()),
                subject_claim=entry.text("ipaIdpSub") or "sub",
                authorization_endpoint=_url(entry.text("ipaIdpAuthEndpoint")),
                token_endpoint=_url(entry.text("ipaIdpTokenEndpoint")),
                userinfo_endpoint=_url(entry.text("ipaIdpUserInfoEndpoint")),
                jwks_uri=_url(entry.text("ipaIdpKeysEndpoint")),
                device_endpoint=_url(entry.text("ipaIdpDevAuthEndpoint")),
            )
        return tuple(found.values())

    def refused_as(self, code: int, message: str, policy: int | None) -> str | None:  # noqa: ARG002  # the contract's parameter
        """389-ds answers unwillingToPerform for an account that was switched off, right password or not."""
        return "disabled" if code == UNWILLING and "inactivated" in message.lower() else None

    def _types(self, entry: Entry, facts: Facts) -> tuple[str, ...]:
        own = () if facts.types_fixed else _known([kind.lower() for kind in entry.texts("ipaUserAuthType")])
        return own or facts.default_types or ()

    def _host_of(self, principal: str) -> str | None:
        try:
            found = principals.parse(principal)
        except ValueError:
            return None
        return found.host if found.realm == self.realm else None


def _known(kinds: Sequence[str]) -> tuple[str, ...]:
    return tuple(kind for kind in dict.fromkeys(kinds) if kind in TYPES)


def _past(text: str | None, now: int) -> bool:
    at = moment(text)
    return at is not None and at <= now


def _url(text: str | None) -> str | None:
    """FreeIPA's tools take a bare host for one with https; http is for a trial on this machine alone."""
    if not text:
        return None
    return text if text.startswith("https://") or LOCAL.match(text) else None if "://" in text else f"https://{text}"
