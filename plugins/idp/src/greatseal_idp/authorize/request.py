"""An authorization request: read, checked, and kept (RFC 6749 s4.1.1, RFC 7636, OpenID Connect Core s3.1.2.1)."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from greatseal.api.clients import Client
from greatseal.api.http import Parameters
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.tokens import InvalidScope, UnauthorizedClient
from greatseal.jose.strict import decode_object
from greatseal_idp.clients.redirects import matches
from greatseal_idp.settings import OAuthSettings

MAX_STATE = 2048
MAX_NONCE = 512
MAX_CLAIMS = 16_384
MAX_HINT = 256
PROMPTS = frozenset({"none", "login", "consent", "select_account"})
REPEATABLE = frozenset({"resource"})

_CHALLENGE = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_SECONDS = re.compile(r"[0-9]{1,12}")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")

ResponseMode = Literal["query", "fragment", "form_post"]
RESPONSE_MODES: Mapping[str, ResponseMode] = {"query": "query", "fragment": "fragment", "form_post": "form_post"}


class UnsupportedResponseType(BadRequest):
    """Only ``code`` is offered (RFC 6749 s4.1.2.1, RFC 9700 s2.1.2)."""

    error = "unsupported_response_type"


class RequestNotSupported(BadRequest):
    """A request object by value (OpenID Connect Core s3.1.2.6)."""

    error = "request_not_supported"


class RequestUriNotSupported(BadRequest):
    """A request_uri that did not come from /par; nothing is fetched."""

    error = "request_uri_not_supported"


class RegistrationNotSupported(BadRequest):
    """The parameter ``registration`` (OpenID Connect Core s3.1.2.6)."""

    error = "registration_not_supported"


class NotRegistered(BadRequest):
    """The client of a request that waited is gone, or its redirect URI. Shown here: nobody is sent there any more."""


class Addressee(msgspec.Struct, frozen=True, kw_only=True):
    """Where the answer of a request goes: a proven redirect URI of a proven client."""

    client_id: str
    redirect_uri: str
    response_mode: ResponseMode = "query"
    state: str | None = None


class AuthorizationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was checked. ``scopes`` are cut to the client's; ``hinted`` is the subject of its id_token_hint.

    ``implied`` are the client's other scopes that release what ``claims`` names: the person is asked about them too. ``pushed`` is one
    that came through /par.

    ``acr_values`` is a wish (OpenID Connect Core s3.1.2.1), and every sign-in already gives the best acr that it can.
    """

    to: Addressee
    scopes: tuple[str, ...]
    implied: tuple[str, ...] = ()
    code_challenge: str | None = None
    nonce: str | None = None
    prompt: tuple[str, ...] = ()
    max_age: int | None = None
    hinted: str | None = None
    login_hint: str | None = None
    claims: Mapping[str, Any] | None = None
    pushed: bool = False

    @property
    def essential_acr(self) -> tuple[str, ...]:
        """The values of which the session must have one (OpenID Connect Core s5.5.1.1)."""
        asked = self._id_token_claim("acr")
        if asked.get("essential") is not True:
            return ()
        values = asked.get("values", [asked["value"]] if "value" in asked else [])
        return tuple(str(value) for value in values) if isinstance(values, list) else ()

    @property
    def wanted_subject(self) -> str | None:
        """The only subject that the client takes, by id_token_hint or by the claims parameter."""
        value = self._id_token_claim("sub").get("value")
        return self.hinted or (value if isinstance(value, str) else None)

    def _id_token_claim(self, name: str) -> Mapping[str, Any]:
        asked = ((self.claims or {}).get("id_token") or {}).get(name)
        return asked if isinstance(asked, dict) else {}


def refuse_repeated(parameters: Parameters) -> None:
    """Raises BadRequest when a parameter was given twice (RFC 6749 s3.1)."""
    for name in parameters:
        if name not in REPEATABLE and len(parameters.all(name)) > 1:
            raise BadRequest("a parameter was given twice")


def addressee(parameters: Parameters, client: Client) -> Addressee:
    """Where the answer goes. Raises BadRequest, which must be shown here: nothing is redirected before this returns."""
    asked = parameters.get("redirect_uri")
    if asked is None:
        if len(client.redirect_uris) != 1 or "openid" in parameters.get("scope", "").split(" "):
            raise BadRequest("redirect_uri is missing")
        asked = client.redirect_uris[0]
    elif not matches(client.redirect_uris, asked):
        raise BadRequest("redirect_uri is not registered for this client")
    state = parameters.get("state")
    return Addressee(
        client_id=client.client_id,
        redirect_uri=asked,
        response_mode=RESPONSE_MODES.get(parameters.get("response_mode", "query"), "query"),
        # One that is too long is refused, and then not repeated.
        state=state if state is None or len(state.encode()) <= MAX_STATE else None,
    )


