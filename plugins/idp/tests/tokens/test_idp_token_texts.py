"""Whatever text is sent as a token or a form: an answer, never a fault."""

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greatseal.api.problems import BadRequest
from greatseal.jose.compact import b64url_encode
from greatseal_idp.token.grants.authorization_code import answers

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
PARTS = st.sampled_from(["rt_n1_", "at_n1_", "ac_n1_", "_", ".", "n1", "A" * 43, "AQ", "=", "eyJhbGciOiJFUzI1NiJ9", "é", "\0", " ", "%"])
MEMBERS = st.sampled_from(["grant_type=", "refresh_token", "&", "=", "code=", "%", "+", "scope=a"])
FORMS = st.one_of(st.binary(max_size=60), st.lists(MEMBERS).map(lambda parts: "".join(parts).encode()))
TEXTS = st.one_of(st.text(max_size=40), st.lists(PARTS, max_size=8).map("".join))


@SHARED
@given(text=TEXTS)
async def test_no_text_is_taken_for_a_token(desk: Any, client: Any, text: str) -> None:
    tokens = desk.provider.tokens

    assert await tokens.access(text) is None
    assert await desk.provider.families.read(text) is None
    for kind in ("access_token", "id_token", "jwt"):
        assert await tokens.subject(text, f"urn:ietf:params:oauth:token-type:{kind}") is None


async def test_a_token_for_an_exchange_says_whose_it_is_and_of_which_sign_in(desk: Any, client: Any) -> None:
    subject = desk.provider.tokens.subject
    tokens, own = await desk.tokens(client, acr="gold"), (await desk.own_token(client)).json["access_token"]
    of_type = "urn:ietf:params:oauth:token-type:{}".format

    for kind in ("access_token", "id_token"):
        for of in (kind, "jwt"):
            found = await subject(tokens[kind], of_type(of))
            assert (found.subject, found.client_id, found.authentication.acr) == ("alice@LOCALHOST", client.client_id, "gold")
    assert (await subject(own, of_type("access_token"))).authentication is None
    assert await subject(tokens["access_token"], of_type("id_token")) is None
    await desk.session("s1")
    session = (await desk.tokens(client, session_id="s1"))["id_token"]
    assert (await subject(session, of_type("id_token"))).authentication.session_id == "s1"
    await desk.host.db.write(desk.provider.revocations.revoke, "session", "s1")
    assert await subject(session, of_type("id_token")) is None
    desk.clock.advance(3600)
    for kind in ("access_token", "id_token"):
        assert await subject(tokens[kind], of_type(kind)) is None
    for kind in ("refresh_token", "saml2", ""):
        with pytest.raises(BadRequest, match="not offered"):
            await subject(tokens["access_token"], of_type(kind))
    with pytest.raises(BadRequest, match="not offered"):
        await subject(tokens["access_token"], "access_token")


async def test_a_signed_answer_of_userinfo_is_no_id_token(desk: Any, client: Any) -> None:
    signed = await desk.provider.signing.jwt("JWT", {"iss": desk.host.issuer, "sub": "ada@users", "aud": client.client_id})

    for kind in ("id_token", "jwt"):
        assert await desk.provider.tokens.subject(signed, f"urn:ietf:params:oauth:token-type:{kind}") is None


@SHARED
@given(body=FORMS)
async def test_no_form_is_a_fault(desk: Any, client: Any, body: bytes) -> None:
    headers, _ = desk.credentials(client)

    answer = await desk.post("/token", data=body, headers={**headers, "Content-Type": "application/x-www-form-urlencoded"})

    assert answer.status == 400
    assert answer.error in {"invalid_request", "unsupported_grant_type", "invalid_grant", "unauthorized_client"}


@given(verifier=st.text("abcXYZ019-._~", min_size=43, max_size=128), other=st.text("abcXYZ019-._~", min_size=43, max_size=128))
def test_a_challenge_has_one_verifier(verifier: str, other: str) -> None:
    challenge = b64url_encode(sha256(verifier.encode()).digest())

    assert answers(verifier, challenge)
    assert answers(other, challenge) == (other == verifier)
