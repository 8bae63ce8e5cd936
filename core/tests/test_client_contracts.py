"""The contract of client authentication methods, driven by one of a few lines; and the CLIENTS of unit tests."""

from hashlib import sha256

import msgspec
import pytest

from greatseal.api.clients import (
    Client,
    ClientAuthMethod,
    ClientMatch,
    ClientResolver,
    InvalidClient,
    InvalidClientMetadata,
    InvalidRedirectUri,
    Registration,
    StoredSecret,
)
from greatseal.testing.calls import FakeCall
from greatseal.testing.clients import ClientAuthMethodContract, ClientResolverContract, FakeClients

PHRASE = "open sesame"
STORED = StoredSecret(form="sha256", value=sha256(PHRASE.encode()).digest())
CAVE = Client(client_id="cave", token_endpoint_auth_method="phrase", secret=STORED)


class Phrase(msgspec.Struct, frozen=True):
    client_id: str
    said: str


class Phrases(ClientAuthMethod[Phrase]):
    """A client says its phrase in a header of its own."""

    method = "phrase"
    secret_form = "digest"

    def check(self, registration):
        if registration.client.jwks is not None:
            raise InvalidClientMetadata("jwks: a client with a phrase has no keys")
        return registration.client

    def credentials(self, request):
        said = request.call.headers.get("Phrase")
        return None if said is None else Phrase(request.form.get("client_id", ""), said)

    def client_id(self, credentials):
        return credentials.client_id

    async def verify(self, credentials, client):
        if client.secret is None or sha256(credentials.said.encode()).digest() != client.secret.value:
            raise InvalidClient
        return ClientMatch(subject=client.client_id)


class TestPhrases(ClientAuthMethodContract):
    refused = (Registration(client=msgspec.structs.replace(CAVE, jwks={"keys": []}), open=True),)

    def method(self):
        return Phrases()

    def client(self):
        return CAVE

    def send(self, call, form, *, right):
        form["client_id"] = "cave"
        call.headers["Phrase"] = PHRASE if right else "open barley"


class Greedy(Phrases):
    def credentials(self, request):
        return Phrase("cave", PHRASE) if len(request.form) > 1 or request.call.headers else None


async def test_the_contract_notices_a_method_that_takes_what_others_send_and_believes_anybody():
    contract = TestPhrases()
    contract.method = Greedy

    with pytest.raises(AssertionError, match="another method answers too"):
        contract.test_credentials_that_other_methods_send_are_left_to_them()
    with pytest.raises(pytest.fail.Exception):
        await contract.test_wrong_credentials_are_refused_as_invalid_client()
    with pytest.raises(AssertionError, match="proved the client"):
        await contract.test_what_cannot_be_read_is_refused_and_no_error("an access token")


# ---- Resolvers

GUEST = Client(client_id="guest:1", token_endpoint_auth_method="none", source="guests")


class Guests(ClientResolver):
    name = "guests"
    known = GUEST

    async def resolve(self, client_id):
        return self.known if client_id == GUEST.client_id else None


class TestGuests(ClientResolverContract):
    client_id = GUEST.client_id
    unknown = ("guest:2", "guest:")

    def resolver(self):
        return Guests()


@pytest.mark.parametrize(
    "known",
    [
        None,
        {"client_id": GUEST.client_id},
        msgspec.structs.replace(GUEST, client_id="guest:2"),
        msgspec.structs.replace(GUEST, created_at=1),
    ],
)
async def test_the_contract_notices_a_resolver_that_gives_another_client(known):
    contract = TestGuests()
    contract.resolver = type("Wrong", (Guests,), {"known": known})

    with pytest.raises(AssertionError):
        await contract.test_a_client_is_found_by_its_id_and_is_the_same_each_time()


async def test_the_contract_notices_a_resolver_that_knows_everybody():
    class Wrong(Guests):
        async def resolve(self, client_id):
            return msgspec.structs.replace(GUEST, client_id=client_id)

    contract = TestGuests()
    contract.resolver = Wrong

    with pytest.raises(AssertionError):
        await contract.test_an_id_of_another_kind_is_nobody_and_no_error()


# ---- CLIENTS


async def test_the_fake_clients_are_proven_by_the_form():
    clients = FakeClients(CAVE, secrets={"cave": PHRASE})

    request = await clients.authenticate(FakeCall("POST", content=b"client_id=cave&client_secret=open+sesame&scope=email"))

    assert (request.client, request.form["scope"]) == (CAVE, "email")
    for wrong in (b"", b"client_id=cave", b"client_id=cave&client_secret=x", b"client_id=nobody"):
        with pytest.raises(InvalidClient):
            await clients.authenticate(FakeCall("POST", content=wrong))


async def test_a_client_registers_itself_and_is_changed_and_deleted():
    clients = FakeClients()
    body = {"redirect_uris": ["https://a.example/cb"], "scope": "openid email", "logo_uri": "https://a.example/logo"}

    made = await clients.register_body(body, open=True, by="open")

    client = made.client
    assert (client.source, client.scopes, client.more) == ("dynamic", ("openid", "email"), {"logo_uri": "https://a.example/logo"})
    assert (client.secret.form, made.client_secret.value) == ("sha256", clients.secrets[client.client_id])
    changed = await clients.update(client.client_id, {"client_name": "A", "logo_uri": None, "client_id": "other"}, by="root")
    assert (changed.client_id, changed.client_name, changed.more) == (client.client_id, "A", {})
    assert changed.redirect_uris == client.redirect_uris
    assert await clients.get(client.client_id) == changed
    assert await clients.update("nobody", {}, by="root") is None
    assert [await clients.delete(client.client_id, by="root") for _ in range(2)] == [True, False]


async def test_a_sealed_secret_can_be_read_and_no_other():
    clients = FakeClients()
    jwt = await clients.register_body({"token_endpoint_auth_method": "client_secret_jwt"}, open=True, by="open")
    post = await clients.register_body({"token_endpoint_auth_method": "client_secret_post"}, open=True, by="open")

    assert clients.secret(jwt.client).value == jwt.client_secret.value
    with pytest.raises(InvalidClient):
        clients.secret(post.client)


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"scope": ["openid"]}, InvalidClientMetadata),
        ({"scope": "introspect"}, InvalidClientMetadata),
        ({"kerberos_principal": "HTTP/a@A"}, InvalidClientMetadata),
        ({"redirect_uris": 7}, InvalidClientMetadata),
        ({"redirect_uris": ["https://a.example/#x"]}, InvalidRedirectUri),
    ],
)
async def test_what_an_open_registration_may_not_ask_for_is_refused(body, refusal):
    clients = FakeClients(scopes=("openid", "introspect"))

    with pytest.raises(refusal):
        await clients.register_body(body, open=True, by="open")
    assert not clients.clients
