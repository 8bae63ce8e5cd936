"""What becomes of a request that a ticket signs in and that is refused all the same."""

from contextlib import nullcontext
from types import SimpleNamespace

import structlog

from greatseal.api.http import Reply
from greatseal.api.identity import Authenticated, LoggedIn, NegotiateHeader
from greatseal.api.problems import Unavailable
from greatseal_idp.sessions.negotiation import Negotiation


class SignsIn:
    """Whoever comes, with a cookie."""

    async def attempt(self, call, credential):
        return Authenticated(username="alice", realm="LOCALHOST", amr=("kerberos",))

    async def complete(self, call, who, return_to):
        return LoggedIn(session=None, headers=(("Set-Cookie", "session"),), return_to="/")

    def arrived(self, call, session):
        return nullcontext()


async def test_a_refusal_after_the_ticket_goes_out_with_the_session_and_the_log_has_its_cause():
    host = SimpleNamespace(
        components=lambda kind: {"spnego": SimpleNamespace(credential=NegotiateHeader)}, log=structlog.get_logger("negotiation")
    )
    pages = SimpleNamespace(refusal=lambda problem, accept: Reply.text(problem.detail, status=problem.status))
    call = SimpleNamespace(headers={"Authorization": "Negotiate x"}, query={})

    async def refuse(call):
        raise Unavailable("the directory cannot be reached", cause="ldaps://ipa1 is silent")

    with structlog.testing.capture_logs() as lines:
        reply = await Negotiation(host, SignsIn(), pages).around(refuse)(call)

    assert (reply.status, reply.body) == (503, b"the directory cannot be reached")
    assert ("Set-Cookie", "session") in reply.headers
    assert [line["cause"] for line in lines] == ["ldaps://ipa1 is silent"]
