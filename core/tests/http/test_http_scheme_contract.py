"""The contract of schemes, driven by one that reads a header and by some that break it."""

import pytest

from greatseal.api.http import AuthScheme, Caller, Route, Rule
from greatseal.api.problems import Conflict, Unauthenticated
from greatseal.testing.calls import FakeCall
from greatseal.testing.schemes import AuthSchemeContract


class Named(Rule, frozen=True):
    """Callers who say their name."""


class Naming(AuthScheme):
    rule = Named

    async def authenticate(self, call):
        name = call.headers.get("X-Name", "")
        if not name.isalpha():
            raise Unauthenticated("say your name")
        return Caller(subject=name)

    def finish(self, call, reply):
        return reply.with_headers(("X-Seen", "yes"))


class TestNaming(AuthSchemeContract):
    kind = Naming

    @pytest.fixture(autouse=True)
    def _scheme(self):
        self.made = self.kind()

    def scheme(self):
        return self.made

    async def call(self, *, right):
        route = Route("GET", "/a", None, auth=Named())
        return FakeCall(route=route, headers=[("X-Name", "ann" if right else "7")])


class Everybody(Naming):
    async def authenticate(self, call):
        return Caller(subject="somebody")


class Odd(Naming):
    """Another each time, nobody in particular, and refusals that are no refusals of callers."""

    count = 0
    rule = Rule

    async def authenticate(self, call):
        self.count += 1
        if not call.headers.get("X-Name", "").isalpha():
            raise (Unauthenticated if self.count % 2 else Conflict)(f"attempt {self.count}")
        return Caller(subject=f"somebody {self.count}")

    def finish(self, call, reply):
        return reply.with_headers(("X-Seen", "yes")) if self.count > 9 else type(reply)(status=200)


class Breaks(Naming):
    async def authenticate(self, call):
        return Caller(subject={"ann": "ann"}[call.headers["X-Name"]])


@pytest.mark.parametrize(
    ("kind", "promise", "arguments"),
    [
        (Odd, "whoever_proves_who_they_are_is_the_caller", ()),
        (Odd, "whoever_does_not_is_refused_in_the_same_words", ()),
        (Everybody, "whoever_does_not_is_refused_in_the_same_words", ()),
        (Everybody, "without_anything_nobody_is_let_in", ()),
        (Everybody, "what_cannot_be_read_is_refused_and_no_error", ("Authorization",)),
        (Breaks, "without_anything_nobody_is_let_in", ()),
        (Breaks, "what_cannot_be_read_is_refused_and_no_error", ("Cookie",)),
        (Odd, "finishing_adds_headers_alone", ()),
    ],
)
async def test_the_contract_notices_a_scheme_that_breaks_a_promise(kind, promise, arguments):
    contract = TestNaming()
    contract.made = kind()

    with pytest.raises((AssertionError, pytest.fail.Exception, KeyError)):
        await getattr(contract, f"test_{promise}")(*arguments)


def test_the_contract_notices_a_scheme_of_no_rule():
    contract = TestNaming()
    contract.made = Odd()

    with pytest.raises(AssertionError):
        contract.test_declares_itself()
