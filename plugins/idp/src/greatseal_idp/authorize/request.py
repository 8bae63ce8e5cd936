"""An authorization request: read, checked, and kept (RFC 6749 s4.1.1, RFC 7636, OpenID Connect Core s3.1.2.1)."""

import re
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any

import msgspec

from greatseal.api.authorization import ResponseMode
from greatseal.api.clients import Client
from greatseal.api.http import Parameters
from greatseal.api.languages import tags_of
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.tokens import InvalidScope, UnauthorizedClient
from greatseal.jose.strict import decode_object
from greatseal_idp.clients.redirects import matches
from greatseal_idp.extensions import PROMPTS, RESPONSE_MODES, Extensions
from greatseal_idp.settings import OAuthSettings

MAX_STATE = 2048
MAX_NONCE = 512
MAX_CLAIMS = 16_384
MAX_HINT = 256
MAX_ACR = 1024

_CHALLENGE = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_SECONDS = re.compile(r"[0-9]{1,12}")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


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
    """Where the answer of a request goes: a proven redirect URI of a proven client.

    ``response_mode`` is how it is carried, ``mode`` the one that was asked for where an extension makes the answer.
    """

    client_id: str
    redirect_uri: str
    response_mode: ResponseMode = "query"
    mode: str | None = None
    state: str | None = None


class AuthorizationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was checked. ``scopes`` are cut to the client's; ``hinted`` is the subject of its id_token_hint.

    ``implied`` are the client's other scopes that release what ``claims`` names: the person is asked about them too. ``pushed`` is one
    that came through /par. ``acr`` are alternatives that extensions want, one of each; ``more`` is what they keep, by name.

    ``wishes`` are values of acr that the client would like, best first: ``acr_values``, or what it says elsewhere (OpenID Connect Core
    s5.5.1.1). A session that could have one is led to it; where none can be had, the client gets what there is.
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
    ui_locales: tuple[str, ...] = ()
    claims: Mapping[str, Any] | None = None
    pushed: bool = False
    acr: tuple[tuple[str, ...], ...] = ()
    wishes: tuple[str, ...] = ()
    more: Mapping[str, Any] = {}

    @property
    def asked_acr(self) -> tuple[tuple[str, ...], ...]:
        """What the client asked for itself, what it must have first: of these it is told one."""
        return tuple(group for group in (self.essential_acr, self.wishes) if group)

    @property
    def wanted_acr(self) -> tuple[tuple[str, ...], ...]:
        """The alternatives of which the session must have one, each."""
        return (*self.acr, self.essential_acr) if self.essential_acr else self.acr

    @property
    def all_acr(self) -> tuple[tuple[str, ...], ...]:
        """The same with the wishes of the client."""
        return (*self.wanted_acr, self.wishes) if self.wishes else self.wanted_acr

    @property
    def essential_acr(self) -> tuple[str, ...]:
        """The values of which the session must have one (OpenID Connect Core s5.5.1.1)."""
        return essential_acr(self.claims)

    @property
    def wanted_subject(self) -> str | None:
        """The only subject that the client takes, by id_token_hint or by the claims parameter."""
        value = self._id_token_claim("sub").get("value")
        return self.hinted or (value if isinstance(value, str) else None)

    def _id_token_claim(self, name: str) -> Mapping[str, Any]:
        return _id_token_claim(self.claims, name)


