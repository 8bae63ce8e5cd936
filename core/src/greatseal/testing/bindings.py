"""What every token binding must do, as a test class to inherit."""

import re
from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec
import pytest

from greatseal.api.clients import Client, ClientMatch, Proof, ProvenRequest
from greatseal.api.http import Call, Parameters
from greatseal.api.problems import Problem, Unauthenticated
from greatseal.api.tokens import AccessToken, TokenBinding
from greatseal.testing.calls import FakeCall

__all__ = ["TokenBindingContract", "asks_for_nothing"]

TOKEN = "an-access-token"  # noqa: S105  # nobody issued it
TOKEN_URL, RESOURCE_URL = "https://issuer.example/token", "https://issuer.example/userinfo"
_SCHEME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class TokenBindingContract(ABC):
    """Inherit, say how to make the binding and how a client proves a key, and the rest is tested.

    .. code-block:: python

        class TestDpop(TokenBindingContract):
            def binding(self):
                return Dpop(...)

            def prove(self, call, *, key, token=None):
                call.headers["DPoP"] = proof(key, call.method, call.url, token)
    """

    asking: ClassVar[Client | None] = None
    """A client that may not go without a key, where the binding knows such."""

    @abstractmethod
    def binding(self) -> TokenBinding:
        """A new one. Its URLs are those of ``https://issuer.example``."""

    @abstractmethod
    def prove(self, call: FakeCall, *, key: int, token: str | None = None) -> None:
        """Make ``call`` prove that it holds a key, number 0 or 1; at a resource together with the access token."""

    def spoil(self, call: FakeCall) -> None:
        """Make the proof of ``call`` a bad one. By default every header is changed; do nothing where each is the proof of another key."""
        for name, value in list(call.headers.items()):
            call.headers[name] = f"x{value}"

    def client(self) -> Client:
        """Who asks for tokens: by default whoever may not go without a key, else anybody."""
        return self.asking or Client(client_id="c1", token_endpoint_auth_method="client_secret_basic")  # noqa: S106

    def _request(self, key: int | None) -> ProvenRequest:
        call = FakeCall("POST", TOKEN_URL)
        if key is not None:
            self.prove(call, key=key)
        return self._of(call)

    def _of(self, call: Call) -> ProvenRequest:
        form = Parameters([("grant_type", "client_credentials")])
        return ProvenRequest(call=call, form=form, client=self.client(), match=ClientMatch(subject="c1"))

    async def _proof(self, key: int) -> Proof:
        request = self._request(key)
        assert self.binding().concerns(request), "a key was shown"
        found = await self.binding().prove(request)
        assert isinstance(found, Proof), f"prove returned {found!r} for a good proof; it returns a Proof"
        return found

    def _token(self, value: str) -> AccessToken:
        claims = {"cnf": {self.binding().confirmation: value}}
        return AccessToken(subject="c1", client_id="c1", scopes=frozenset(), expires_at=4_102_444_800_000_000, jti="1", claims=claims)

    def test_declares_itself(self) -> None:
        binding = self.binding()

        assert isinstance(binding.confirmation, str)
        assert binding.confirmation
        assert _SCHEME.fullmatch(binding.scheme), "scheme is a token (RFC 9110 s11.1)"
        assert binding.challenge().startswith(binding.scheme)
        assert asks_for_nothing(binding.fields)

    def test_nothing_is_missing_for_a_client_that_asks_for_nothing(self) -> None:
        plain = Client(client_id="c1", token_endpoint_auth_method="none")  # noqa: S106
        fields = self.binding().fields
        more = {field.name: field.default for field in msgspec.structs.fields(fields)} if fields else {}

        assert self.binding().missing(plain) is None
        assert self.binding().missing(msgspec.structs.replace(plain, more=more)) is None

    def test_a_key_is_missing_for_a_client_that_asks_for_it(self) -> None:
        if self.asking is None:
            pytest.skip("no client has to have a key")

        assert isinstance(self.binding().missing(self.asking), Problem), "missing returns the Problem, it does not raise it"

    async def test_nothing_is_proven_where_nothing_was_sent(self) -> None:
        request = self._request(None)

        assert not self.binding().concerns(request) or await self.binding().prove(request) is None

    async def test_a_key_is_proven_under_its_own_name_and_each_is_another(self) -> None:
        one, other = await self._proof(0), await self._proof(1)

        assert one.confirmation == other.confirmation == self.binding().confirmation
        assert one.value != other.value
        assert (await self._proof(0)).value == one.value

    async def test_a_bad_proof_is_refused_with_a_problem(self) -> None:
        call = FakeCall("POST", TOKEN_URL)
        self.prove(call, key=0)
        before = list(call.headers.items())
        self.spoil(call)
        if list(call.headers.items()) == before:
            pytest.skip("nothing of the proof is sent in a header")

        with pytest.raises(Problem) as refused:
            await self.binding().prove(self._of(call))
        assert 400 <= refused.value.status < 500

    async def test_the_key_of_a_token_is_accepted_at_a_resource(self) -> None:
        proof = await self._proof(0)
        if not proof.access:
            pytest.skip("no access token is bound to it")
        call = FakeCall("GET", RESOURCE_URL)
        self.prove(call, key=0, token=TOKEN)

        headers = await self.binding().check(call, TOKEN, self._token(proof.value), proof.value)

        assert all(isinstance(name, str) and isinstance(value, str) for name, value in headers)

    @pytest.mark.parametrize("key", [None, 1], ids=["no key", "another key"])
    async def test_whoever_does_not_hold_the_key_is_refused_and_told_how(self, key: int | None) -> None:
        proof = await self._proof(0)
        call = FakeCall("GET", RESOURCE_URL)
        if key is not None:
            self.prove(call, key=key, token=TOKEN)

        with pytest.raises(Unauthenticated) as refused:
            await self.binding().check(call, TOKEN, self._token(proof.value), proof.value)
        assert refused.value.headers.get("WWW-Authenticate", "").startswith(self.binding().scheme)


def asks_for_nothing(fields: type[msgspec.Struct] | None) -> bool:
    """Whether the members of a client that a component brings may all be left out."""
    return fields is None or not any(field.required for field in msgspec.structs.fields(fields))
