"""Sign-in by ``Authorization: Negotiate`` (RFC 4559), where a page would ask for a password otherwise."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec

from greatseal.api.http import Call, Reply
from greatseal.api.identity import Authenticated, Authenticator, Continue, Denied, LoggedIn, NegotiateHeader, PasswordExpired
from greatseal.api.kerberos import NegotiateRefused
from greatseal.api.problems import Problem
from greatseal.host import Host
from greatseal_idp.pages.causes import log_cause
from greatseal_idp.pages.render import Pages
from greatseal_idp.sessions.login import LoginImpl

Handler = Callable[[Call], Awaitable[Reply]]


class Negotiation:
    """Signs in who sends the header, and has the request answered as theirs."""

    def __init__(self, host: Host, login: LoginImpl, pages: Pages) -> None:
        self._host = host
        self._login = login
        self._pages = pages

    def around(self, handler: Handler, *, done: Callable[[LoggedIn], Reply] | None = None) -> Handler:
        """``handler`` for whoever sends the header, or none. With ``done`` a sign-in is the answer, and the handler is for the others,
        whom it may ask for the header.

        A header that proves nobody counts as none; one that needs another leg is 401.
        """

        async def answer(call: Call) -> Reply:
            if not self._is_asked(call):
                reply = await handler(call)
                return self._challenged(call, reply) if done is not None else reply
            try:
                attempted = await self._login.attempt(call, NegotiateHeader(call=call))
            except (Denied, NegotiateRefused):
                return await handler(call)
            match attempted:
                case Authenticated():
                    return await self._go_on(call, attempted, handler, done)
                case Continue():
                    return Reply.empty(401).with_headers(*attempted.headers)
                case _:
                    return await handler(call)

        return answer

    def _is_asked(self, call: Call) -> bool:
        scheme = call.headers.get("Authorization", "").partition(" ")[0]
        if scheme.lower() != "negotiate":
            return False
        return any(one.credential is NegotiateHeader for one in self._host.components(Authenticator).values())

    def _challenged(self, call: Call, reply: Reply) -> Reply:
        """The page that signs people in, as a question to browsers that have more than a password."""
        found = dict.fromkeys(one.challenge(call) for one in self._host.components(Authenticator).values())
        challenges = tuple(("WWW-Authenticate", one) for one in found if one)
        if not challenges or reply.status != HTTPStatus.OK or "Authorization" in call.headers:
            return reply
        return msgspec.structs.replace(reply, status=401).with_headers(*challenges)

    async def _go_on(self, call: Call, who: Authenticated, handler: Handler, done: Callable[[LoggedIn], Reply] | None) -> Reply:
        return_to = call.query.get("return_to")
        completed = await self._login.complete(call, who, return_to)
        if isinstance(completed, PasswordExpired):
            return (await self._login.expired(call, completed, return_to)).with_headers(*who.headers)
        if not isinstance(completed, LoggedIn):
            return (await handler(call)).with_headers(*completed.headers)
        if done is not None:
            return done(completed).with_headers(*completed.headers)
        with self._login.arrived(call, completed.session):
            try:
                reply = await handler(call)
            except Problem as problem:  # said here, since the session's cookies go out with it
                log_cause(self._host, problem)
                reply = self._pages.refusal(problem, call.headers)
        return reply.with_headers(*completed.headers)
