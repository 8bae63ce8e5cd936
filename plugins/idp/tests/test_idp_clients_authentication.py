"""How clients prove themselves, over HTTP. ``grant_type=none`` tells a proven client from one that is not."""

import asyncio
import base64
from hashlib import sha256
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_plus

import pytest

from greatseal.api.clients import Client, ClientAuthMethod, StoredSecret
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.clients import ClientAuthMethodContract
from greatseal_idp.clients.methods import ClientSecretBasic, ClientSecretPost, PublicClient
from greatseal_idp.clients.secrets import ClientSecrets

PROVEN = (400, "unsupported_grant_type")
NOT_PROVEN = (401, "invalid_client")
FORM = {"grant_type": "none"}
LONG = "x" * 21
"""Makes a chosen secret long enough."""


def basic(client_id: str, secret: str) -> dict[str, str]:
    return raw_basic(f"{quote_plus(client_id)}:{quote_plus(secret)}")


def raw_basic(text: str | bytes) -> dict[str, str]:
    content = text.encode() if isinstance(text, str) else text
    return {"Authorization": f"Basic {base64.b64encode(content).decode()}"}


@pytest.fixture
async def desk(open_idp: Any) -> Any:
    return await open_idp("client-auth-jwt", "resolver")


async def made(desk: Any, method: str, secret: str | None = None, **fields: Any) -> str:
    body = {"token_endpoint_auth_method": method, "redirect_uris": ["https://app.example/cb"], **fields}
    registered = await desk.provider.clients.register_body(
        body if secret is None else {**body, "client_secret": secret}, open=False, by="root"
    )
    client_id: str = registered.client.client_id
    return client_id


async def token(desk: Any, *, headers: dict[str, str] | None = None, **form: str) -> Any:
    return await desk.post("/token", headers=headers, data={**FORM, **form})


def outcome(answer: Any) -> tuple[int, str]:
    return answer.status, answer.json["error"]


@pytest.mark.parametrize("secret", ["plain", "a:b", "a%b", "100%25", "a+b", "a b", "ünïcode", "&=?/"])
async def test_s056_idp_028_basic_credentials_as_the_rfc_encodes_them(desk: Any, secret: str) -> None:
    secret += LONG
    client_id = await made(desk, "client_secret_basic", secret)
    assert outcome(await token(desk, headers=basic(client_id, secret))) == PROVEN
    assert outcome(await token(desk, headers=basic(client_id, secret), client_id=client_id)) == PROVEN
    assert outcome(await token(desk, headers=basic(client_id, secret + "x"))) == NOT_PROVEN


@pytest.mark.parametrize("secret", ["a+b", "100%", "a%zz", "ünïcode", "a:b"])
async def test_s056_many_clients_send_the_secret_plain(desk: Any, secret: str) -> None:
    secret += LONG
    client_id = await made(desk, "client_secret_basic", secret)
    assert outcome(await token(desk, headers=raw_basic(f"{client_id}:{secret}"))) == PROVEN


async def test_idp_029_a_secret_in_the_body(desk: Any) -> None:
    client_id = await made(desk, "client_secret_post", "chosen-by-somebody-1234")
    assert outcome(await token(desk, client_id=client_id, client_secret="chosen-by-somebody-1234")) == PROVEN
    assert outcome(await token(desk, client_id=client_id, client_secret="other")) == NOT_PROVEN
    assert outcome(await token(desk, client_id=client_id)) == NOT_PROVEN
    assert outcome(await token(desk, client_secret="chosen-by-somebody-1234")) == NOT_PROVEN
    assert outcome(await desk.post(f"/token?client_id={client_id}&client_secret=chosen-by-somebody-1234", data=FORM)) == NOT_PROVEN


async def test_idp_032_a_public_client_names_itself(desk: Any) -> None:
    client_id = await made(desk, "none")
    assert outcome(await token(desk, client_id=client_id)) == PROVEN
    assert outcome(await desk.post("/token", data=f"grant_type=none&client_secret=&client_id={client_id}", headers={
        "Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"})) == PROVEN  # fmt: skip
    assert outcome(await token(desk, client_id=client_id, client_secret="guess")) == NOT_PROVEN
    assert outcome(await token(desk, headers=basic(client_id, ""))) == NOT_PROVEN


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"])
async def test_idp_345_s057_the_method_used_is_the_registered_one(desk: Any, method: str) -> None:
    given = {"private_key_jwt": {"jwks_uri": "https://app.example/jwks"}, "none": {}}.get(method, {"secret": "chosen-by-somebody-1234"})
    client_id = await made(desk, method, **given)
    tried = {
        "client_secret_basic": {"headers": basic(client_id, "chosen-by-somebody-1234")},
        "client_secret_post": {"client_id": client_id, "client_secret": "chosen-by-somebody-1234"},
        "none": {"client_id": client_id},
    }
    for used, request in tried.items():
        assert outcome(await token(desk, **request)) == (PROVEN if used == method else NOT_PROVEN), used


