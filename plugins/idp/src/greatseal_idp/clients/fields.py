"""The fields of a client as the admin API takes them, and how they merge with a stored record."""

import difflib
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import FieldInfo

from greatseal.api.authorization import Extension
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.declarations import Secret
from greatseal.api.tokens import TokenBinding, UnauthorizedClient
from greatseal.host import Host
from greatseal_idp.brought import IDP, Bringer, of_binding, of_extension, twice
from greatseal_idp.proofs import PROMISED

DEFAULT_METHOD = "private_key_jwt"
MANY = 1000

Text = str | UnsetType | None
Texts = list[str] | UnsetType | None
Switch = bool | UnsetType | None
SignatureAlg = Literal["ES256", "RS256"] | UnsetType | None


class MoreFields(msgspec.Struct, kw_only=True):
    """The members of RFC 7591, OpenID Connect Registration and its neighbours that have no column."""

    response_types: Texts = UNSET
    post_logout_redirect_uris: Texts = UNSET
    backchannel_logout_uri: Text = UNSET
    backchannel_logout_session_required: Switch = UNSET
    frontchannel_logout_uri: Text = UNSET
    frontchannel_logout_session_required: Switch = UNSET
    default_acr_values: Texts = UNSET
    required_acr_values: Texts = UNSET
    default_max_age: int | UnsetType | None = UNSET
    require_auth_time: Switch = UNSET
    require_pushed_authorization_requests: Switch = UNSET
    require_pkce: Switch = UNSET
    rotate_refresh_tokens: Switch = UNSET
    strict_assertion_audience: Switch = UNSET
    allowed_signing_algs: Texts = UNSET
    id_token_signed_response_alg: SignatureAlg = UNSET
    userinfo_signed_response_alg: SignatureAlg = UNSET
    introspection_signed_response_alg: SignatureAlg = UNSET
    token_endpoint_auth_signing_alg: Text = UNSET
    access_token_signed_response_alg: SignatureAlg = UNSET
    access_token_format: Literal["jwt", "opaque"] | UnsetType | None = UNSET
    id_token_include_scope_claims: Switch = UNSET
    resources: Texts = UNSET
    consent: Literal["explicit", "implicit"] | UnsetType | None = UNSET
    logo_uri: Text = UNSET
    client_uri: Text = UNSET
    policy_uri: Text = UNSET
    tos_uri: Text = UNSET
    contacts: Texts = UNSET
    software_id: Text = UNSET
    software_version: Text = UNSET


class ClientFields(MoreFields, kw_only=True):
    """A body of POST and PUT. A field that is left out keeps its value, null clears it, unknown ones are ignored (RFC 7591 s2)."""

    client_name: Text = UNSET
    token_endpoint_auth_method: Text = UNSET
    redirect_uris: Texts = UNSET
    scopes: Texts = UNSET
    grant_types: Texts = UNSET
    client_secret: Text = UNSET
    jwks_uri: Text = UNSET
    jwks: dict[str, Any] | UnsetType | None = UNSET
    tls_client_certificate: Text = UNSET
    kerberos_principal: Text = UNSET
    kerberos_principal_pattern: Text = UNSET
    kerberos_hbac_service: Text = UNSET
    spiffe_id: Text = UNSET
    workload_type: Text = UNSET
    allow_token_exchange_actor: Switch = UNSET


MORE = frozenset(MoreFields.__struct_fields__)
NULLABLE = (
    "jwks_uri", "jwks", "kerberos_principal", "kerberos_principal_pattern", "kerberos_hbac_service", "spiffe_id", "workload_type",
)  # fmt: skip
LISTS = ("redirect_uris", "scopes", "grant_types")
PROMISES = frozenset(
    {
        "authorization_encrypted_response_alg", "authorization_signed_response_alg", "dpop_bound_access_tokens",
        "id_token_encrypted_response_alg", "introspection_encrypted_response_alg", "profile", "request_object_signing_alg",
        "require_signed_request_object", "tls_client_certificate_bound_access_tokens", "userinfo_encrypted_response_alg",
    }
)  # fmt: skip
"""Members that promise something. Unknown ones are ignored (RFC 7591 s2), but these are refused while no plugin brings them."""
ASKS_FOR_NOTHING = (None, False, "default")
"""The values of a member that nobody brings which may be forgotten."""


ADMINISTERED = frozenset(
    {
        "allow_token_exchange_actor", "consent", "kerberos_hbac_service", "kerberos_principal", "kerberos_principal_pattern", "spiffe_id",
        "tls_client_certificate", "workload_type",
    }
)  # fmt: skip
"""Members that say whom a client is trusted to be, or that people are not asked: nobody gives them to themselves."""
OPEN_METHOD = "client_secret_basic"  # RFC 7591 s2


