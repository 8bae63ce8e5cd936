"""The rules of a registration. PUT is checked as POST: the whole record."""

import re
from collections.abc import Container, Mapping, Sequence

import msgspec

from greatseal.api.clients import (
    Client,
    ClientAuthMethod,
    InvalidClientMetadata,
    InvalidRedirectUri,
    Registration,
    StoredSecret,
)
from greatseal.api.tokens import Grant
from greatseal.host import Host
from greatseal.jose.algorithms import ALGORITHMS
from greatseal_idp.clients.fields import MANY, Fields
from greatseal_idp.clients.principals import KERBEROS
from greatseal_idp.clients.redirects import check_redirect_uri
from greatseal_idp.extensions import Extensions
from greatseal_idp.pages.forms import origin_of
from greatseal_idp.proofs import Proofs
from greatseal_idp.scopes import INTROSPECT, is_scope_token
from greatseal_idp.scopes import MAX_NAME as LONGEST
from greatseal_idp.settings import OAuthSettings

METHOD_FIELDS = ("jwks_uri", "jwks", "tls_client_certificate", "kerberos_principal", "kerberos_principal_pattern")
"""The fields that belong to authentication methods: unset, unless the method has them. client_secret goes by its ``secret_form``."""

MAX_NAME = 256
MAX_SECRET = 1024
MAX_TEXT = 1024
MAX_JWKS_KEYS = 100
MAX_SPIFFE_ID = 2048

GIVEN = frozenset({"directory.read"})
"""Defined scopes that nobody gives to himself, although any client may ask for them once an administrator did."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TURNING = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What turns the direction of a line around (UAX 9): a name with it would change how the page reads on which people allow something."""
_SPIFFE_ID = re.compile(r"spiffe://[a-z0-9._-]{1,255}(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)*")
_WEB_URIS = ("logo_uri", "client_uri", "policy_uri", "tos_uri", "backchannel_logout_uri", "frontchannel_logout_uri", "jwks_uri")
_SHORT_TEXTS = ("kerberos_principal", "kerberos_principal_pattern", "kerberos_hbac_service", "workload_type")
_STORED_AS: Mapping[str, frozenset[str]] = {"digest": frozenset({"sha256", "argon2id"}), "sealed": frozenset({"sealed"})}


def derived_grant_types(client: Client) -> tuple[str, ...]:
    """The grants of a client that names none: those of its redirect URIs, else client_credentials."""
    return client.grant_types or (("authorization_code", "refresh_token") if client.redirect_uris else ("client_credentials",))


