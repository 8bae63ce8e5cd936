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
READ_PROVIDERS = "System: Read External IdP server"
MANAGE_PASSKEYS = "System: Manage Passkey Mappings"
PROVIDER = "greatseal"
SCOPE = "openid email"
ALREADY = (20, 68)
"""attributeOrValueExists and entryAlreadyExists: it is there, whoever made it."""
Values: TypeAlias = Mapping[str, Sequence[str]]
Make: TypeAlias = Callable[[], Sequence[Outcome]]


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """A permission that FreeIPA has not by itself (permission.py). ``location`` is above what it is about, ``options`` say that to ipa."""

    name: str
    what: str
    location: str
    filter: str
    rights: tuple[str, ...]
    attributes: tuple[str, ...]
    options: str


READ_LINKS = Permission(
    name="Greatseal - Read IdP links",
    what="to read to which provider a person is linked",
    location="cn=users,cn=accounts",
    filter="(objectclass=posixaccount)",
    rights=("compare", "read", "search"),
    attributes=("ipaidpconfiglink", "ipaidpsub"),
    options="--type=user",
)
READ_TOKENS = Permission(
    name="Greatseal - Read OTP tokens",
    what="to read one-time code tokens with their keys",
    location="cn=otp",
    filter="(objectclass=ipatoken)",
    rights=("compare", "read", "search"),
    attributes=(
        "createtimestamp", "description", "ipatokendisabled", "ipatokenhotpcounter", "ipatokennotafter", "ipatokennotbefore",
        "ipatokenotpalgorithm", "ipatokenotpdigits", "ipatokenotpkey", "ipatokenowner", "ipatokentotpclockoffset", "ipatokentotptimestep",
        "ipatokentotpwatermark", "ipatokenuniqueid", "ipatokenvendor", "managedby", "objectclass",
    ),
    options="--subtree=cn=otp,{suffix} --filter='(objectclass=ipatoken)'",
)  # fmt: skip
CHANGE_TOKENS = Permission(
    name="Greatseal - Change OTP tokens",
    what="to make and delete tokens, and to note which codes were used",
    location="cn=otp",
    filter="(objectclass=ipatoken)",
    rights=("add", "delete", "write"),
    attributes=("ipatokendisabled", "ipatokenhotpcounter", "ipatokennotafter", "ipatokentotpwatermark"),
    options="--subtree=cn=otp,{suffix} --filter='(objectclass=ipatoken)'",
)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which service FreeIPA is to know. ``client_id`` is the client here that FreeIPA is to use, None while there is none.

    ``unusable`` says why no ticket can be accepted with the keytab as it is now, and nothing when one can.
    """

    base_url: str
    host: str
    realm: str
    suffix: str
    keytab: Path | None
    unusable: Callable[[], str]
    codes: bool = False
    """Whether people have one-time codes, so tokens under ``cn=otp``."""
    passkeys: bool = False
    client_id: str | None = None

    @property
    def principal(self) -> str:
        """The name that browsers ask a ticket for."""
        return f"HTTP/{self.host}@{self.realm}"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that must be there. ``commands`` make it by hand; ``make`` makes it over LDAP, and ``run`` by a program of this machine.

    With neither it is for the administrator alone, and ``why`` says so. ``wrong`` says what is still wrong after ``run``.
    """

    name: str
    there: bool
    commands: tuple[str, ...]
    make: Make | None = None
    run: tuple[str, ...] = ()
    wrong: Callable[[], str] | None = None
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
        self._provider = self._dn(f"cn={PROVIDER},cn=idp")

    def steps(self) -> Iterator[Step]:
        """Each step as it stands when it is asked for. Raises Down, Refused and Unusable."""
        yield self._of_host()
        yield self._of_service()
        yield self._of_keytab()
        own = (READ_LINKS, *([READ_TOKENS, CHANGE_TOKENS] if self._wanted.codes else []))
        for permission in own:
            yield self._of_permission(permission)
        yield self._of_group("privilege", self._privilege)
        yield self._of_group("role", self._role)
        given = [(one.name, one.what) for one in own]
        given.append((READ_PROVIDERS, "to read the providers of FreeIPA"))
        given += [(MANAGE_PASSKEYS, "to change the passkeys of people")] if self._wanted.passkeys else []
        for name, what in given:
            yield self._of_member(
                f"the privilege has the permission {what}",
                self._permission(name),
                self._privilege,
                f"ipa privilege-add-permission {NAME} --permissions={shlex.quote(name)}",
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
        return Step(
            name=f"the service HTTP/{wanted.host}",
            there=bool(self._services()),
            commands=(f"ipa service-add HTTP/{wanted.host}",),
            make=lambda: [self._link.add(self._service, values)],
        )

    def _of_keytab(self) -> Step:
        """A new key makes the one before worthless, so it is made only where no other can be in use."""
        wanted = self._wanted
        problem = wanted.unusable()
        if wanted.keytab is None:
            return Step(name="the keytab", there=not problem, commands=(), why="write [gssapi] keytab_file into the configuration")
        name = f"the keytab {wanted.keytab}"
        if not problem:
            return Step(name=name, there=True, commands=())
        if not _is_absent(wanted.keytab):
            why = f"{problem}. Mend that, as root or the user of the service: ipa-getkeytab would make the keys that are in use worthless"
            return Step(name=name, there=False, commands=(), why=why)
        command = ("ipa-getkeytab", "-p", f"HTTP/{wanted.host}", "-k", str(wanted.keytab))
        if since := self._keys_since():
            why = f"the service has keys since {since}: bring their keytab here. If nobody uses them: {shlex.join(command)}"
            return Step(name=name, there=False, commands=(), why=why)
        return Step(name=name, there=False, commands=(shlex.join(command),), run=command, wrong=wanted.unusable)

    def _keys_since(self) -> str:
        """When keys of the service were made, nothing while there are none."""
        found = self._services("krbLastPwdChange")
        return next((since for entry in found if (since := entry.text("krbLastPwdChange"))), "")

    def _of_permission(self, permission: Permission) -> Step:
        dn, location = self._permission(permission.name), self._dn(permission.location)
        values = {
            "objectClass": ("top", "groupofnames", "ipapermission", "ipapermissionv2"),
            "cn": (permission.name,),
            "ipaPermBindRuleType": ("permission",),
            "ipaPermIncludedAttr": permission.attributes,
            "ipaPermLocation": (location,),
            "ipaPermRight": permission.rights,
            "ipaPermTargetFilter": (permission.filter,),
            "ipaPermissionType": ("SYSTEM", "V2"),
        }
        aci = (
            f'(targetattr = "{" || ".join(permission.attributes)}")(targetfilter = "{permission.filter}")'
            f'(version 3.0;acl "permission:{permission.name}";allow ({",".join(permission.rights)}) groupdn = "ldap:///{dn}";)'
        )
        options = permission.options.format(suffix=self._wanted.suffix)
        lists = f"--right={{{','.join(permission.rights)}}} --attrs={{{','.join(permission.attributes)}}}"
        return Step(
            name=f"the permission {permission.what}",
            there=self._entry(dn) is not None,
            commands=(f"ipa permission-add {shlex.quote(permission.name)} {options} {lists}",),
            # The rule first: without an entry it lets nobody read, and the entry alone would look finished.
            make=lambda: [self._link.modify(location, [Change("add", "aci", (aci,))]), self._link.add(dn, values)],
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

    def _permission(self, name: str) -> str:
        return self._dn(f"cn={rdn_value(name)},cn=permissions,cn=pbac")

    def _dn(self, below: str) -> str:
        return f"{below},{self._wanted.suffix}"

    def _entry(self, dn: str, *attributes: str) -> Entry | None:
        query = Query(base=dn, attributes=("objectClass", *attributes), scope=Scope.BASE)
        return next(iter(self._link.search(query).entries), None)

    def _services(self, *attributes: str) -> Sequence[Entry]:
        wanted = f"(krbPrincipalName={filter_value(self._wanted.principal)})"
        return self._find(wanted, self._dn("cn=services,cn=accounts"), *attributes)

    def _find(self, filter_: str, base: str, *attributes: str) -> Sequence[Entry]:
        query = Query(base=base, filter=filter_, attributes=("objectClass", *attributes), scope=Scope.ONE, limit=2)
        return self._link.search(query).entries


def _is_absent(file: Path) -> bool:
    """Whether it is known not to be there: one in a folder that may not be searched is not."""
    try:
        file.lstat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False