@pytest.mark.parametrize("said", [None, False, True, "c1"])
async def test_what_is_no_match_proves_nobody(desk: Any, monkeypatch: pytest.MonkeyPatch, said: object) -> None:
    client_id = await made(desk, "client_secret_post", "chosen-by-somebody-1234")

    async def verify(_credentials: object, _client: Client) -> object:
        return said

    monkeypatch.setattr(desk.service.host("idp").components(ClientAuthMethod)["client_secret_post"], "verify", verify)

    for path in ("/token", "/introspect", "/revoke"):
        answer = await desk.post(path, data={**FORM, "client_id": client_id, "client_secret": "guess", "token": "x"})
        assert answer.status == 500, path


async def test_more_than_one_method_is_invalid_request(desk: Any) -> None:
    client_id = await made(desk, "client_secret_basic", "chosen-by-somebody-1234")
    both = await token(
        desk, headers=basic(client_id, "chosen-by-somebody-1234"), client_id=client_id, client_secret="chosen-by-somebody-1234"
    )
    without_id = await token(desk, headers=basic(client_id, "chosen-by-somebody-1234"), client_secret="chosen-by-somebody-1234")
    assert outcome(both) == outcome(without_id) == (400, "invalid_request")


async def test_a_client_id_beside_another_clients_header_is_invalid_request(desk: Any) -> None:
    client_id = await made(desk, "client_secret_basic", "chosen-by-somebody-1234")
    answer = await token(desk, headers=basic(client_id, "chosen-by-somebody-1234"), client_id=await made(desk, "none"))
    assert outcome(answer) == (400, "invalid_request")


@pytest.mark.parametrize(
    "header", ["Basic", "Basic ", "Basic !!!", "Basic YQ", "Basic YWJj", "Bearer abc", "Negotiate abc", "basic " + "A" * 3]
)
async def test_unreadable_and_foreign_headers_are_invalid_client(desk: Any, header: str) -> None:
    answer = await token(desk, headers={"Authorization": header})
    assert outcome(answer) == NOT_PROVEN
    assert answer.headers["WWW-Authenticate"] == f'Basic realm="{desk.url}", charset="UTF-8"'


async def test_credentials_that_are_not_utf_8_are_invalid_client(desk: Any) -> None:
    for content in (b"\xff:\xff", b"%ff:x", b"a:%ff", b"%00:%00", b"a%0d%0ab:x", b":", b"%ed%a0%80:x"):
        assert outcome(await token(desk, headers=raw_basic(content))) == NOT_PROVEN
    for client_id in ("\x00", "ä", "a\r\nb", "x" * 10_000):
        assert outcome(await token(desk, client_id=client_id, client_secret="x")) == NOT_PROVEN


async def test_a_challenge_answers_the_header_alone(desk: Any) -> None:
    client_id = await made(desk, "client_secret_post", "chosen-by-somebody-1234")
    assert "WWW-Authenticate" not in (await token(desk, client_id=client_id, client_secret="x")).headers
    assert "WWW-Authenticate" not in (await token(desk)).headers


async def test_the_same_words_for_an_unknown_client_and_a_wrong_secret(desk: Any) -> None:
    client_id = await made(desk, "client_secret_basic", "chosen-by-somebody-1234")
    wrong = await token(desk, headers=basic(client_id, "x"))
    unknown = await token(desk, headers=basic("somebody", "x"))
    long = await token(desk, headers=basic("x" * 300, "x"))
    assert wrong.text == unknown.text == long.text
    assert wrong.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "multipart/form-data; boundary=x", ""])
async def test_s059_another_media_type_is_invalid_request_and_never_parsed(desk: Any, content_type: str) -> None:
    client_id = await made(desk, "none")
    answer = await desk.post("/token", data=f"grant_type=none&client_id={client_id}".encode(), headers={"Content-Type": content_type})
    assert outcome(answer) == (400, "invalid_request")
    assert answer.headers["Cache-Control"] == "no-store"


async def test_a_changed_secret_counts_at_once(desk: Any) -> None:
    client_id = await made(desk, "client_secret_basic", "first" + LONG)
    assert outcome(await token(desk, headers=basic(client_id, "first" + LONG))) == PROVEN
    await desk.provider.clients.update(client_id, {"client_secret": "the second one of somebody"}, by="root")
    assert outcome(await token(desk, headers=basic(client_id, "first" + LONG))) == NOT_PROVEN
    assert outcome(await token(desk, headers=basic(client_id, "the second one of somebody"))) == PROVEN


