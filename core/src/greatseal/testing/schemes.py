"""What every scheme that proves callers must do, as a test class to inherit."""

from abc import ABC, abstractmethod
from typing import ClassVar

import pytest

from greatseal.api.http import AuthScheme, Caller, Reply, Rule
from greatseal.api.problems import Problem
from greatseal.testing.calls import FakeCall

__all__ = ["AuthSchemeContract"]

JUNK = ("", " ", "x", "Basic", "Basic !!!", "Bearer", "Bearer a.b.c", "Negotiate", "Negotiate ////", "\0", "ä", "x" * 5_000)


class AuthSchemeContract(ABC):
    """Inherit, say how to make the scheme and how a caller proves itself, and the rest is tested.

    .. code-block:: python

        class TestOperators(AuthSchemeContract):
            def scheme(self):
                return OperatorScheme({fingerprint(CERTIFICATE): ("ann", "auditor")})

            async def call(self, *, right):
                call = FakeCall(route=Route("GET", "/admin/x", answer, auth=Operator(("auditor",))))
                call.connection.certificate = CERTIFICATE if right else ANOTHER
                return call
    """

    refused_with: ClassVar[frozenset[int]] = frozenset({401, 403})
    """The statuses of a caller who proves nothing, or the wrong thing."""

    @abstractmethod
    def scheme(self) -> AuthScheme:
        """The same one until the test ends, where it remembers anything."""

    @abstractmethod
    async def call(self, *, right: bool) -> FakeCall:
        """A new call on a route of the rule, of a caller who may call it, or with ``right`` False of one who looks like that and is not."""

    async def _refused(self, call: FakeCall) -> Problem:
        with pytest.raises(Problem) as refused:
            await self.scheme().authenticate(call)
        assert refused.value.status in self.refused_with, f"{refused.value!r}"
        return refused.value

    def test_declares_itself(self) -> None:
        rule = self.scheme().rule

        assert issubclass(rule, Rule)
        assert rule is not Rule

    async def test_whoever_proves_who_they_are_is_the_caller(self) -> None:
        callers = [await self.scheme().authenticate(await self.call(right=True)) for _ in range(2)]

        assert all(isinstance(caller, Caller) for caller in callers), f"{callers!r}"
        assert callers[0].subject
        assert callers[0].subject == callers[1].subject

    async def test_whoever_does_not_is_refused_in_the_same_words(self) -> None:
        told = [await self._refused(await self.call(right=False)) for _ in range(2)]

        assert told[0].detail
        assert told[0].detail == told[1].detail

    async def test_without_anything_nobody_is_let_in(self) -> None:
        right = await self.call(right=True)

        await self._refused(FakeCall(right.method, right.url, route=right.route))

    @pytest.mark.parametrize("header", ["Authorization", "Cookie", "Client-Cert"])
    async def test_what_cannot_be_read_is_refused_and_no_error(self, header: str) -> None:
        right = await self.call(right=True)
        for value in JUNK:
            await self._refused(FakeCall(right.method, right.url, route=right.route, headers=[(header, value)], content=value.encode()))

    async def test_finishing_adds_headers_alone(self) -> None:
        call = await self.call(right=True)
        call.caller = await self.scheme().authenticate(call)
        for done in (call, await self.call(right=False)):
            reply = Reply(status=418, body=b"what was said", content_type="text/plain", headers=(("X-Said", "yes"),))

            finished = self.scheme().finish(done, reply)

            assert (finished.status, finished.body, finished.content_type) == (reply.status, reply.body, reply.content_type)
            assert finished.headers[: len(reply.headers)] == reply.headers
