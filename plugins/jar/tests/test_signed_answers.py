"""Signed authorization responses. Over HTTP, in each mode: tests/system/oidc."""

import json

import pytest

from greatseal.api.authorization import Answer
from greatseal.api.clients import Client
from greatseal.jose.compact import parse_compact
from greatseal.testing import FakeClock
from greatseal.testing.extensions import ExtensionContract
from greatseal.testing.tokens import FakeTokens
from greatseal_jar.answers import SignedAnswers

NOW = 1_800_000_000


def client(**more):
    return Client(client_id="c1", token_endpoint_auth_method="none", more=more)


class TestSignedAnswers(ExtensionContract):
    client = client(authorization_signed_response_alg="ES256")

    def extension(self):
        return SignedAnswers(FakeClock(), FakeTokens())


@pytest.mark.parametrize("members", [{"code": "x", "state": "s"}, {"error": "access_denied"}])
async def test_an_answer_is_for_its_client_and_ten_minutes(members):
    tokens = FakeTokens()
    answers = SignedAnswers(FakeClock(NOW * 1_000_000), tokens)

    said = await answers.answer(Answer(client=client(), response_mode="jwt", members={**members, "iss": tokens.issuer}))

    assert said.keys() == {"response"}
    jws = parse_compact(said["response"])
    jws.verify(tokens.key.public_key())
    assert json.loads(jws.payload) == {**members, "iss": tokens.issuer, "aud": "c1", "exp": NOW + 600}


async def test_the_client_chooses_the_algorithm():
    answers = SignedAnswers(FakeClock(), FakeTokens())

    with pytest.raises(KeyError, match="RS256"):
        await answers.answer(Answer(client=client(authorization_signed_response_alg="RS256"), response_mode="jwt", members={}))