async def test_a_deleted_client_is_invalid_client_at_once(desk: Any) -> None:
    client_id = await made(desk, "client_secret_basic", "chosen-by-somebody-1234")
    assert outcome(await token(desk, headers=basic(client_id, "chosen-by-somebody-1234"))) == PROVEN
    await desk.provider.clients.delete(client_id, by="root")
    assert outcome(await token(desk, headers=basic(client_id, "chosen-by-somebody-1234"))) == NOT_PROVEN


async def test_fifty_first_requests_at_once_with_a_chosen_secret_are_all_proven(desk: Any) -> None:
    client_id = await made(desk, "client_secret_basic", "a secret that somebody chose, 32 bytes")
    headers = basic(client_id, "a secret that somebody chose, 32 bytes")

    answers = await asyncio.gather(*(token(desk, headers=headers) for _ in range(50)))

    assert {outcome(answer) for answer in answers} == {PROVEN}


async def test_twenty_failures_of_a_client_in_a_minute_are_followed_by_429(open_idp: Any) -> None:
    clock = FakeClock(1_800_000_000_000_000)
    desk = await open_idp(clock=clock)
    client_id = await made(desk, "client_secret_basic", "chosen-by-somebody-1234")
    assert outcome(await token(desk, headers=basic(client_id, "chosen-by-somebody-1234"))) == PROVEN  # remembered: no Argon2id any more

    for _ in range(20):
        assert outcome(await token(desk, headers=raw_basic(f"{client_id}:guess"))) == NOT_PROVEN
    limited = await token(desk, headers=raw_basic(f"{client_id}:guess"))

    assert outcome(limited) == (429, "rate_limited")
    assert 0 < int(limited.headers["Retry-After"]) <= 60
    assert outcome(await token(desk, headers=basic(client_id, "chosen-by-somebody-1234"))) == PROVEN  # the client itself is not shut out
    assert outcome(await token(desk, headers=basic("somebody", "guess"))) == NOT_PROVEN  # nor is any other
    clock.advance(61)
    assert outcome(await token(desk, headers=raw_basic(f"{client_id}:guess"))) == NOT_PROVEN


async def test_a_right_secret_is_slow_once(desk: Any) -> None:
    client_id = await made(desk, "client_secret_basic", "chosen-by-somebody-1234")
    client = await desk.provider.clients.get(client_id)
    secrets = desk.provider.clients.secrets
    hashed = 0
    run = desk.service.kernel.blocking.run

    async def counted(pool: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal hashed
        hashed += pool == "argon2"
        return await run(pool, *args, **kwargs)

    desk.service.kernel.blocking.run = counted
    for _ in range(5):
        assert await secrets.is_right(client, ["chosen-by-somebody-1234"])
    assert hashed == 1
    assert not await secrets.is_right(client, ["other"])
    assert hashed == 2


# ---- The contract of every method

GENERATED = StoredSecret(form="sha256", value=sha256(b"a generated secret").digest())
SECRETS = ClientSecrets(SimpleNamespace())  # type: ignore[arg-type]  # a generated secret needs nothing of the host


class TestBasic(ClientAuthMethodContract):
    def method(self) -> ClientAuthMethod[Any]:
        return ClientSecretBasic(SECRETS)

    def client(self) -> Client:
        return Client(client_id="c1", token_endpoint_auth_method="client_secret_basic", secret=GENERATED)

    def send(self, call: FakeCall, form: dict[str, str], *, right: bool) -> None:
        call.headers.update(basic("c1", "a generated secret" if right else "a guess"))


class TestPost(ClientAuthMethodContract):
    def method(self) -> ClientAuthMethod[Any]:
        return ClientSecretPost(SECRETS)

    def client(self) -> Client:
        return Client(client_id="c1", token_endpoint_auth_method="client_secret_post", secret=GENERATED)

    def send(self, call: FakeCall, form: dict[str, str], *, right: bool) -> None:
        form |= {"client_id": "c1", "client_secret": "a generated secret" if right else "a guess"}


class TestPublic(ClientAuthMethodContract):
    proves = False

    def method(self) -> ClientAuthMethod[Any]:
        return PublicClient()

    def client(self) -> Client:
        return Client(client_id="c1", token_endpoint_auth_method="none")

    def send(self, call: FakeCall, form: dict[str, str], *, right: bool) -> None:
        form["client_id"] = "c1"