class Rules:
    """Checks registrations against the enabled plugins and the settings."""

    def __init__(self, host: Host, fields: Fields, proofs: Proofs, extensions: Extensions) -> None:
        self._host = host
        self._fields = fields
        self._proofs = proofs
        self._extensions = extensions
        settings = host.settings(OAuthSettings)
        self._private_use = settings.allow_private_use_schemes
        self._least_secret = settings.min_client_secret_length

    def method(self, name: str) -> ClientAuthMethod[msgspec.Struct]:
        """The method of that name. Raises InvalidClientMetadata for one that no enabled plugin provides."""
        method = self._host.components(ClientAuthMethod).get(name)
        if method is not None:
            return method
        offered = ", ".join(sorted(self._host.components(ClientAuthMethod)))
        cure = (
            "; kerberos_client_auth needs the plugins client-auth-kerberos and gssapi, and [ipa] gssapi = true" if name == KERBEROS else ""
        )
        raise InvalidClientMetadata(f"token_endpoint_auth_method: expected one of {offered} (RFC 7591 s2){cure}")

    def check(self, registration: Registration) -> Client:
        """The record to store. Raises InvalidRedirectUri and InvalidClientMetadata, which names the field."""
        client = registration.client
        self._check_uris(client)
        method = self.method(client.token_endpoint_auth_method)
        if registration.open and not method.open_registration:
            raise InvalidClientMetadata("token_endpoint_auth_method: this method is for the admin API alone")
        _check_texts(client)
        _check_lists(client)
        self._check_grants(client)
        self._check_bindings(client)
        self._extensions.check(registration)
        _check_method_fields(registration, method)
        self._check_secret(registration, method)
        return method.check(registration)

    def without_lost_secret(self, registration: Registration) -> Registration:
        """Without the stored secret where the method that is asked for cannot use it: whoever may choose a method, gets a secret for it."""
        client = registration.client
        form = self.method(client.token_endpoint_auth_method).secret_form
        if client.secret is None or (form is not None and _fits(client.secret, form)):
            return registration
        return msgspec.structs.replace(registration, client=msgspec.structs.replace(client, secret=None))

    def _check_uris(self, client: Client) -> None:
        for uri in client.redirect_uris:
            check_redirect_uri(uri, private_use=self._private_use)
        self._fields.check(client.more)
        for uri in client.more.get("post_logout_redirect_uris", ()):
            check_redirect_uri(uri, private_use=self._private_use, what="post_logout_redirect_uris")
        for name in _WEB_URIS:
            if (web := client.jwks_uri if name == "jwks_uri" else client.more.get(name)) is not None:
                _check_web_uri(name, web)
        _check_frontchannel(client)

    def _check_grants(self, client: Client) -> None:
        unknown = set(client.grant_types) - self._host.components(Grant).keys()
        if unknown:
            raise InvalidClientMetadata(f"grant_types: expected some of {', '.join(sorted(self._host.components(Grant)))} (RFC 7591 s2)")
        if "authorization_code" in client.grant_types and not client.redirect_uris:
            raise InvalidClientMetadata("redirect_uris: authorization_code needs one at least (RFC 7591 s2)")

    def _check_bindings(self, client: Client) -> None:
        """A client that may not go without two keys gets no token: one of them is all that a token can be bound to."""
        required = self._proofs.required(self._extensions.complete(client))
        if len(required) > 1:
            asked = " and ".join(sorted(required))
            raise InvalidClientMetadata(f"a token is bound to one key, and this client asks for {asked} (RFC 7800 s3.1)")

    def _check_secret(self, registration: Registration, method: ClientAuthMethod[msgspec.Struct]) -> None:
        secret = registration.client_secret
        if method.secret_form is None:
            if secret is not None or registration.client.secret is not None:
                raise InvalidClientMetadata(f"client_secret: must not be set for {method.method}")
            return
        if secret is None:
            if not registration.open and not _fits(registration.client.secret, method.secret_form):
                raise InvalidClientMetadata(f"client_secret: must be given for {method.method}")
        elif not self._least_secret <= len(secret.value) <= MAX_SECRET or _CONTROL.search(secret.value):
            raise InvalidClientMetadata(
                f"client_secret: {self._least_secret} to {MAX_SECRET} characters, no control characters; choose a random one"
            )


def check_scopes(scopes: Sequence[str], known: Container[str], *, open: bool = False) -> None:
    """Raises InvalidClientMetadata for a scope that is none: a misspelt one is noticed here, and not when no token has it.

    Who registers openly does not get to look into the tokens of others.
    """
    if open and INTROSPECT in scopes:
        raise InvalidClientMetadata(f"scope: only an administrator gives {INTROSPECT}")
    for scope in scopes:
        if scope not in known and scope != INTROSPECT and is_scope_token(scope):
            raise InvalidClientMetadata(f"scopes: {scope[:LONGEST]} is not defined")


def open_scopes(scopes: Sequence[str], known: Container[str], has: Sequence[str] = ()) -> tuple[str, ...]:
    """Those of an open registration that it may have: what it ``has``, and defined ones but :data:`GIVEN`.

    Raises InvalidClientMetadata for introspect, which it cannot hope for.
    """
    if INTROSPECT in scopes and INTROSPECT not in has:
        raise InvalidClientMetadata(f"scope: only an administrator gives {INTROSPECT}")
    return tuple(scope for scope in scopes if scope in has or not is_scope_token(scope) or (scope in known and scope not in GIVEN))


def _check_web_uri(name: str, uri: str) -> None:
    try:
        check_redirect_uri(uri, what=name)
    except InvalidRedirectUri as problem:
        raise InvalidClientMetadata(problem.detail) from None


