"""The fields of a client as the admin API takes them, and how they merge with a stored record (document, "Client registration")."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.declarations import Secret

DEFAULT_METHOD = "private_key_jwt"  # ruling R38
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
    default_max_age: int | UnsetType | None = UNSET
    require_auth_time: Switch = UNSET
    require_pushed_authorization_requests: Switch = UNSET
    dpop_bound_access_tokens: Switch = UNSET
    tls_client_certificate_bound_access_tokens: Switch = UNSET
    id_token_signed_response_alg: SignatureAlg = UNSET
    userinfo_signed_response_alg: SignatureAlg = UNSET
    authorization_signed_response_alg: SignatureAlg = UNSET
    request_object_signing_alg: Text = UNSET
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
    profile: Literal["default", "fapi2"] | UnsetType | None = UNSET


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


FEATURE_FIELDS: Mapping[str, object] = {
    "dpop_bound_access_tokens": False,  # RFC 9449 s5.2
    "tls_client_certificate_bound_access_tokens": False,  # RFC 8705 s3.4
    "profile": "default",  # FAPI 2.0 Security Profile
    "authorization_signed_response_alg": None,  # JARM
    "request_object_signing_alg": None,  # RFC 9101
    "frontchannel_logout_uri": None,  # OpenID Connect Front-Channel Logout
    "frontchannel_logout_session_required": False,
}
"""Fields that ask for a feature of another plugin, each with the value that asks for nothing (:class:`greatseal.api.clients.ClientField`).

``default_acr_values`` is none of them: it is a wish, and every sign-in gives the best acr that it can (OpenID Connect Core s3.1.2.1).
"""

BINDING_FIELDS = frozenset({"dpop_bound_access_tokens", "tls_client_certificate_bound_access_tokens", "profile"})
"""Those of a client that must get no unbound token."""


def unprovided(client: Client, provided: Collection[str]) -> frozenset[str]:
    """The feature fields that a client asks for and that are not among ``provided``."""
    asked = client.more.keys() & FEATURE_FIELDS.keys()
    return frozenset(name for name in asked if name not in provided and client.more[name] not in (None, FEATURE_FIELDS[name]))


def unknown_features(provided: Collection[str]) -> list[str]:
    """What is wrong with the fields that plugins say they provide."""
    expected = ", ".join(FEATURE_FIELDS)
    wrong = sorted(set(provided) - FEATURE_FIELDS.keys())
    return [f"client_fields: {name!r} is no field that waits for a plugin; expected one of {expected}" for name in wrong]


def read_fields(body: Mapping[str, Any]) -> ClientFields:
    """The fields of a decoded JSON body. Raises InvalidClientMetadata that names the field with a wrong type."""
    try:
        return msgspec.convert(body, ClientFields)
    except msgspec.ValidationError as error:
        raise InvalidClientMetadata(_readable(error)) from None


def require_settable(body: Mapping[str, Any], shown: Collection[str]) -> None:
    """Raise InvalidClientMetadata for members that :func:`read_fields` ignores, each with the nearest right one.

    ``shown`` are the members of a client in an answer.
    """
    known = ClientFields.__struct_fields__
    fields: dict[str, str] = {}
    for name in body.keys() - set(known):
        close = difflib.get_close_matches(name, known, n=1)
        cure = f"did you mean {close[0]!r}?" if close else "GET of a client shows all fields"
        fields[name] = "this field cannot be set" if name in shown else f"no client has this field; {cure}"
    if fields:
        raise InvalidClientMetadata("there are members that cannot be set, see fields", members={"fields": dict(sorted(fields.items()))})


def check_more(more: Mapping[str, Any]) -> None:
    """Raise InvalidClientMetadata for a member of ``Client.more`` that is unknown or of a wrong type."""
    if unknown := more.keys() - MORE:
        raise InvalidClientMetadata(f"{min(unknown)}: this member is not kept")
    try:
        msgspec.convert(more, MoreFields)
    except msgspec.ValidationError as error:
        raise InvalidClientMetadata(_readable(error)) from None


def registration(fields: ClientFields, before: Client | None = None) -> Registration:
    """The whole record that would be stored, with what only this request carries."""
    record = before or Client(client_id="", token_endpoint_auth_method=DEFAULT_METHOD)
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
    changes["more"] = _merged(record.more, fields)
    return Registration(
        client=msgspec.structs.replace(record, **changes),
        open=False,
        client_secret=Secret(fields.client_secret) if isinstance(fields.client_secret, str) else None,
        tls_client_certificate=fields.tls_client_certificate if isinstance(fields.tls_client_certificate, str) else None,
    )


def _merged(more: Mapping[str, Any], fields: ClientFields) -> dict[str, Any]:
    given = {name: value for name in MoreFields.__struct_fields__ if (value := getattr(fields, name)) is not UNSET}
    return {name: value for name, value in {**more, **given}.items() if value is not None}


def _unique(name: str, values: list[str]) -> tuple[str, ...]:
    if len(values) > MANY:
        raise InvalidClientMetadata(f"{name}: at most {MANY}")
    return tuple(dict.fromkeys(values))


def _readable(error: msgspec.ValidationError) -> str:
    # "Expected `str`, got `int` - at `$.client_name`": types, and names of fields that are ours, unless a key of jwks is quoted.
    what, _, where = str(error).partition(" - at `$")
    field = where.rstrip("`").removeprefix(".").partition("[")[0].partition(".")[0]
    return f"{field}: {what.replace('`', '')}" if field in ClientFields.__struct_fields__ else "a member has a wrong type"
