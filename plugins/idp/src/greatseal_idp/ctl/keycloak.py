"""The clients of a Keycloak realm as ours: what of an export carries over, and what does not.

The export is the JSON of ``kc.sh export``, or of the administration console, which hides secrets (a ClientRepresentation each).
"""

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

BUILT_IN = frozenset({"account", "account-console", "admin-cli", "broker", "realm-management", "security-admin-console"})
OF_KEYCLOAK = frozenset({"acr", "basic", "microprofile-jwt", "organization", "role_list", "roles", "service_account", "web-origins"})
"""Scopes that a realm has for itself."""
HIDDEN = "**********"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
CIBA = "urn:openid:params:grant-type:ciba"
METHODS = {"client-secret": "client_secret_basic", "client-secret-jwt": "client_secret_jwt", "client-jwt": "private_key_jwt"}
TEXTS = {
    "backchannel.logout.url": "backchannel_logout_uri",
    "frontchannel.logout.url": "frontchannel_logout_uri",
    "logoUri": "logo_uri",
    "policyUri": "policy_uri",
    "tosUri": "tos_uri",
    "token.endpoint.auth.signing.alg": "token_endpoint_auth_signing_alg",
}
SWITCHES = {
    "backchannel.logout.session.required": "backchannel_logout_session_required",
    "require.pushed.authorization.requests": "require_pushed_authorization_requests",
    "dpop.bound.access.tokens": "dpop_bound_access_tokens",
    "tls.client.certificate.bound.access.tokens": "tls_client_certificate_bound_access_tokens",
}
SIGNED = ("ES256", "RS256")


class Unreadable(ValueError):
    """The file is no export of a realm."""


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What this service has, of its discovery document."""

    grant_types: Collection[str]
    scopes: Collection[str]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One client of the realm: the body that registers it here, None where it cannot be carried over; ``notes`` say what is lost."""

    name: str
    body: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    mark: str = ""
    """The ``software_id`` by which a second import finds it."""
    is_new_secret: bool = False


class _Stays(Exception):
    """Why a client stays behind."""


