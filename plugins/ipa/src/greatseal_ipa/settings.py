"""The configuration keys of [ipa], but for those of Kerberos."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from greatseal.api.declarations import Secret

Seconds = Annotated[float, msgspec.Meta(gt=0, le=60)]


class IpaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[ipa]: the directory."""

    ldap_uri: str | tuple[str, ...] = ()
    """`ldap://`, `ldaps://` or `ldapi://`, one or several in the order of preference; none: the SRV records `_ldap._tcp` of the realm."""
    base_dn: str | None = None
    """The entry above all others; left out, `dc=example,dc=com` for the realm EXAMPLE.COM."""
    schema: Literal["freeipa", "openldap", "active-directory"] = "freeipa"
    """Where the directory has what: FreeIPA's own, inetOrgPerson with groups of names or of RFC 2307, or that of Active Directory."""
    ca_cert_file: Path | None = None
    """PEM of the authorities that the server's certificate may come from; left out, those of the system."""
    start_tls: bool = True
    """Whether `ldap://` begins with StartTLS; false is for servers of this machine alone."""
    bind_dn: str | None = None
    """The entry that reads the directory; left out, the Kerberos name of the service, by its keytab."""
    bind_password: Secret | None = None
    """Its password."""
    password: Literal["bind", "kinit", "off"] = "bind"  # noqa: S105  # how, not what
    """Who checks the passwords of people: the directory, the KDC, or nobody."""
    connect_timeout_secs: Seconds = 2.0
    """Seconds for a connection to a server."""
    timeout_secs: Seconds = 4.0
    """Seconds for an answer of a server."""
    connections: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    """Connections that wait for the next question, at most."""
    cache_secs: Annotated[float, msgspec.Meta(ge=0, le=300)] = 5.0
    """Seconds that an answer of the directory is used again: a locked account gets no token after that."""
    idp_refresh_secs: Annotated[int, msgspec.Meta(ge=10, le=86_400)] = 300
    """Seconds after which the identity providers of the directory are read again."""
    hbac: bool = False
    """Whether the feature hbac reads FreeIPA's access rules, under cn=hbac, beside its own."""


class KerberosSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """[ipa]: what the switch of Kerberos turns on besides."""

    gssapi: bool = False
    """Whether the identity providers of the directory are read, for people who sign in there."""


class Keytab(msgspec.Struct, frozen=True, kw_only=True):
    """[gssapi]: what the plugin reads of it."""

    keytab_file: Path | None = None
    """The keys of the service, as the KDC exported them."""
