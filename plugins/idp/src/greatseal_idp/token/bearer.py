"""Bearer tokens at the resources of this issuer (RFC 6750): where they may stand, and how each refusal is told."""

from greatseal.api.http import AuthScheme, Bearer, Call, Parameters
from greatseal.api.problems import BadRequest, Forbidden, Problem, Unauthenticated
from greatseal.api.tokens import AccessToken, BearerCaller, Tokens
from greatseal_idp.token.cors import ALLOW, EXPOSE

FORM = "application/x-www-form-urlencoded"


class InvalidToken(Unauthenticated):
    """The token is expired, revoked, malformed, or not for this server (s3.1)."""

    error = "invalid_token"


class InsufficientScope(Forbidden):
    """The token does not hold the scope of the route (s3.1)."""

    error = "insufficient_scope"


class BearerScheme(AuthScheme):
    """Proves the callers of routes with the rule Bearer."""

    rule = Bearer

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def authenticate(self, call: Call) -> BearerCaller:
        try:
            return await self._proven(call)
        except Problem as problem:
            if "Origin" in call.headers:
                # Nothing ambient proves this caller, and a script has to see that its token ended.
                problem.headers.update((ALLOW, EXPOSE))
            raise

    async def _proven(self, call: Call) -> BearerCaller:
        text = await presented(call)
        if text is None:
            raise Unauthenticated("this needs an access token", headers={"WWW-Authenticate": "Bearer"})
        token = await self._tokens.access(text)
        if token is None:
            raise refused("the access token is expired, revoked or not good here")
        if "cnf" in token.claims:
            raise refused("the access token is bound to a key and was presented without it")
        rule = call.route.auth
        assert isinstance(rule, Bearer)
        require_scope(token, rule.scope)
        return BearerCaller(subject=token.subject, token=token)


async def presented(call: Call) -> str | None:
    """The token of a request: in the Authorization header (s2.1) or in a form (s2.2), None when there is none.

    Raises BadRequest for two at once, and for one in the URL (RFC 9700 s4.3.2).
    """
    if "access_token" in call.query:
        raise BadRequest("an access token in the URL is not read", headers=_challenge("invalid_request", "a token in the URL"))
    scheme, _, value = call.headers.get("Authorization", "").partition(" ")
    in_header = value.strip() if scheme.lower() == "bearer" else None
    in_form = await _in_form(call)
    if in_header is not None and in_form is not None:
        raise BadRequest("the access token was given twice", headers=_challenge("invalid_request", "two tokens"))
    return in_form if in_header is None else in_header


def refused(detail: str) -> InvalidToken:
    """The refusal of a token that is not good."""
    return InvalidToken(detail, headers=_challenge("invalid_token", detail))


def require_scope(token: AccessToken, scope: str) -> None:
    """Raise InsufficientScope unless the token holds ``scope``; an empty one is always held."""
    if scope and scope not in token.scopes:
        detail = f"the access token needs the scope {scope}"
        challenge = f'{_challenge("insufficient_scope", detail)["WWW-Authenticate"]}, scope="{scope}"'
        raise InsufficientScope(detail, headers={"WWW-Authenticate": challenge})


async def _in_form(call: Call) -> str | None:
    """Read only where the route takes forms: a JSON body is not ours to look into."""
    if call.method != "POST" or FORM not in call.route.content_types:
        return None
    return Parameters.parse(await call.raw()).get("access_token")


def _challenge(error: str, description: str) -> dict[str, str]:
    return {"WWW-Authenticate": f'Bearer error="{error}", error_description="{description}"'}