class Fields:
    """The members of clients: those above, and those that token bindings and extensions bring."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @cached_property
    def _brought(self) -> Mapping[str, FieldInfo]:
        """By name; complete from the lifespans on."""
        return {field.name: field for _, struct in brought_by(self._host) for field in msgspec.structs.fields(struct)}

    @cached_property
    def _struct(self) -> type[ClientFields]:
        """What a body is read into."""
        brought = [(name, field.type | UnsetType | None, UNSET) for name, field in self._brought.items()]
        if not brought:
            return ClientFields
        return cast("type[ClientFields]", msgspec.defstruct("ClientFields", brought, bases=(ClientFields,), kw_only=True))

    @cached_property
    def _more(self) -> frozenset[str]:
        """The names that ``Client.more`` may have."""
        return MORE.union(self._brought)

    def open_registration(self, body: Mapping[str, Any]) -> Registration:
        """What a client that registers itself asks for (RFC 7591 s2): ``scope`` is one text, and ``scopes`` is no member.

        Raises as :meth:`registration`, also for what only an administrator gives.
        """
        return msgspec.structs.replace(self.registration(_own(body)), open=True)

    def replacement(self, body: Mapping[str, Any], before: Client) -> Registration:
        """What a client asks for that replaces its registration (RFC 7592 s2.2): what is left out is cleared, but the secret.

        Raises as :meth:`open_registration`.
        """
        kept = ADMINISTERED | {"client_secret"}
        cleared = {name: None for name in self._struct.__struct_fields__ if name not in kept}
        return msgspec.structs.replace(self.registration({**cleared, **_own(body)}, before), open=True)

    def registration(self, body: Mapping[str, Any], before: Client | None = None) -> Registration:
        """The whole record that would be stored after a body of the admin API, with what only this request carries.

        Raises InvalidClientMetadata that names the field with a wrong type, or one that promises what nobody keeps.
        """
        for name in sorted(PROMISES.intersection(body) - self._more):
            if body[name] not in ASKS_FOR_NOTHING:
                raise _unprovided(name)
        fields = self._read(body)
        record = self.understood(before or Client(client_id="", token_endpoint_auth_method=DEFAULT_METHOD))
        cleared = {name for name in record.more.keys() - self._more if name in body}
        given = {name: value for name in self._more if (value := getattr(fields, name)) is not UNSET}
        merged = {name: value for name, value in {**record.more, **given}.items() if name not in cleared and self._asks(name, value)}
        return _registration(fields, record, merged)

    def check(self, more: Mapping[str, Any]) -> None:
        """Raise InvalidClientMetadata for a member of ``Client.more`` that is unknown or of a wrong type."""
        if unknown := more.keys() - self._more:
            raise _unprovided(min(unknown))
        self._read(more)

    def understood(self, client: Client) -> Client:
        """The client without the members that nobody here understands and that promise nothing."""
        unknown = client.more.keys() - self._more
        forgotten = {name for name in unknown if client.more[name] in ASKS_FOR_NOTHING or (not client.created_at and name not in PROMISES)}
        if not forgotten:
            return client
        return msgspec.structs.replace(client, more={name: value for name, value in client.more.items() if name not in forgotten})

    def require_provided(self, client: Client) -> None:
        """Raise UnauthorizedClient for a client that was stored with a member whose plugin is gone.

        Whatever it promised, tokens without it are not what was registered (RFC 9449 s5.2, RFC 8705 s3.4).
        """
        if not client.more.keys() <= self._more:
            raise UnauthorizedClient(f"{min(client.more.keys() - self._more)}: no enabled plugin provides this")

    def shown(self, client: Client) -> dict[str, Any]:
        """The members as answers have them: what is unset has its default, or is null."""
        defaults = {name: _default(field) for name, field in self._brought.items()}
        return {name: client.more.get(name, defaults.get(name)) for name in (*MoreFields.__struct_fields__, *self._brought)}

    def require_settable(self, body: Mapping[str, Any], shown: Collection[str]) -> None:
        """Raise InvalidClientMetadata for members that are ignored, each with the nearest right one.

        ``shown`` are the members of a client in an answer.
        """
        known = self._struct.__struct_fields__
        fields: dict[str, str] = {}
        for name in body.keys() - set(known):
            close = difflib.get_close_matches(name, known, n=1)
            cure = f"did you mean {close[0]!r}?" if close else "GET of a client shows all fields"
            fields[name] = "this field cannot be set" if name in shown else f"no client has this field; {cure}"
        if fields:
            raise InvalidClientMetadata(
                "there are members that cannot be set, see fields", members={"fields": dict(sorted(fields.items()))}
            )

    def _asks(self, name: str, value: object) -> bool:
        """Whether a value is kept: a default of a plugin asks for nothing, also when the plugin is gone."""
        return value is not None and not (name in self._brought and value == _default(self._brought[name]))

    def _read(self, body: Mapping[str, Any]) -> ClientFields:
        try:
            return msgspec.convert(body, self._struct)
        except msgspec.ValidationError as error:
            raise InvalidClientMetadata(_readable(error, self._struct.__struct_fields__)) from None


def _default(field: FieldInfo) -> Any:
    """The value that asks for nothing; every member that is brought has one."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _own(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a client that registers itself as one of the admin API."""
    if given := sorted(name for name in ADMINISTERED.intersection(body) if body[name] not in ASKS_FOR_NOTHING):
        raise InvalidClientMetadata(f"{given[0]}: only an administrator sets this")
    scope = body.get("scope")
    if not isinstance(scope, str | None):
        raise InvalidClientMetadata("scope: expected scopes separated by spaces (RFC 7591 s2)")
    asked = {name: value for name, value in body.items() if name not in ADMINISTERED}
    asked["scopes"] = scope.split() if scope else []
    asked["token_endpoint_auth_method"] = body.get("token_endpoint_auth_method") or OPEN_METHOD
    return asked


