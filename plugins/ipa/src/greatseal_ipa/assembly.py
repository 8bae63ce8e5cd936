"""The parts of the plugin, put together by its settings, and what is wrong with these."""

from collections.abc import Iterator, Sequence

from greatseal.api.declarations import Secret
from greatseal.api.kerberos import Tickets
from greatseal.api.problems import Unavailable
from greatseal.api.services import RESOLVER, TICKETS
from greatseal.host import Host
from greatseal_ipa.active_directory import ActiveDirectory
from greatseal_ipa.bind_with_code import BindWithCode
from greatseal_ipa.freeipa import FreeIpa
from greatseal_ipa.ldap3_link import Ldap3
from greatseal_ipa.library import Link, NoTicket, Outcome, Server, Terms
from greatseal_ipa.names import parse, rdn_value
from greatseal_ipa.openldap import OpenLdap
from greatseal_ipa.passkeys import IpaPasskeys
from greatseal_ipa.pool import Pool
from greatseal_ipa.reader import Reader
from greatseal_ipa.schema import Schema
from greatseal_ipa.servers import Servers, is_of_this_machine, server_of
from greatseal_ipa.settings import IpaSettings
from greatseal_ipa.tokens import IpaTokens
from greatseal_ipa.upstreams import Upstreams

SCHEMAS: dict[str, type[Schema]] = {schema.name: schema for schema in (FreeIpa, OpenLdap, ActiveDirectory)}


class Assembly:
    """Made once, where `[ipa]` is there."""

    def __init__(self, host: Host) -> None:
        settings = host.settings(IpaSettings)
        schema = SCHEMAS[settings.schema](base_of(settings, host.realm), host.realm)
        terms = Terms(
            connect_seconds=settings.connect_timeout_secs,
            seconds=settings.timeout_secs,
            start_tls=settings.start_tls,
            ca_cert_file=settings.ca_cert_file,
        )
        # What is wrong with an address is told by verify, which is asked later.
        configured = [server_of(uri) for uri in uris_of(settings) if not _wrong(uri)]
        servers = Servers(configured, host.realm, host.optional_service(RESOLVER), host.log)
        self.settings = settings
        self.pool = Pool(
            Ldap3(), servers, terms, bind=bound(settings, host.optional_service(TICKETS)), blocking=host.blocking, size=settings.connections
        )
        self.reader = Reader(self.pool, schema, host.clock, host.log, seconds=settings.cache_secs)
        self.upstreams = Upstreams(self.reader, host.log)
        self.together: BindWithCode | None = None
        self.tokens: IpaTokens | None = None
        self.passkeys: IpaPasskeys | None = None
        if settings.schema == FreeIpa.name:
            self.together = BindWithCode(self.reader, host.clock) if settings.password != "off" else None  # noqa: S105  # how, not what
            self.tokens = IpaTokens(host, self.reader, self.together)
            self.passkeys = IpaPasskeys(self.reader, host.db, host.log)


def is_configured(host: Host) -> bool:
    """Whether `[ipa]` has a key of the directory: the switch of Kerberos alone names none."""
    return host.settings(IpaSettings) != IpaSettings()


class Binding:
    """How the service says who it is: by an entry with a password, else by its Kerberos name."""

    def __init__(self, dn: str, password: Secret | None, tickets: Tickets | None) -> None:
        self._dn = dn
        self._password = password
        self._tickets = tickets

    def __call__(self, link: Link) -> Outcome:
        """Raises NoTicket: the directory cannot be asked then, and the server is not to blame."""
        if self._dn and self._password is not None:
            return link.bind(self._dn, self._password.value)
        if self._tickets is None:
            raise NoTicket("the service has neither [ipa] bind_dn nor a keytab: set [ipa] bind_dn, or [gssapi] keytab_file")
        try:
            return link.bind_gssapi(self._tickets.credentials)
        except Unavailable as problem:
            raise NoTicket(f"no Kerberos ticket of the service itself: {problem.cause or problem.detail}") from problem


def bound(settings: IpaSettings, tickets: Tickets | None) -> Binding:
    """As the settings say."""
    return Binding(settings.bind_dn or "", settings.bind_password, tickets)


def uris_of(settings: IpaSettings) -> tuple[str, ...]:
    """The configured servers."""
    return (settings.ldap_uri,) if isinstance(settings.ldap_uri, str) else settings.ldap_uri


def base_of(settings: IpaSettings, realm: str) -> str:
    """The configured base, else the realm's."""
    return settings.base_dn or ",".join(f"dc={rdn_value(label)}" for label in realm.lower().split("."))


def problems(host: Host) -> Sequence[str]:
    """What is wrong with `[ipa]`, one line each."""
    return list(_problems(host, host.settings(IpaSettings)))


def _problems(host: Host, settings: IpaSettings) -> Iterator[str]:
    uris = uris_of(settings)
    for uri in uris:
        if wrong := _wrong(uri):
            yield f"[ipa] ldap_uri: {wrong}"
        elif not settings.start_tls and _in_clear(server_of(uri)):
            yield f"[ipa] start_tls = false: {uri} is not of this machine, and its answers could be read and replaced on the way"
    if not uris and host.optional_service(RESOLVER) is None:
        yield "[ipa] ldap_uri is missing: name the servers, or enable the feature resolver, which finds them in DNS"
    try:
        parse(base_of(settings, host.realm))
    except ValueError as error:
        yield f"[ipa] base_dn: {error}"
    if settings.ca_cert_file is not None and not settings.ca_cert_file.is_file():
        yield f"[ipa] ca_cert_file: {settings.ca_cert_file} is not there"
    if settings.hbac and settings.schema != FreeIpa.name:
        yield f"[ipa] hbac = true reads rules of FreeIPA, and schema is {settings.schema}: leave hbac out"
    yield from _identity_problems(settings, tickets=host.optional_service(TICKETS) is not None)


def _identity_problems(settings: IpaSettings, *, tickets: bool) -> Iterator[str]:
    """Of how the service and its people prove themselves."""
    if settings.bind_dn is not None and settings.bind_password is None:
        yield "[ipa] bind_dn is there, and bind_password is missing"
    if settings.bind_dn is None and not tickets:
        yield "[ipa] bind_dn is missing: name an entry that reads the directory, or enable the feature gssapi, whose keytab does"
    if settings.password == "kinit" and not tickets:  # noqa: S105  # how, not what
        yield '[ipa] password = "kinit" needs the feature gssapi, which asks the KDC'


def _in_clear(server: Server) -> bool:
    return server.scheme == "ldap" and not is_of_this_machine(server)


def _wrong(uri: str) -> str:
    try:
        server_of(uri)
    except ValueError as error:
        return str(error)
    return ""
