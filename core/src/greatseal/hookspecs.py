"""Every hook, in life-cycle order.

A hook is sync and called once for each kernel; it returns typed components, and a request never goes through pluggy.
An implementation takes any subset of the parameters. Returning an empty list is always right; raising stops the start and names the
distribution. Anybody may implement every hook.

A plugin class may carry ``requires`` and ``uses``: tuples of :class:`~greatseal.api.services.ServiceKey`. Hooks with ``host`` are
called in the topological order of ``requires``, after all settings were bound; ``host.service(KEY)`` works in them. With ``expects``, a
mapping of contracts to cures, a start without any component of one of them is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click

    from greatseal.api.acme import AccountBinding, ChallengeValidator
    from greatseal.api.authorization import Extension
    from greatseal.api.clients import ClientAuthMethod, ClientResolver
    from greatseal.api.components import Component
    from greatseal.api.declarations import (
        Check,
        EventType,
        Job,
        Lifespan,
        Owns,
        PermissionName,
        Reads,
        Schema,
        ScopeDefinition,
        Statistic,
        Welcome,
    )
    from greatseal.api.directory import Directory
    from greatseal.api.http import AuthScheme, ClientTrust, Discovery, Route
    from greatseal.api.identity import Authenticator, LoginOptions, PasswordChanger
    from greatseal.api.issuance import FinalizeCheck, IdentifierType, IssuanceObserver, Issuer, SanInjector
    from greatseal.api.keys import KeyStore
    from greatseal.api.languages import Catalogue
    from greatseal.api.log import LogBackend
    from greatseal.api.pages import StartPart
    from greatseal.api.services import ServiceKey
    from greatseal.api.tokens import ClaimsProvider, Grant, GrantCheck, TokenBinding
    from greatseal.api.workload import Selector
    from greatseal.host import Host

hookspec = pluggy.HookspecMarker("greatseal")

__all__ = [
    "account_bindings", "audit_events", "auth_schemes", "authenticators", "catalogues", "challenge_validators", "checks", "claims",
    "client_auth_methods", "client_resolvers", "client_trust", "commands", "components", "ctl", "directories", "discovery",
    "extensions", "finalize_checks", "grant_checks", "grants", "identifier_types", "issuance_observers", "issuers", "jobs",
    "key_stores", "lifespans", "log_backends", "login_options", "notes", "operations", "password_changers", "permissions", "routes",
    "san_injectors", "schemas", "scopes", "selectors", "services", "settings", "start_page", "statistics", "token_bindings", "verify",
    "welcome",
]  # fmt: skip


# ---- Before anything runs: declarations that need no host


@hookspec
def settings() -> "Sequence[Owns | Reads]":
    """The configuration keys that the plugin owns or reads. A key has one owner; readers agree with it in type and default."""


@hookspec
def schemas() -> "Sequence[Schema]":
    """The plugin's tables and migrations. Migrated or verified before the first lifespan opens."""


@hookspec
def permissions() -> "Sequence[PermissionName]":
    """Names that routes guard with :class:`~greatseal.api.http.Permission`. A route with an undeclared one stops the start."""


@hookspec
def audit_events() -> "Sequence[EventType]":
    """The audit event types that the plugin writes, for the reference and ``host.audit_events()``. Writing another fails in tests."""


@hookspec
def catalogues() -> "Sequence[Catalogue]":
    """Translations of what people read on pages and in mails: of the plugin's own messages, and perhaps of those of others."""


@hookspec
def commands() -> "Sequence[click.Command]":
    """Commands shown beside those of the kernel; :mod:`greatseal.command` makes those that work with the database of a service.

    Called without a configuration, for every installed plugin. Import them in the hook: a service has no use for them.
    """


@hookspec
def ctl() -> "Sequence[click.Command]":
    """Commands of ``greatseal ctl``, made with :mod:`greatseal.ctl.base`: the plugin's part of the admin API of a running service.

    Called without a configuration, for every installed plugin. Import them in the hook: a service has no use for them.
    """


# ---- Assembly: services first, then components


@hookspec
def services(host: "Host") -> "Mapping[ServiceKey[Any], Callable[[], object]]":
    """Services by key, with a factory that is called once. At most one provider for a key."""


@hookspec
def key_stores(host: "Host") -> "Sequence[KeyStore]":
    """Where private keys rest that are not sealed in the database, keyed by ``name``: settings name keys as ``<name>:...``.

    Read by the kernel, for key rings and for whoever asks ``host.keys.signer``.
    """


@hookspec
def auth_schemes(host: "Host") -> "Sequence[AuthScheme]":
    """Schemes, keyed by the rule class that they serve. One for each rule; a route whose rule has none stops the start."""


@hookspec
def authenticators(host: "Host") -> "Sequence[Authenticator[Any]]":
    """Who proves people by credentials, keyed by ``name`` and asked in the order of the configuration."""


@hookspec
def login_options(host: "Host") -> "Sequence[LoginOptions]":
    """Ways to sign in besides the password form, keyed by ``name``."""


@hookspec
def password_changers(host: "Host") -> "Sequence[PasswordChanger]":
    """Who changes passwords of people that prove the old one, keyed by ``name``."""


@hookspec
def directories(host: "Host") -> "Sequence[Directory]":
    """Sources of users and groups, keyed by ``name``: the STATIC tier is asked first, each in the order of the configuration."""


@hookspec
def claims(host: "Host") -> "Sequence[ClaimsProvider]":
    """Who knows claims of subjects, keyed by ``name``; for each claim the first that has a value decides."""


