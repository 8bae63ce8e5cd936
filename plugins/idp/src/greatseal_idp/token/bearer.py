"""Access tokens at the resources of this issuer (RFC 6750, RFC 9449 s7): where they may stand, and how each refusal is told."""

from greatseal.api.http import AuthScheme, Bearer, Call, Parameters, Reply
from greatseal.api.identity import Headers
from greatseal.api.problems import BadRequest, Forbidden, Problem, Unauthenticated
from greatseal.api.tokens import AccessToken, BearerCaller, InvalidToken, Tokens
from greatseal_idp.proofs import BEARER, Proofs

FORM = "application/x-www-form-urlencoded"


class InsufficientScope(Forbidden):
    """The token does not hold the scope of the route (s3.1)."""

    error = "insufficient_scope"


class BearerScheme(AuthScheme):
    """Proves the callers of routes with the rule Bearer, and that they hold the key to which a token is bound."""

    rule = Bearer

    def __init__(self, tokens: Tokens, proofs: Proofs) -> None:
        self._tokens = tokens
        self._proofs = proofs
        self._schemes: dict[str, str] = {}

    async def authenticate(self, call: Call) -> BearerCaller:
        scheme, text = await self._presented(call)
        if text is None:
            raise Unauthenticated("this needs an access token (RFC 6750 s3)", headers={"WWW-Authenticate": self._challenges()})
        token = await self._tokens.access(text)
        if token is None:
            raise InvalidToken("the access token is expired, revoked or not good here (RFC 6750 s3.1)", scheme=scheme)
        headers = await self._bound(call, scheme, text, token)
        rule = call.route.auth
        assert isinstance(rule, Bearer)
        try:
            require_scope(token, rule.scope, scheme)
        except Problem as problem:
            problem.headers |= dict(headers)
            raise
        return BearerCaller(subject=token.subject, token=token, headers=headers)

    def finish(self, call: Call, reply: Reply) -> Reply:
        try:
            caller = call.caller_as(BearerCaller)
        except LookupError:
            return reply
        return reply.with_headers(*caller.headers) if caller.headers else reply

    async def _bound(self, call: Call, scheme: str, text: str, token: AccessToken) -> Headers:
        """The headers of the binding, after it has proven the key of a bound token; a token goes with the scheme of its key alone."""
        cnf = token.claims.get("cnf")
        if cnf is None:
            if scheme != BEARER:
                raise InvalidToken("the access token is bound to no key; send it as Bearer (RFC 9449 s7.1)", scheme=scheme)
            return ()
        confirmation, value = next(iter(cnf.items())) if len(cnf) == 1 else ("", "")
        binding = self._proofs.bindings.get(confirmation)
        if binding is None:
            raise InvalidToken("the access token is bound to a key that cannot be proven here", scheme=scheme)
        if scheme != binding.scheme:
            raise InvalidToken(f"the access token is bound to a key; send it as {binding.scheme} (RFC 9449 s7)", scheme=binding.scheme)
        return await binding.check(call, text, token, value)

    async def _presented(self, call: Call) -> tuple[str, str | None]:
        """The scheme and the token of a request: in the Authorization header (s2.1) or in a form (s2.2), None when there is none.

        Raises BadRequest for two at once, and for one in the URL (RFC 9700 s4.3.2).
        """
        if "access_token" in call.query:
            raise BadRequest(
                "an access token in the URL is not read (RFC 9700 s4.3.2)",
                headers=_challenge(BEARER, "invalid_request", "a token in the URL"),
            )
        word, _, value = call.headers.get("Authorization", "").partition(" ")
        scheme = self._scheme(word)
        in_form = await _in_form(call)
        if scheme is None:
            return BEARER, in_form
        if in_form is not None:
            raise BadRequest("the access token was given twice (RFC 6750 s2)", headers=_challenge(scheme, "invalid_request", "two tokens"))
        return scheme, value.strip()

    def _scheme(self, word: str) -> str | None:
        """The scheme that a word in any case means (RFC 9110 s11.1), None for one of no token."""
        if not self._schemes:
            self._schemes = {one.lower(): one for one in (BEARER, *(one.scheme for one in self._proofs.bindings.values()))}
        return self._schemes.get(word.lower())

    def _challenges(self) -> str:
        others = (one.challenge() for one in self._proofs.bindings.values() if one.scheme != BEARER)
        return ", ".join(dict.fromkeys((BEARER, *others)))


def require_scope(token: AccessToken, scope: str, scheme: str = BEARER) -> None:
    """Raise InsufficientScope unless the token holds ``scope``; an empty one is always held."""
    if scope and scope not in token.scopes:
        detail = f"the access token needs the scope {scope} (RFC 6750 s3.1)"
        challenge = f'{_challenge(scheme, "insufficient_scope", detail)["WWW-Authenticate"]}, scope="{scope}"'
        raise InsufficientScope(detail, headers={"WWW-Authenticate": challenge})


async def _in_form(call: Call) -> str | None:
    """Read only where the route takes forms: a JSON body is not ours to look into."""
    if call.method != "POST" or FORM not in call.route.content_types:
        return None
    return Parameters.parse(await call.raw()).get("access_token")


def _challenge(scheme: str, error: str, description: str) -> dict[str, str]:
    return {"WWW-Authenticate": f'{scheme} error="{error}", error_description="{description}"'}
