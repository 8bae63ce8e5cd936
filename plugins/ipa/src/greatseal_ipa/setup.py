"""What a FreeIPA server must know of this service: looked at step by step, each with the command that makes it, and made on demand.

What is made are the entries that FreeIPA's own commands make (service.py, permission.py, privilege.py, role.py and idp.py in its
ipaserver/plugins).
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from greatseal_ipa.library import Change, Entry, Link, Outcome, Query, Scope
from greatseal_ipa.names import filter_value, folded, rdn_value

NAME = "Greatseal"
READ_LINKS = "Greatseal - Read IdP links"
READ_PROVIDERS = "System: Read External IdP server"
PROVIDER = "greatseal"
LINKS = ("ipaidpconfiglink", "ipaidpsub")
RIGHTS = ("compare", "read", "search")
USERS = "cn=users,cn=accounts"
SCOPE = "openid email"
ALREADY = (20, 68)
"""attributeOrValueExists and entryAlreadyExists: it is there, whoever made it."""
Values: TypeAlias = Mapping[str, Sequence[str]]
Make: TypeAlias = Callable[[], Sequence[Outcome]]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which service FreeIPA is to know. ``client_id`` is the client here that FreeIPA is to use, None while there is none."""

    base_url: str
    host: str
    realm: str
    suffix: str
    keytab: Path | None
    has_keytab: bool
    client_id: str | None = None

    @property
    def principal(self) -> str:
        """The name that browsers ask a ticket for."""
        return f"HTTP/{self.host}@{self.realm}"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that must be there. ``commands`` make it by hand; ``make`` makes it over LDAP, and ``run`` by a program of this machine.

    With neither it is for the administrator alone, and ``why`` says so.
    """

    name: str
    there: bool
    commands: tuple[str, ...]
    make: Make | None = None
    run: tuple[str, ...] = ()
    why: str = ""


class Setup:
    """The steps in the order in which they can be made."""

    def __init__(self, wanted: Wanted, link: Link) -> None:
        self._wanted = wanted
        self._link = link
        self._host = self._dn(f"fqdn={rdn_value(wanted.host)},cn=computers,cn=accounts")
        self._service = self._dn(f"krbprincipalname={rdn_value(wanted.principal)},cn=services,cn=accounts")
        self._role = self._dn(f"cn={NAME},cn=roles,cn=accounts")
        self._privilege = self._dn(f"cn={NAME},cn=privileges,cn=pbac")
        self._links = self._dn(f"cn={READ_LINKS},cn=permissions,cn=pbac")
        self._providers = self._dn(f"cn={READ_PROVIDERS},cn=permissions,cn=pbac")
        self._provider = self._dn(f"cn={PROVIDER},cn=idp")

    def steps(self) -> Iterator[Step]:
        """Each step as it stands when it is asked for. Raises Down, Refused and Unusable."""
        yield self._of_host()
        yield self._of_service()
        yield self._of_keytab()
        yield self._of_permission()
        yield self._of_group("privilege", self._privilege)
        yield self._of_group("role", self._role)
        yield self._of_member(
            "the privilege has the permission to read to which provider a person is linked",
            self._links,
            self._privilege,
            f"ipa privilege-add-permission {NAME} --permissions={shlex.quote(READ_LINKS)}",
        )
        yield self._of_member(
            "the privilege has the permission to read the providers of FreeIPA",
            self._providers,
            self._privilege,
            f"ipa privilege-add-permission {NAME} --permissions={shlex.quote(READ_PROVIDERS)}",
        )
        yield self._of_member(
            "the role has the privilege", self._privilege, self._role, f"ipa role-add-privilege {NAME} --privileges={NAME}"
        )
        yield self._of_member(
            "the service has the role",
            self._role,
            self._service,
            f"ipa role-add-member {NAME} --services=HTTP/{self._wanted.host}",
        )
        yield self._of_provider()

    # ---- what each looks at

    def _of_host(self) -> Step:
        return Step(
            name=f"the host {self._wanted.host}",
            there=self._entry(self._host) is not None,
            commands=(f"ipa-client-install --hostname={self._wanted.host}",),
            why="enrol the machine, or add the host with ipa host-add",
        )

    def _of_service(self) -> Step:
        wanted = self._wanted
        values = {
            "objectClass": ("krbprincipal", "krbprincipalaux", "krbticketpolicyaux", "ipaobject", "ipaservice", "pkiuser", "top"),
            "krbPrincipalName": (wanted.principal,),
            "krbCanonicalName": (wanted.principal,),
            "ipaUniqueID": ("autogenerate",),
            "managedBy": (self._host,),
        }
        found = self._find(f"(krbPrincipalName={filter_value(wanted.principal)})", self._dn("cn=services,cn=accounts"))
        return Step(
            name=f"the service HTTP/{wanted.host}",
            there=bool(found),
            commands=(f"ipa service-add HTTP/{wanted.host}",),
            make=lambda: [self._link.add(self._service, values)],
        )

    def _of_keytab(self) -> Step:
        wanted = self._wanted
        if wanted.keytab is None:
            return Step(name="the keytab", there=wanted.has_keytab, commands=(), why="write [gssapi] keytab_file into the configuration")
        command = ("ipa-getkeytab", "-p", f"HTTP/{wanted.host}", "-k", str(wanted.keytab))
        return Step(name=f"the keytab {wanted.keytab}", there=wanted.has_keytab, commands=(shlex.join(command),), run=command)

    def _of_permission(self) -> Step:
        location = self._dn(USERS)
        values = {
            "objectClass": ("top", "groupofnames", "ipapermission", "ipapermissionv2"),
            "cn": (READ_LINKS,),
            "ipaPermBindRuleType": ("permission",),
            "ipaPermIncludedAttr": LINKS,
            "ipaPermLocation": (location,),
            "ipaPermRight": RIGHTS,
            "ipaPermTargetFilter": ("(objectclass=posixaccount)",),
            "ipaPermissionType": ("SYSTEM", "V2"),
        }
        aci = (
            f'(targetattr = "{" || ".join(LINKS)}")(targetfilter = "(objectclass=posixaccount)")'
            f'(version 3.0;acl "permission:{READ_LINKS}";allow ({",".join(RIGHTS)}) groupdn = "ldap:///{self._links}";)'
        )
        return Step(
            name="the permission to read to which provider a person is linked",
            there=self._entry(self._links) is not None,
            commands=(
                f"ipa permission-add {shlex.quote(READ_LINKS)} --type=user --right={{{','.join(RIGHTS)}}} --attrs={{{','.join(LINKS)}}}",
            ),
            # The rule first: without an entry it lets nobody read, and the entry alone would look finished.
            make=lambda: [self._link.modify(location, [Change("add", "aci", (aci,))]), self._link.add(self._links, values)],
        )

    def _of_group(self, kind: str, dn: str) -> Step:
        values = {"objectClass": ("top", "groupofnames", "nestedgroup"), "cn": (NAME,), "description": ("What Greatseal may read",)}
        return Step(
            name=f"the {kind} {NAME}",
            there=self._entry(dn) is not None,
            commands=(f"ipa {kind}-add {NAME} --desc='What Greatseal may read'",),
            make=lambda: [self._link.add(dn, values)],
        )

    def _of_member(self, name: str, group: str, member: str, command: str) -> Step:
        entry = self._entry(group, "member")
        there = entry is not None and folded(member) in {folded(one) for one in entry.texts("member")}
        return Step(
            name=name,
            there=there,
            commands=(command,),
            make=lambda: [self._link.modify(group, [Change("add", "member", (member,))])],
        )

    def _of_provider(self) -> Step:
        wanted, url = self._wanted, self._wanted.base_url
        where = {
            "ipaIdpAuthEndpoint": ("auth-uri", f"{url}/authorize"),
            "ipaIdpDevAuthEndpoint": ("dev-auth-uri", f"{url}/device_authorization"),
            "ipaIdpTokenEndpoint": ("token-uri", f"{url}/token"),
            "ipaIdpUserInfoEndpoint": ("userinfo-uri", f"{url}/userinfo"),
            "ipaIdpKeysEndpoint": ("keys-uri", f"{url}/jwks"),
            "ipaIdpIssuerURL": ("issuer-url", url),
            "ipaIdpClientId": ("client-id", wanted.client_id or "CLIENT_ID"),
            "ipaIdpScope": ("scope", SCOPE),
            "ipaIdpSub": ("idp-user-id", "sub"),
        }
        options = [f"--{option}={shlex.quote(value)}" for option, value in where.values()]
        made = self._find(f"(ipaIdpTokenEndpoint={filter_value(where['ipaIdpTokenEndpoint'][1])})", self._dn("cn=idp"))
        values = {"objectClass": ("ipaIdP",), "cn": (PROVIDER,), **{name: (value,) for name, (_, value) in where.items()}}
        return Step(
            name=f"this server as the identity provider {PROVIDER} of FreeIPA",
            there=bool(made),
            commands=(f"ipa idp-add {PROVIDER} {' '.join(options)}",),
            make=None if wanted.client_id is None else lambda: [self._link.add(self._provider, values)],
            why="register a public client for the device flow here, and say its id with --client-id" if wanted.client_id is None else "",
        )

    # ---- how

    def _dn(self, below: str) -> str:
        return f"{below},{self._wanted.suffix}"

    def _entry(self, dn: str, *attributes: str) -> Entry | None:
        query = Query(base=dn, attributes=("objectClass", *attributes), scope=Scope.BASE)
        return next(iter(self._link.search(query).entries), None)

    def _find(self, filter_: str, base: str) -> Sequence[Entry]:
        return self._link.search(Query(base=base, filter=filter_, attributes=("objectClass",), scope=Scope.ONE, limit=2)).entries
