"""POST /token (RFC 6749 s3.2): the client is proven, its grant is redeemed, and what was committed is signed."""

from collections.abc import Container, Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec
import orjson

from greatseal.api.audit import AuditEvent
from greatseal.api.authorization import Ask
from greatseal.api.clients import ProvenRequest
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Refuse, Refused, Tx
from greatseal.api.tokens import Families, Grant, Granted, UnauthorizedClient
from greatseal.host import Host
from greatseal_idp.clients.registry import Registry
from greatseal_idp.extensions import NO_WISHES, Extensions, Wishes
from greatseal_idp.owners import owner_of_grant
from greatseal_idp.proofs import Proofs, headers_of, told
from greatseal_idp.token.issue import Issuer

REPEATABLE = frozenset({"resource", "audience"})
"""Of an exchange (RFC 8693 s2.1)."""
_NO_CACHE = ("Pragma", "no-cache")


class UnsupportedGrantType(BadRequest):
    """No plugin has this grant (RFC 6749 s5.2)."""

    error = "unsupported_grant_type"


class TokenEndpoint:
    """The token endpoint."""

    def __init__(
        self, host: Host, clients: Registry, families: Families, issuer: Issuer, *, proofs: Proofs, extensions: Extensions
    ) -> None:
        self._host = host
        self._clients = clients
        self._families = families
        self._issuer = issuer
        self._proofs = proofs
        self._extensions = extensions

    def routes(self) -> list[Route]:
        """/token, for scripts of other origins too."""
        return [
            Route(
                "POST",
                "/token",
                self.token,
                style="oauth",
                auth=Handler("the client proves itself by its registered method"),
                content_types=(),
                summary="Tokens for a grant (RFC 6749 s5.1).",
                owner=owner_of_grant(self._host),
                cors=True,
            )
        ]

    async def token(self, call: Call) -> Reply:
        """The token response."""
        request = await self._clients.authenticate(call)
        self._clients.fields.require_provided(request.client)
        if not self._proofs.bindings:
            return await self._answer(request)
        request = await self._proofs.prove(request)
        if not request.proofs:
            return await self._answer(request)
        with told(request):
            return await self._answer(request)

    async def _answer(self, request: ProvenRequest) -> Reply:
        self._proofs.require(request)
        grant = self._grant(request)
        asked = await self._asked(request) if self._extensions.asking else NO_WISHES
        if asked.scopeless:
            request = msgspec.structs.replace(request, scopeless=True)
        granted = await self._redeemed(grant, await grant.prepare(request), request, asked)
        response = await self._issuer.response(request.client, granted)
        headers = (_NO_CACHE, *request.match.headers, *(headers_of(request) if request.proofs else ()))
        return Reply(body=orjson.dumps(response), content_type="application/json", headers=headers)

    @cached_property
    def _grants(self) -> Mapping[str, Grant[Any]]:
        return self._host.components(Grant)

    def _grant(self, request: ProvenRequest) -> Grant[Any]:
        check_repeated(request.form, self._extensions.repeatable)
        grant_type = request.form.get("grant_type")
        if grant_type is None:
            raise BadRequest("grant_type is required (RFC 6749 s5.2)")
        grant = self._grants.get(grant_type)
        if grant is None:
            raise UnsupportedGrantType("this grant_type is not offered (RFC 6749 s5.2)")
        if grant_type not in request.client.grant_types:
            raise UnauthorizedClient("the client is not registered for this grant_type (RFC 6749 s5.2)")
        return grant

    async def _asked(self, request: ProvenRequest) -> Wishes:
        """What extensions make of this token request, before a code or a refresh token is looked at."""
        form = request.form
        return await self._extensions.ask(
            Ask(
                at="token",
                client=request.client,
                given=form,
                sent=form,
                remote=request.call.remote,
                grant_type=form["grant_type"],
                proven=request.proven,
            )
        )

    async def _redeemed(self, grant: Grant[Any], prepared: Any, request: ProvenRequest, asked: Wishes) -> Granted:
        """What the tokens are to say, after all that has to be is committed. Nothing is written where nothing has to be."""
        if not isinstance(prepared, Granted):
            result = await self._host.db.write(self._redeem, grant, prepared, request, asked)
            if isinstance(result, Refused):
                raise result.problem
            return result
        granted = bound(prepared, request)
        said = self._extensions.grant(granted, request, asked)
        events = self._events(said, request)
        if not events and not wants_family(granted):
            return said
        return await self._host.db.write(self._record, granted, said, events)

    def _redeem(self, tx: Tx, grant: Grant[Any], prepared: Any, request: ProvenRequest, asked: Wishes) -> Granted | Refused:
        result = grant.redeem(tx, prepared)
        if isinstance(result, Refused):
            return result
        granted = bound(result, request)
        try:
            said = self._extensions.grant(granted, request, asked)
        except Problem as problem:
            # Nothing was redeemed: the code stays good, the refresh token current.
            raise Refuse(problem) from problem
        return self._record(tx, granted, said, self._events(said, request))

    def _record(self, tx: Tx, granted: Granted, said: Granted, events: Iterable[AuditEvent]) -> Granted:
        """Write the events, and the family where one is to be opened: of what was granted, not of what this one token says."""
        for event in events:
            tx.audit(event)
        if not wants_family(granted):
            return said
        return msgspec.structs.replace(said, family=self._families.open(tx, granted))

    def _events(self, granted: Granted, request: ProvenRequest) -> tuple[AuditEvent, ...]:
        of_client = request.match.events(granted.scopes) if request.match.events is not None else ()
        return (*granted.events, *of_client)


def check_repeated(form: Parameters, repeatable: Container[str]) -> None:
    """No parameter comes twice (RFC 6749 s3.2), but those that may. Raises BadRequest."""
    for name in form:
        if name not in REPEATABLE and name not in repeatable and len(form.all(name)) > 1:
            raise BadRequest("a parameter was given twice (RFC 6749 s3.2)")


def wants_family(granted: Granted) -> bool:
    """Whether a refresh family is to be opened: only ever for ``offline_access`` (OpenID Connect Core s11)."""
    return granted.may_refresh and granted.family is None and "offline_access" in granted.scopes


def bound(granted: Granted, request: ProvenRequest) -> Granted:
    """The same, bound to the keys of the request: no grant says to which. Raises TypeError for tokens of another client."""
    if granted.client_id != request.client.client_id:
        raise TypeError(f"the grant {request.form['grant_type']} gave tokens to {granted.client_id!r}; they are for the client that asked")
    if not request.proofs and granted.cnf is None and not granted.bound:
        return granted
    return msgspec.structs.replace(granted, cnf=request.cnf, bound=request.bound)