def _check_frontchannel(client: Client) -> None:
    """Front-Channel Logout s2: scheme, host and port are those of a redirect URI, so that nobody else's page is put into a frame."""
    uri = client.more.get("frontchannel_logout_uri")
    if uri is not None and origin_of(uri) not in map(origin_of, client.redirect_uris):
        raise InvalidClientMetadata(
            "frontchannel_logout_uri: expected scheme, host and port of one of redirect_uris (OpenID Connect Front-Channel Logout s2)"
        )


def _check_texts(client: Client) -> None:
    if len(client.client_name) > MAX_NAME or _CONTROL.search(client.client_name) or _TURNING.search(client.client_name):
        raise InvalidClientMetadata(f"client_name: at most {MAX_NAME} characters, none that controls or turns the line around")
    for name in _SHORT_TEXTS:
        value = getattr(client, name)
        if value is not None and not _is_plain(value):
            raise InvalidClientMetadata(f"{name}: 1 to {MAX_TEXT} characters, no control characters")
    if client.spiffe_id is not None and (len(client.spiffe_id) > MAX_SPIFFE_ID or not _SPIFFE_ID.fullmatch(client.spiffe_id)):
        raise InvalidClientMetadata("spiffe_id: expected spiffe://<trust domain>/<path> in the characters of the SPIFFE ID specification")


def _check_lists(client: Client) -> None:
    for name, values in (("redirect_uris", client.redirect_uris), ("scopes", client.scopes)):
        if len(values) > MANY:
            raise InvalidClientMetadata(f"{name}: at most {MANY}")
    if not all(is_scope_token(scope) for scope in client.scopes):
        raise InvalidClientMetadata("scopes: a scope is printable ASCII without space, quote and backslash (RFC 6749 s3.3)")
    if any(one != "code" for one in client.more.get("response_types", ())):
        raise InvalidClientMetadata("response_types: expected code (RFC 7591 s2)")
    for name in ("contacts", "default_acr_values", "required_acr_values", "resources"):
        _check_plain_list(name, client.more.get(name, ()))
    for name in ("software_id", "software_version", "token_endpoint_auth_signing_alg"):
        _check_plain_list(name, [client.more[name]] if name in client.more else [])
    _check_algorithms(client.more.get("allowed_signing_algs"))
    if client.more.get("default_max_age", 0) < 0:
        raise InvalidClientMetadata("default_max_age: expected no negative number (OpenID Connect Registration s2)")


def _check_algorithms(names: Sequence[str] | None) -> None:
    if names is not None and (not names or not set(names) <= ALGORITHMS.keys()):
        raise InvalidClientMetadata(f"allowed_signing_algs: expected some of {', '.join(ALGORITHMS)}")


def _check_plain_list(name: str, values: Sequence[str]) -> None:
    if len(values) > MANY or not all(map(_is_plain, values)):
        raise InvalidClientMetadata(f"{name}: 1 to {MAX_TEXT} characters each, no control characters")


def _check_method_fields(registration: Registration, method: ClientAuthMethod[msgspec.Struct]) -> None:
    client = registration.client
    given = {
        "jwks_uri": client.jwks_uri,
        "jwks": client.jwks,
        "tls_client_certificate": registration.tls_client_certificate or client.tls_client_certificate_sha256,
        "kerberos_principal": client.kerberos_principal,
        "kerberos_principal_pattern": client.kerberos_principal_pattern,
    }
    for name in METHOD_FIELDS:
        if given[name] is not None and name not in method.fields:
            raise InvalidClientMetadata(f"{name}: must not be set for {method.method}")
    if client.jwks is not None:
        if client.jwks_uri is not None:
            raise InvalidClientMetadata("jwks: give jwks_uri or jwks, not both (RFC 7591 s2)")
        keys = client.jwks.get("keys")
        if not isinstance(keys, list) or len(keys) > MAX_JWKS_KEYS or not all(isinstance(key, dict) for key in keys):
            raise InvalidClientMetadata(f"jwks: expected an object with keys, an array of at most {MAX_JWKS_KEYS} objects (RFC 7517 s5)")


def _fits(stored: StoredSecret | None, form: str) -> bool:
    """Whether a stored secret serves a method: a digest cannot become a sealed value, nor should it the other way round."""
    return stored is not None and stored.form in _STORED_AS[form]


def _is_plain(text: str) -> bool:
    return 1 <= len(text) <= MAX_TEXT and _CONTROL.search(text) is None
