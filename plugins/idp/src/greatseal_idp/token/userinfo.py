"""/userinfo (OpenID Connect Core s5.3): the claims of the person whose token is presented."""

import orjson

from greatseal.api.clients import Clients
from greatseal.api.http import Bearer, Call, Reply, Route
from greatseal.api.identity import AccountRefused
from greatseal.api.tokens import BearerCaller, InvalidToken
from greatseal.host import Host
from greatseal_idp.claims import USERINFO_CLAIMS, Claims
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.extensions import Extensions
from greatseal_idp.proofs import Proofs
from greatseal_idp.signing import Signing
from greatseal_idp.token.bearer import FORM
from greatseal_idp.token.verify import signed_in_by

PATH = "/userinfo"


class UserInfo:
    """The UserInfo endpoint."""

    def __init__(
        self,
        host: Host,
        clients: Clients,
        claims: Claims,
        signing: Signing,
        directories: DirectoriesImpl,
        *,
        proofs: Proofs,
        extensions: Extensions,
    ) -> None:
        self._host = host
        self._clients = clients
        self._claims = claims
        self._signing = signing
        self._directories = directories
        self._proofs = proofs
        self._extensions = extensions

    def routes(self) -> list[Route]:
        """GET, and POST with the token in the header or in a form."""
        summary = "Claims of the person behind an access token (OpenID Connect Core s5.3)."
        return [
            Route(method, PATH, self.userinfo, style="oauth", auth=Bearer("openid"), content_types=(FORM,), summary=summary, cors=True)
            for method in ("GET", "POST")
        ]

    async def userinfo(self, call: Call) -> Reply:
        """JSON, or a signed JWT for a client that registered ``userinfo_signed_response_alg`` (s5.3.2)."""
        token = call.caller_as(BearerCaller).token
        try:
            await self._directories.account(token.subject, auth_time=signed_in_by(token.claims))
        except AccountRefused as problem:
            raise InvalidToken("the account may not sign in", scheme=self._proofs.scheme_of(token.claims.get("cnf"))) from problem
        client = await self._clients.get(token.client_id)
        wanted = await self._claims.named(token.claims.get(USERINFO_CLAIMS, ()), () if client is None else client.scopes)
        claims = {**await self._claims.of(token.subject, token.scopes, wanted), "sub": token.subject}
        alg = None if client is None else client.more.get("userinfo_signed_response_alg")
        if client is not None and alg in self._signing.algorithms:
            signed = await self._signing.jwt("JWT", {**claims, "iss": self._host.issuer, "aud": token.client_id}, alg=alg)
            signed = await self._extensions.seal("userinfo", client, signed)
            return Reply(body=signed.encode(), content_type="application/jwt")
        return Reply(body=orjson.dumps(claims), content_type="application/json")