def plan(text: bytes, offered: Offered, *, new_secrets: bool) -> list[Planned]:
    """Every client of the realm, in its order, without those that Keycloak makes for itself.

    With ``new_secrets`` a secret that the export hides is replaced. Raises Unreadable.
    """
    try:
        realm = json.loads(text)
        name, clients = str(realm["realm"]), [dict(client) for client in realm["clients"]]
        algorithm = str(realm.get("defaultSignatureAlgorithm", ""))
        return [
            _planned(client, f"keycloak:{name}:{client['clientId']}", offered, algorithm, new_secrets=new_secrets)
            for client in clients
            if client["clientId"] not in BUILT_IN
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unreadable("this is not the export of a Keycloak realm; make it with: kc.sh export --realm NAME --file FILE") from None


def _planned(client: Mapping[str, Any], mark: str, offered: Offered, algorithm: str, *, new_secrets: bool) -> Planned:
    notes: list[str] = []
    try:
        body = _body(client, offered, algorithm, notes)
        is_new = _add_secret(body, client, new=new_secrets)
    except _Stays as why:
        return Planned(name=str(client["clientId"]), notes=(str(why),))
    return Planned(name=str(client["clientId"]), body={**body, "software_id": mark}, notes=tuple(notes), mark=mark, is_new_secret=is_new)


def _body(client: Mapping[str, Any], offered: Offered, algorithm: str, notes: list[str]) -> dict[str, Any]:
    if client.get("protocol", "openid-connect") != "openid-connect":
        raise _Stays(f"it speaks {client['protocol']}, which this service does not")
    if client.get("bearerOnly"):
        raise _Stays("it only takes tokens; an API is no client here, unless it introspects: then give a client the scope introspect")
    if not client.get("enabled", True):
        raise _Stays("it is disabled there")
    attributes: Mapping[str, str] = client.get("attributes") or {}
    uris = _redirect_uris(client, notes)
    grants = _grants(client, attributes, offered, uris, notes)
    body: dict[str, Any] = {
        "client_name": client.get("name") or client["clientId"],
        "redirect_uris": uris,
        "grant_types": grants,
        "scopes": _scopes(client, offered, notes),
        "consent": "explicit" if client.get("consentRequired") else "implicit",
        **_method(client, attributes),
        **{ours: attributes[theirs] for theirs, ours in TEXTS.items() if attributes.get(theirs)},
        **{ours: True for theirs, ours in SWITCHES.items() if attributes.get(theirs) == "true"},
    }
    if attributes.get("pkce.code.challenge.method") == "S256":
        body["require_pkce"] = True
    if back := _post_logout(client, attributes, uris, notes):
        body["post_logout_redirect_uris"] = back
    for theirs, ours, default in (
        ("id.token.signed.response.alg", "id_token_signed_response_alg", algorithm),
        ("user.info.response.signature.alg", "userinfo_signed_response_alg", ""),
    ):
        if wanted := attributes.get(theirs) or default:
            if wanted in SIGNED:
                body[ours] = wanted
            else:
                notes.append(f"{ours}: {wanted} is not offered; {SIGNED[0]} is used")
    return body


def _method(client: Mapping[str, Any], attributes: Mapping[str, str]) -> dict[str, Any]:
    if client.get("publicClient"):
        return {"token_endpoint_auth_method": "none"}
    theirs = client.get("clientAuthenticatorType", "client-secret")
    method = METHODS.get(theirs)
    if theirs == "client-x509":
        raise _Stays("it proves itself by a certificate, which is not in the export; use: clients create --method tls_client_auth")
    if method is None:
        raise _Stays(f"it proves itself by {theirs}, which this service does not have")
    if method != "private_key_jwt":
        return {"token_endpoint_auth_method": method}
    if attributes.get("use.jwks.url") == "true" and attributes.get("jwks.url"):
        return {"token_endpoint_auth_method": method, "jwks_uri": attributes["jwks.url"]}
    if attributes.get("use.jwks.string") == "true" and attributes.get("jwks.string"):
        return {"token_endpoint_auth_method": method, "jwks": json.loads(attributes["jwks.string"])}
    raise _Stays("its key is a certificate; give the client a key set and use: clients create --jwks-uri")


def _add_secret(body: dict[str, Any], client: Mapping[str, Any], *, new: bool) -> bool:
    """Whether it has a new secret now."""
    if not body["token_endpoint_auth_method"].startswith("client_secret_"):
        return False
    secret = client.get("secret")
    if secret and secret != HIDDEN:
        body["client_secret"] = secret
        return False
    if not new:
        raise _Stays("the export hides its secret; export with kc.sh, or give it a new one with --new-secrets")
    body["client_secret"] = secrets.token_urlsafe(32)
    return True


def _redirect_uris(client: Mapping[str, Any], notes: list[str]) -> list[str]:
    found = [_absolute(client, uri) for uri in client.get("redirectUris") or []]
    if any("*" in uri or "${" in uri for uri in found):
        notes.append("redirect URIs with wildcards or variables are left out; name each with: clients update --redirect-uri")
    return [uri for uri in dict.fromkeys(found) if "*" not in uri and "${" not in uri]


def _absolute(client: Mapping[str, Any], uri: str) -> str:
    return f"{str(client.get('rootUrl') or '').rstrip('/')}{uri}" if uri.startswith("/") else uri


def _post_logout(client: Mapping[str, Any], attributes: Mapping[str, str], uris: Sequence[str], notes: list[str]) -> list[str]:
    text = attributes.get("post.logout.redirect.uris") or ""
    if text == "+":
        return list(uris)
    found = [_absolute(client, uri) for uri in text.split("##") if uri and uri != "-"]
    if any("*" in uri for uri in found):
        notes.append("post_logout_redirect_uris with wildcards are left out")
    return [uri for uri in found if "*" not in uri]


def _grants(client: Mapping[str, Any], attributes: Mapping[str, str], offered: Offered, uris: Sequence[str], notes: list[str]) -> list[str]:
    wanted = ["client_credentials"] if client.get("serviceAccountsEnabled") else []
    if client.get("standardFlowEnabled"):
        if uris:
            wanted[:0] = ["authorization_code", "refresh_token"]
        else:
            notes.append("people cannot sign in at it: none of its redirect URIs carries over")
    for theirs, grant in (
        ("oauth2.device.authorization.grant.enabled", DEVICE),
        ("standard.token.exchange.enabled", EXCHANGE),
        ("oidc.ciba.grant.enabled", CIBA),
    ):
        if attributes.get(theirs) == "true":
            wanted.append(grant)
    if client.get("implicitFlowEnabled"):
        notes.append("the implicit grant is not offered (RFC 9700 s2.1.2)")
    if client.get("directAccessGrantsEnabled"):
        notes.append("the password grant is not offered (RFC 9700 s2.4)")
    notes += [f"no enabled plugin has the grant {grant}" for grant in wanted if grant not in offered.grant_types]
    left = [grant for grant in wanted if grant in offered.grant_types]
    if not left:
        raise _Stays("; ".join(("no grant of it carries over", *notes)))
    return left


def _scopes(client: Mapping[str, Any], offered: Offered, notes: list[str]) -> list[str]:
    named = dict.fromkeys(("openid", *(client.get("defaultClientScopes") or ()), *(client.get("optionalClientScopes") or ())))
    unknown = [scope for scope in named if scope not in offered.scopes and scope not in OF_KEYCLOAK]
    if unknown:
        notes.append(f"not defined here, make them first with ctl scopes: {', '.join(unknown)}")
    return [scope for scope in named if scope in offered.scopes]