def brought_by(host: Host) -> list[tuple[Bringer, type[msgspec.Struct]]]:
    """The Structs of members that token bindings and extensions bring, each with what brings it."""
    found = [(of_binding(host, name), one.fields) for name, one in host.components(TokenBinding).items()]
    found += [(of_extension(host, name), one.fields) for name, one in host.components(Extension).items()]
    return [(who, struct) for who, struct in found if struct is not None]


def problems(host: Host) -> list[str]:
    """What is wrong with the members that plugins bring, one line each."""
    owners = dict.fromkeys(ClientFields.__struct_fields__, IDP)
    wrong = []
    for who, struct in brought_by(host):
        for field in msgspec.structs.fields(struct):
            keeper = f"token binding {PROMISED.get(field.name)!r}"
            if field.required:
                wrong.append(f"{who}: the client member {field.name!r} has no default; give it the one that asks for nothing")
            elif field.name in PROMISED and who.component != keeper:
                wrong.append(f"{who}: the client member {field.name!r} is for the {keeper}, which keeps its promise; rename it")
            elif (first := owners.setdefault(field.name, who)) != who:
                wrong.append(twice(f"the client member {field.name!r}", first, who))
    return wrong


def _unprovided(name: str) -> InvalidClientMetadata:
    return InvalidClientMetadata(f"{name}: no enabled plugin provides this")


def _registration(fields: ClientFields, record: Client, more: Mapping[str, Any]) -> Registration:
    changes: dict[str, Any] = {name: value for name in NULLABLE if (value := getattr(fields, name)) is not UNSET}
    for name in LISTS:
        if (values := getattr(fields, name)) is not UNSET:
            changes[name] = _unique(name, values or [])
    if not isinstance(fields.client_name, UnsetType):
        changes["client_name"] = fields.client_name or ""
    if isinstance(fields.token_endpoint_auth_method, str):
        changes["token_endpoint_auth_method"] = fields.token_endpoint_auth_method
    if not isinstance(fields.allow_token_exchange_actor, UnsetType):
        changes["allow_token_exchange_actor"] = bool(fields.allow_token_exchange_actor)
    if fields.client_secret is None:
        changes["secret"] = None
    if fields.tls_client_certificate is None:
        changes["tls_client_certificate_sha256"] = None
    return Registration(
        client=msgspec.structs.replace(record, **changes, more=more),
        open=False,
        client_secret=Secret(fields.client_secret) if isinstance(fields.client_secret, str) else None,
        tls_client_certificate=fields.tls_client_certificate if isinstance(fields.tls_client_certificate, str) else None,
    )


def _unique(name: str, values: list[str]) -> tuple[str, ...]:
    if len(values) > MANY:
        raise InvalidClientMetadata(f"{name}: at most {MANY}")
    return tuple(dict.fromkeys(values))


def _readable(error: msgspec.ValidationError, known: Collection[str]) -> str:
    # "Expected `str`, got `int` - at `$.client_name`": types, and names of fields that are ours, unless a key of jwks is quoted.
    what, _, where = str(error).partition(" - at `$")
    field = where.rstrip("`").removeprefix(".").partition("[")[0].partition(".")[0]
    return f"{field}: {what.replace('`', '')}" if field in known else "a member has a wrong type"