@hookspec
def client_auth_methods(host: "Host") -> "Sequence[ClientAuthMethod[Any]]":
    """Ways in which OAuth clients prove themselves, keyed by ``method``. A method that nobody provides is unknown."""


@hookspec
def client_resolvers(host: "Host") -> "Sequence[ClientResolver]":
    """Clients that are no row of the registry, keyed by ``name``."""


@hookspec
def token_bindings(host: "Host") -> "Sequence[TokenBinding]":
    """What access and refresh tokens can be bound to, keyed by ``confirmation``. Read by idp."""


@hookspec
def extensions(host: "Host") -> "Sequence[Extension[Any]]":
    """Extensions of authorization requests and of what they grant, keyed by ``name``. Read by idp."""


@hookspec
def grants(host: "Host") -> "Sequence[Grant[Any]]":
    """Grants of the token endpoint, keyed by ``grant_type``."""


@hookspec
def grant_checks(host: "Host") -> "Sequence[GrantCheck]":
    """Policy over who gets what, keyed by ``name`` and run in the order of the names."""


@hookspec
def scopes() -> "Sequence[ScopeDefinition]":
    """System scopes that the plugin brings: made at the first start, and not to be edited or deleted."""


@hookspec
def identifier_types(host: "Host") -> "Sequence[IdentifierType]":
    """Types of identifiers besides dns, ip and email, keyed by ``type``; read by acme for orders and by ca for requests and names."""


@hookspec
def challenge_validators(host: "Host") -> "Sequence[ChallengeValidator]":
    """ACME challenge types, keyed by ``type``. With the acme plugin there must be one at least."""


@hookspec
def account_bindings(host: "Host") -> "Sequence[AccountBinding]":
    """Members of newAccount that bind the account, keyed by ``member``."""


@hookspec
def finalize_checks(host: "Host") -> "Sequence[FinalizeCheck]":
    """Checks of a finalization, keyed by ``name``."""


@hookspec
def san_injectors(host: "Host") -> "Sequence[SanInjector]":
    """Contributors of names, keyed by ``name``."""


@hookspec
def issuers(host: "Host") -> "Sequence[Issuer]":
    """Issuers, keyed by ``issue_as``: exactly one for every value that a profile uses."""


@hookspec
def issuance_observers(host: "Host") -> "Sequence[IssuanceObserver]":
    """Observers, keyed by class name, told in that order."""


@hookspec
def selectors(host: "Host") -> "Sequence[Selector[Any]]":
    """Planned, for the feature spiffe: how workloads are recognised, keyed by ``type``, the word in a registration entry.

    Tests inherit :class:`greatseal.testing.selectors.SelectorContract`.
    """


@hookspec
def log_backends(host: "Host") -> "Sequence[LogBackend]":
    """Where transparency logs rest, keyed by ``name``: `[mtc] log_backend` chooses. Read by mtc.

    Tests inherit :class:`greatseal.testing.logs.LogBackendContract`.
    """


@hookspec
def components(host: "Host") -> "Sequence[Component]":
    """Components of contracts that are none of the kernel's, keyed by ``name``: see :mod:`greatseal.api.components`."""


@hookspec
def discovery(host: "Host") -> "Sequence[Discovery]":
    """Members of discovery documents and of the ACME directory. Two owners of one member stop the start."""


@hookspec
def statistics(host: "Host") -> "Sequence[Statistic]":
    """What overviews count, keyed by ``name``. Read by ca-admin."""


@hookspec
def client_trust(host: "Host") -> "Sequence[ClientTrust]":
    """Whose certificates the clients of a listener may show, keyed by ``name``; without any, no listener asks. Read by the kernel."""


@hookspec
def routes(host: "Host") -> "Sequence[Route]":
    """Routes. Two owners of one method and path stop the start."""


@hookspec
def verify(host: "Host") -> "Sequence[str]":
    """What is wrong with the whole assembly, one line each with its cure. Called last: every registry is complete.

    It looks at the files that settings name and makes none (:func:`greatseal.api.folders.folder_problem`); what a lifespan would refuse
    belongs here too, so that check-config tells it. Where a setting was wrong it has its default: a line that names such a key as
    ``[section] key`` is not told.
    """


@hookspec
def notes(host: "Host") -> "Sequence[str]":
    """What operators should know of the whole assembly although nothing is wrong, one line each: check-config and doctor print it.

    Called last: it has the settings and complete registries to go by, for nothing runs yet.
    """


# ---- Running


@hookspec
def lifespans(host: "Host") -> "Sequence[Lifespan]":
    """Resources, opened after the schema is right and before the listeners, closed in reverse after them."""


@hookspec
def operations(host: "Host") -> "Sequence[Callable[..., Any]]":
    """Planned, for the feature cluster-nats: functions marked with :func:`greatseal.api.store.operation`, which other nodes may ask for.

    Two of one name stop the start.
    """


@hookspec
def jobs(host: "Host") -> "Sequence[Job]":
    """Repeated work, started when the service is ready. A failure is logged and the next run comes in its time."""


@hookspec
def checks(host: "Host") -> "Sequence[Check]":
    """Lines of /readyz and doctor."""


@hookspec
def start_page(host: "Host") -> "Sequence[StartPart]":
    """Parts of the page at ``/``, for whoever opens the address of the service in a browser; in the order of the enabled plugins."""


@hookspec
def welcome(host: "Host") -> "Sequence[Welcome]":
    """What a person at a terminal should do next, printed when the service is ready."""