def check_request(parameters: Parameters, to: Addressee, client: Client, *, pushed: bool) -> AuthorizationRequest:
    """The rest of the request. Raises problems that may go to the client by redirect.

    Scopes are cut to the client's; whether they exist and who ``id_token_hint`` means is not known here.
    """
    _refuse_unsupported(parameters)
    if len(parameters.get("state", "").encode()) > MAX_STATE:
        raise BadRequest(f"state: at most {MAX_STATE} bytes")
    nonce = parameters.get("nonce")
    if nonce is not None and len(nonce.encode()) > MAX_NONCE:
        raise BadRequest(f"nonce: at most {MAX_NONCE} bytes")
    if nonce is not None and "\0" in nonce:
        raise BadRequest("nonce: a NUL cannot be kept")
    return AuthorizationRequest(
        to=to,
        scopes=_scopes(parameters.get("scope", ""), client.scopes),
        code_challenge=_challenge(parameters),
        nonce=nonce,
        prompt=_prompt(parameters.get("prompt", "")),
        max_age=_max_age(parameters.get("max_age"), client),
        login_hint=parameters.get("login_hint", "")[:MAX_HINT] or None,
        claims=_claims(parameters.get("claims")),
        pushed=pushed,
    )


def registered(client: Client | None, to: Addressee) -> Client:
    """The client of a request that waited. Raises NotRegistered."""
    if client is None or not matches(client.redirect_uris, to.redirect_uri):
        raise NotRegistered("the application is not registered any more, or not for this address")
    return client


def check_registration(request: AuthorizationRequest, client: Client, settings: OAuthSettings) -> None:
    """Whether the client may ask so: decided when the request comes, when it goes on, and when the code is made.

    Raises problems that may go to the client by redirect.
    """
    if "authorization_code" not in client.grant_types:
        raise UnauthorizedClient("the client may not use the grant authorization_code")
    if client.more.get("require_pushed_authorization_requests") is True and not request.pushed:
        raise BadRequest("this client must push its requests to /par (RFC 9126)")
    public = client.token_endpoint_auth_method == "none"  # noqa: S105  # the name of a method
    if request.code_challenge is None and (settings.require_pkce == "all" or (settings.require_pkce == "public" and public)):
        raise BadRequest("code_challenge is missing: this client must use PKCE with S256")


def cut(scopes: Sequence[str], allowed: Collection[str]) -> tuple[str, ...]:
    """Those of ``scopes`` that are allowed, in their order. Raises InvalidScope when none is."""
    kept = tuple(scope for scope in scopes if scope in allowed)
    if not kept:
        raise InvalidScope("none of the scopes may be granted to this client")
    return kept


def _refuse_unsupported(parameters: Parameters) -> None:
    unsupported: tuple[tuple[str, type[Problem]], ...] = (
        ("request", RequestNotSupported),
        ("request_uri", RequestUriNotSupported),
        ("registration", RegistrationNotSupported),
    )
    for name, problem in unsupported:
        if name in parameters:
            raise problem(f"the parameter {name} is not supported here")
    response_type = parameters.get("response_type")
    if response_type is None:
        raise BadRequest("response_type is missing")
    if response_type != "code":
        raise UnsupportedResponseType("the only response_type is code")
    if parameters.get("response_mode", "query") not in RESPONSE_MODES:
        raise BadRequest("response_mode: expected query, fragment or form_post")


def _challenge(parameters: Parameters) -> str | None:
    challenge, method = parameters.get("code_challenge"), parameters.get("code_challenge_method")
    if challenge is None:
        if method is not None:
            raise BadRequest("code_challenge_method without code_challenge")
        return None
    if method != "S256":
        raise BadRequest("code_challenge_method must be S256")
    if _CHALLENGE.fullmatch(challenge) is None:
        raise BadRequest("code_challenge: expected 43 to 128 unreserved characters")
    return challenge


def _scopes(scope: str, allowed: Collection[str]) -> tuple[str, ...]:
    asked = _words(scope)
    if not asked:
        raise InvalidScope("scope is missing")
    if any(_SCOPE.fullmatch(one) is None for one in asked):
        raise InvalidScope("scope: expected names of printable ASCII characters with blanks between them")
    return cut(asked, frozenset(allowed))


def _prompt(prompt: str) -> tuple[str, ...]:
    asked = _words(prompt)
    if not PROMPTS.issuperset(asked):
        raise BadRequest("prompt: expected none, login, consent or select_account")
    if "none" in asked and len(asked) > 1:
        raise BadRequest("prompt: none stands alone")
    return asked


def _max_age(max_age: str | None, client: Client) -> int | None:
    if max_age is None:
        default = client.more.get("default_max_age")
        return default if isinstance(default, int) and default >= 0 else None
    if _SECONDS.fullmatch(max_age) is None:
        raise BadRequest("max_age: expected a number of seconds")
    return int(max_age)


def _claims(claims: str | None) -> Mapping[str, Any] | None:
    if claims is None:
        return None
    if len(claims) > MAX_CLAIMS:
        raise BadRequest(f"claims: at most {MAX_CLAIMS} characters")
    try:
        asked = decode_object(claims.encode())
    except ValueError:
        raise BadRequest("claims: expected a JSON object") from None
    for place in ("userinfo", "id_token"):
        members = asked.get(place)
        if members is not None and not (isinstance(members, dict) and all(isinstance(one, dict | None) for one in members.values())):
            raise BadRequest("claims: userinfo and id_token hold objects whose members are null or objects")
    return asked


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in text.split(" ") if word))
