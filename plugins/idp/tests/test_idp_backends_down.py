"""A component of another plugin whose own server is down: 503 for whoever asks, and nothing about that server but in the log."""

import sys

import pytest

from greatseal.testing.distributions import install

SHAKY = """
from greatseal import hookimpl
from greatseal.api.problems import DnsFailure, IncorrectResponse, TlsFailure, Unreachable
from greatseal.api.clients import ClientAuthMethod, ClientMatch, ClientResolver
from greatseal.api.directory import Directory, Tier
from greatseal.api.identity import Authenticator, LoginOptions, NotMine, Password
from greatseal.api.tokens import ClaimsProvider, Grant, GrantCheck

WHERE = "https://ldap7.internal.example:636/secret"
DOWN = {
    "connection": Unreachable(f"{WHERE}: connection refused"),
    "dns": DnsFailure(f"{WHERE}: NXDOMAIN"),
    "tls": TlsFailure(f"{WHERE}: bad certificate"),
    "answer": IncorrectResponse(f"{WHERE}: status 500"),
    "refused": ConnectionRefusedError(111, f"Connection refused by {WHERE}"),
    "silent": TimeoutError(WHERE),
}
FACTS = {"part": "", "how": "connection"}


def ask(part):
    if FACTS["part"] == part:
        raise DOWN[FACTS["how"]]


class Check(Authenticator):
    name = "shaky"
    credential = Password

    async def attempt(self, credential, context):
        ask("authenticator")
        return NotMine()


class People(Directory):
    name = "shaky"
    tier = Tier.STATIC
    realm = "LOCALHOST"

    async def user(self, username):
        ask("directory")

    async def users(self, prefix, limit, after=""):
        ask("users")
        return []

    async def group(self, name):
        ask("group")

    async def groups(self, prefix, limit, after=""):
        ask("groups")
        return []


class Known(ClaimsProvider):
    name = "shaky"
    claims = frozenset({"nickname"})

    async def of(self, subject, wanted):
        ask("claims")
        return {}


class Gate(GrantCheck):
    name = "shaky"

    async def check(self, question):
        ask(f"check {question.phase}")
        return question.scopes


class Elsewhere(LoginOptions):
    name = "shaky"

    async def options(self, context):
        return []

    async def hint(self, username):
        ask("hint")


class Guests(ClientResolver):
    name = "shaky"

    async def resolve(self, client_id):
        ask("resolver")


class Ticket(ClientAuthMethod):
    method = "shaky"

    def credentials(self, request):
        return request.form.get("ticket")

    def client_id(self, credentials):
        return credentials

    async def prove(self, credentials):
        ask("prove")
        return credentials

    async def find(self, clients, credentials):
        ask("find")
        return await super().find(clients, credentials)

    async def verify(self, credentials, client):
        ask("verify")
        return ClientMatch(subject=client.client_id)


class Given(Grant):
    grant_type = "urn:example:shaky"

    async def prepare(self, request):
        ask("grant")


class Plugin:
    authenticators = directories = claims = grant_checks = login_options = client_resolvers = client_auth_methods = grants = None


for hook, component in {
    "authenticators": Check, "directories": People, "claims": Known, "grant_checks": Gate, "login_options": Elsewhere,
    "client_resolvers": Guests, "client_auth_methods": Ticket, "grants": Given,
}.items():
    setattr(Plugin, hook, hookimpl(lambda self, host, component=component: [component()]))
    getattr(Plugin, hook).__name__ = hook
"""
ADMINS = {"role": [{"name": "administrator", "permissions": ["*"], "groups": ["admins"]}]}
HOWS = ("connection", "dns", "tls", "answer", "refused", "silent")
HTML = {"Accept": "text/html"}


@pytest.fixture
async def desk(open_idp, tmp_path):
    return await open_idp(install(tmp_path / "installed", "greatseal-shaky", SHAKY), rbac=ADMINS)


async def registered(desk, cookie):
    body = {
        "token_endpoint_auth_method": "shaky",
        "grant_types": ["client_credentials", "urn:example:shaky"],
        "scopes": ["groups"],
    }
    answer = await desk.post("/api/admin/clients", cookie=cookie, json=body)
    assert answer.status == 201, answer.text
    return answer.json["client_id"]


async def requests_that_ask(desk):
    """The part that is asked, and the request that asks it."""
    cookie = await desk.cookie("bob")
    client_id = await registered(desk, cookie)
    form = await desk.get("/ui/auth/login")
    fields = {"username": "carol", "password": "x", "form_token": form.text.partition('name="form_token" value="')[2].partition('"')[0]}
    page = {"data": fields, "cookie": form.headers["Set-Cookie"].partition(";")[0], "headers": HTML}
    token = {"grant_type": "client_credentials", "ticket": client_id}
    wrong = {"json": {"username": "carol", "password": "x"}}
    right = {"json": {"username": "bob", "password": "builder"}}
    return [
        ("authenticator", "POST", "/api/auth/login", wrong),
        ("authenticator", "POST", "/login", page),
        ("check login", "POST", "/api/auth/login", right),
        ("check client", "POST", "/token", {"data": token}),
        ("prove", "POST", "/token", {"data": token}),
        ("find", "POST", "/token", {"data": token}),
        ("verify", "POST", "/par", {"data": token}),
        ("grant", "POST", "/token", {"data": {**token, "grant_type": "urn:example:shaky"}}),
        ("resolver", "POST", "/token", {"data": {**token, "ticket": "stranger"}}),
        ("hint", "GET", "/api/auth/federated-hint?username=carol", {}),
        ("directory", "GET", "/api/admin/users/carol", {"cookie": cookie}),
        ("users", "GET", "/api/admin/users", {"cookie": cookie}),
        ("groups", "GET", "/api/admin/groups", {"cookie": cookie}),
        ("group", "GET", "/api/admin/groups/none", {"cookie": cookie}),
    ]


async def test_nobody_sees_a_server_of_a_plugin_that_is_down(desk):
    shaky = sys.modules["greatseal_shaky"]
    asked = await requests_that_ask(desk)
    for part, method, path, request in asked:
        for how in HOWS:
            shaky.FACTS.update(part=part, how=how)
            answer = await desk.ask(method, path, **request)
            shaky.FACTS.update(part="")

            assert (answer.status, "Retry-After" in answer.headers) == (503, True), (part, how, answer.status, answer.text)
            assert "internal" not in answer.text + str(answer.headers), (part, how)
            assert "needed for this cannot be reached now" in answer.text, (part, how)


async def test_claims_that_cannot_be_had_make_no_answer_without_them(desk):
    shaky = sys.modules["greatseal_shaky"]
    claims = desk.provider.claims
    await desk.cookie("bob")
    shaky.FACTS.update(part="claims")

    with pytest.raises(Exception, match="cannot be reached now") as raised:
        await claims.of("alice@LOCALHOST", (), wanted=("nickname",))

    assert (raised.value.status, shaky.WHERE in raised.value.cause, shaky.WHERE in raised.value.detail) == (503, True, False)


async def test_an_attempt_whose_backend_was_down_is_no_failure_of_the_person(desk):
    shaky = sys.modules["greatseal_shaky"]
    shaky.FACTS.update(part="authenticator", how="silent")
    for _ in range(7):
        assert (await desk.login("carol", "x")).status == 503
    shaky.FACTS.update(part="")

    assert [(await desk.login("carol", "x")).status for _ in range(6)] == [401] * 5 + [429]