def essential_acr(claims: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The values of which the session must have one, by the ``claims`` parameter (OpenID Connect Core s5.5.1.1)."""
    asked = _id_token_claim(claims, "acr")
    return _values(asked) if asked.get("essential") is True else ()


def read_wishes(parameters: Parameters, claims: Mapping[str, Any] | None, client: Client) -> tuple[str, ...]:
    """The values of acr that the client would like: of this request, else of its registration. Raises BadRequest."""
    asked = parameters.get("acr_values")
    if asked is None:
        claimed = _id_token_claim(claims, "acr")
        default = client.more.get("default_acr_values")
        return _values(claimed) or (tuple(map(str, default)) if isinstance(default, list | tuple) and not claimed else ())
    if len(asked) > MAX_ACR:
        raise BadRequest(f"acr_values: at most {MAX_ACR} characters (OpenID Connect Core s3.1.2.1)")
    return _words(asked)


def required_acr(client: Client) -> tuple[tuple[str, ...], ...]:
    """The values of acr of which every session must have one for this client, as a group; none where it asks for nothing."""
    required = client.more.get("required_acr_values")
    return (tuple(map(str, required)),) if isinstance(required, list | tuple) and required else ()


def _values(asked: Mapping[str, Any]) -> tuple[str, ...]:
    values = asked.get("values", [asked["value"]] if "value" in asked else [])
    return tuple(str(value) for value in values) if isinstance(values, list) else ()


def _id_token_claim(claims: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    asked = ((claims or {}).get("id_token") or {}).get(name)
    return asked if isinstance(asked, dict) else {}


def refuse_repeated(parameters: Parameters, repeatable: Container[str] = ()) -> None:
    """Raises BadRequest when a parameter was given twice (RFC 6749 s3.1)."""
    for name in parameters:
        if name not in repeatable and len(parameters.all(name)) > 1:
            raise BadRequest("a parameter was given twice (RFC 6749 s3.1)")


def addressee(parameters: Parameters, client: Client, modes: Mapping[str, ResponseMode]) -> Addressee:
    """Where the answer goes. Raises BadRequest, which must be shown here: nothing is redirected before this returns."""
    asked = parameters.get("redirect_uri")
    if asked is None:
        if len(client.redirect_uris) != 1 or "openid" in parameters.get("scope", "").split(" "):
            _refuse_unknown(parameters)
            raise BadRequest("redirect_uri is missing (RFC 6749 s3.1.2.3, OpenID Connect Core s3.1.2.1)")
        asked = client.redirect_uris[0]
    elif not matches(client.redirect_uris, asked):
        raise BadRequest("redirect_uri is not registered for this client (RFC 6749 s3.1.2.3)")
    state = parameters.get("state")
    mode = parameters.get("response_mode", "query")
    return Addressee(
        client_id=client.client_id,
        redirect_uri=asked,
        response_mode=modes.get(mode, "query"),
        mode=mode if mode in modes and mode not in RESPONSE_MODES else None,
        # One that is too long is refused, and then not repeated.
        state=state if state is None or len(state.encode()) <= MAX_STATE else None,
    )


def check_request(parameters: Parameters, to: Addressee, client: Client, extensions: Extensions, *, pushed: bool) -> AuthorizationRequest:
    """The rest of the request. Raises problems that may go to the client by redirect.

    Scopes are cut to the client's; whether they exist, whether it may go without and who ``id_token_hint`` means is not known here.
    """
    _refuse_unsupported(parameters, extensions.modes)
    if len(parameters.get("state", "").encode()) > MAX_STATE:
        raise BadRequest(f"state: at most {MAX_STATE} bytes")
    nonce = parameters.get("nonce")
    if nonce is not None and len(nonce.encode()) > MAX_NONCE:
        raise BadRequest(f"nonce: at most {MAX_NONCE} bytes")
    if nonce is not None and "\0" in nonce:
        raise BadRequest("nonce: a NUL cannot be kept")
    claims = read_claims(parameters)
    return AuthorizationRequest(
        to=to,
        scopes=read_scopes(parameters, client),
        code_challenge=_challenge(parameters),
        nonce=nonce,
        prompt=_prompt(parameters.get("prompt", ""), {*PROMPTS, *extensions.prompts}),
        max_age=read_max_age(parameters, client),
        login_hint=parameters.get("login_hint", "")[:MAX_HINT] or None,
        ui_locales=tags_of(parameters.get("ui_locales", "")),
        claims=claims,
        wishes=read_wishes(parameters, claims, client),
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
        raise UnauthorizedClient("the client may not use the grant authorization_code (RFC 6749 s4.1.2.1)")
    if client.more.get("require_pushed_authorization_requests") is True and not request.pushed:
        raise BadRequest("this client must push its requests to /par (RFC 9126 s6)")
    public = client.token_endpoint_auth_method == "none"  # noqa: S105  # the name of a method
    must = settings.require_pkce == "all" or (settings.require_pkce == "public" and public) or client.more.get("require_pkce") is True
    if request.code_challenge is None and must:
        raise BadRequest("code_challenge is missing: this client must use PKCE with S256 (RFC 7636 s4.4.1)")


def cut(scopes: Sequence[str], allowed: Collection[str]) -> tuple[str, ...]:
    """Those of ``scopes`` that are allowed, in their order. Raises InvalidScope when there are some and none is."""
    kept = tuple(scope for scope in scopes if scope in allowed)
    if scopes and not kept:
        raise InvalidScope("none of the scopes may be granted to this client (RFC 6749 s3.3)")
    return kept


def _refuse_unknown(parameters: Parameters) -> None:
    """Refuse parameters of which nothing is read, though the rest of the request may be in them."""
    unsupported: tuple[tuple[str, type[Problem]], ...] = (
        ("request", RequestNotSupported),
        ("request_uri", RequestUriNotSupported),
        ("registration", RegistrationNotSupported),
    )
    for name, problem in unsupported:
        if name in parameters:
            raise problem(f"the parameter {name} is not supported here (OpenID Connect Core s3.1.2.6)")


def _refuse_unsupported(parameters: Parameters, modes: Collection[str]) -> None:
    _refuse_unknown(parameters)
    response_type = parameters.get("response_type")
    if response_type is None:
        raise BadRequest("response_type is missing (RFC 6749 s3.1.1)")
    if response_type != "code":
        raise UnsupportedResponseType("the only response_type is code (RFC 6749 s3.1.1)")
    if parameters.get("response_mode", "query") not in modes:
        raise BadRequest(f"response_mode: expected {_any_of(modes)} (OpenID Connect Core s3.1.2.1)")


def _challenge(parameters: Parameters) -> str | None:
    challenge, method = parameters.get("code_challenge"), parameters.get("code_challenge_method")
    if challenge is None:
        if method is not None:
            raise BadRequest("code_challenge_method without code_challenge (RFC 7636 s4.3)")
        return None
    if method != "S256":
        raise BadRequest("code_challenge_method must be S256 (RFC 7636 s4.4.1)")
    if _CHALLENGE.fullmatch(challenge) is None:
        raise BadRequest("code_challenge: expected 43 to 128 unreserved characters (RFC 7636 s4.2)")
    return challenge


def read_scopes(parameters: Parameters, client: Client) -> tuple[str, ...]:
    """The scopes that were asked for and that the client may have, none when there is no ``scope``. Raises InvalidScope."""
    asked = _words(parameters.get("scope", ""))
    if any(_SCOPE.fullmatch(one) is None for one in asked):
        raise InvalidScope("scope: expected names of printable ASCII characters with blanks between them (RFC 6749 s3.3)")
    return cut(asked, frozenset(client.scopes))


def _prompt(prompt: str, offered: Collection[str]) -> tuple[str, ...]:
    asked = _words(prompt)
    if not set(asked).issubset(offered):
        raise BadRequest(f"prompt: expected {_any_of(offered)} (OpenID Connect Core s3.1.2.1)")
    if "none" in asked and len(asked) > 1:
        raise BadRequest("prompt: none stands alone (OpenID Connect Core s3.1.2.1)")
    return asked


def read_max_age(parameters: Parameters, client: Client) -> int | None:
    """Seconds that the sign-in may be ago, None for any number. Raises BadRequest."""
    max_age = parameters.get("max_age")
    if max_age is None:
        default = client.more.get("default_max_age")
        return default if isinstance(default, int) and default >= 0 else None
    if _SECONDS.fullmatch(max_age) is None:
        raise BadRequest("max_age: expected a number of seconds (OpenID Connect Core s3.1.2.1)")
    return int(max_age)


def read_claims(parameters: Parameters) -> Mapping[str, Any] | None:
    """The ``claims`` parameter (OpenID Connect Core s5.5). Raises BadRequest."""
    claims = parameters.get("claims")
    if claims is None:
        return None
    if len(claims) > MAX_CLAIMS:
        raise BadRequest(f"claims: at most {MAX_CLAIMS} characters")
    try:
        asked = decode_object(claims.encode())
    except ValueError:
        raise BadRequest("claims: expected a JSON object (OpenID Connect Core s5.5)") from None
    for place in ("userinfo", "id_token"):
        members = asked.get(place)
        if members is not None and not (isinstance(members, dict) and all(isinstance(one, dict | None) for one in members.values())):
            raise BadRequest("claims: userinfo and id_token hold objects whose members are null or objects (OpenID Connect Core s5.5)")
    return asked


def _any_of(names: Collection[str]) -> str:
    *others, last = sorted(names)
    return f"{', '.join(others)} or {last}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in text.split(" ") if word))
