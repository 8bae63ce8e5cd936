"""Tokens that are bound to a key: who must have one gets no other, and who does not hold the key has nothing of it."""

from typing import Any

import msgspec
import pytest

from greatseal.api.clients import Client, Proof
from greatseal.api.problems import BadRequest, StartProblem
from greatseal.api.tokens import Grant, Granted, InvalidToken, TokenBinding
from greatseal.testing.bindings import TokenBindingContract
from greatseal.testing.desk import bearer

ADMINS = {"role": [{"name": "administrator", "permissions": ["*"], "groups": ["admins"]}]}


class KeyFields(msgspec.Struct, frozen=True, kw_only=True):
    key_bound: bool = False


class Keys(TokenBinding):
    """The key is what the header says: here nobody lies."""

    confirmation = "jkt"
    scheme = "Key"
    fields: Any = KeyFields

    async def prove(self, request: Any) -> Any:
        sent = request.call.header_values("Key")
        if not sent:
            return None
        if len(sent) > 1 or not sent[0].startswith("k"):
            raise BadRequest("this is no proof", headers={"Key-Nonce": "fresh"})
        public = request.client.token_endpoint_auth_method == "none"
        return Proof(confirmation="jkt", value=sent[0], refresh=public, headers=(("Key-Nonce", "next"),))

    def missing(self, client: Client) -> Any:
        return BadRequest("this client must prove a key") if client.more.get("key_bound") is True else None

    async def check(self, call: Any, text: str, token: Any, value: str) -> Any:
        if call.header_values("Key") != (value,):
            raise InvalidToken("the access token is bound to another key", scheme="Key")
        return (("Key-Nonce", "next"),)

    def challenge(self) -> str:
        return 'Key algs="none"'


class SealFields(msgspec.Struct, frozen=True, kw_only=True):
    seal_bound: bool = False


class Seals(Keys):
    """Another kind of key, which goes with Bearer."""

    confirmation = "x5t#S256"
    scheme = "Bearer"
    fields = SealFields

    async def prove(self, request: Any) -> Any:
        sent = request.call.headers.get("Seal")
        return sent and Proof(confirmation=self.confirmation, value=sent)

    def missing(self, client: Client) -> Any:
        return BadRequest("this client must show its seal") if client.more.get("seal_bound") is True else None

    async def check(self, call: Any, text: str, token: Any, value: str) -> Any:
        if call.headers.get("Seal") != value:
            raise InvalidToken("the access token is bound to another seal")
        return ()


class Instances(TokenBinding):
    """A key for refresh tokens alone."""

    confirmation = "instance"

    async def prove(self, request: Any) -> Any:
        sent = request.call.headers.get("Instance")
        return sent and Proof(confirmation="instance", value=sent, access=False, refresh=True)

    async def check(self, call: Any, text: str, token: Any, value: str) -> Any:
        raise InvalidToken("no access token is bound to an instance")


class TestKeys(TokenBindingContract):
    asking = Client(client_id="c1", token_endpoint_auth_method="none", more={"key_bound": True})

    def binding(self) -> TokenBinding:
        return Keys()

    def prove(self, call: Any, *, key: int, token: str | None = None) -> None:
        call.headers["Key"] = f"k{key}"


@pytest.fixture
def bound(start_desk: Any, parts: Any) -> Any:
    """``await bound(Keys(), ...)``: a desk of a service with these bindings."""

    async def start(*components: object, **sections: Any) -> Any:
        return await start_desk(parts(*components), **sections)

    return start


async def redeem(desk: Any, client: Any, code: str | None = None, **headers: str) -> Any:
    form = {"grant_type": "authorization_code", "code": code or await desk.code(client), "redirect_uri": client.redirect_uris[0]}
    return await desk.form("/token", client, form, headers)


async def refresh(desk: Any, client: Any, token: str, **headers: str) -> Any:
    return await desk.form("/token", client, {"grant_type": "refresh_token", "refresh_token": token}, headers)


async def userinfo(desk: Any, authorization: str, **headers: str) -> Any:
    return await desk.get("/userinfo", headers={"Authorization": authorization, **headers})


async def test_a_token_says_the_key_that_its_request_proved(bound: Any) -> None:
    desk = await bound(Keys(), Seals())
    client = await desk.client()

    answer = await redeem(desk, client, Key="k1")
    plain = (await redeem(desk, client)).json
    own = (await desk.form("/token", client, {"grant_type": "client_credentials"}, {"Seal": "s"})).json

    assert answer.status == 200, answer.text
    assert answer.headers["Key-Nonce"] == "next"
    assert answer.json["token_type"] == "Key"
    assert desk.read(answer.json["access_token"]).claims["cnf"] == {"jkt": "k1"}
    assert (plain["token_type"], "cnf" in desk.read(plain["access_token"]).claims) == ("Bearer", False)
    assert (own["token_type"], desk.read(own["access_token"]).claims["cnf"]) == ("Bearer", {"x5t#S256": "s"})
    shown = await desk.introspect(client, answer.json["access_token"])
    assert (shown["cnf"], shown["token_type"]) == ({"jkt": "k1"}, "Key")


@pytest.mark.parametrize("grant", ["authorization_code", "client_credentials", "refresh_token"])
async def test_who_must_have_a_bound_token_gets_no_other_whatever_the_grant(bound: Any, grant: str) -> None:
    desk = await bound(Keys())
    client = await desk.client(more={"key_bound": True})
    first = await redeem(desk, client, code := await desk.code(client), Key="k1")
    token = first.json["refresh_token"]
    code = await desk.code(client)
    forms = {
        "authorization_code": {"code": code, "redirect_uri": client.redirect_uris[0]},
        "client_credentials": {},
        "refresh_token": {"refresh_token": token},
    }

    without = await desk.form("/token", client, {"grant_type": grant, **forms[grant]})
    again = await desk.form("/token", client, {"grant_type": grant, **forms[grant]}, {"Key": "k2"})

    assert (without.status, without.error) == (400, "invalid_request")
    assert again.status == 200, "nothing was burned by the refusal"
    assert desk.read(again.json["access_token"]).claims["cnf"] == {"jkt": "k2"}


class Silent(Keys):
    """Never proves what its clients must prove."""

    async def prove(self, request: Any) -> Any:
        return None


class Confused(Keys):
    """Proves in the name of another."""

    async def prove(self, request: Any) -> Any:
        return Proof(confirmation="x5t#S256", value="k1")


class Own(Grant[msgspec.Struct]):
    """Says by itself what its tokens are bound to."""

    grant_type = "urn:own"

    async def prepare(self, request: Any) -> Granted:
        return Granted(subject="c", client_id=request.client.client_id, scopes=("api",), cnf={"jkt": "k9"}, bound={"jkt": "k9"})


class Shy(Keys):
    """Says that a key is missing, and not why."""

    def missing(self, client: Client) -> Any:
        return True


class Told(Keys):
    """Returns the key itself."""

    async def prove(self, request: Any) -> Any:
        return "k1"


@pytest.mark.parametrize(
    ("binding", "status", "said"),
    [
        (Silent(), 400, ""),
        (Confused(), 500, "(token binding 'jkt') proved 'x5t#S256'; prove returns a Proof of its own confirmation, or None"),
        (Told(), 500, ": token_bindings 'jkt': prove returned 'k1'; what it returns is a Proof or None"),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_a_binding_that_breaks_its_promise_gives_no_token(bound: Any, capsys: Any, binding: Any, status: int, said: str) -> None:
    desk = await bound(binding)
    client = await desk.client(more={"key_bound": True})

    answer = await redeem(desk, client, Key="k1")

    assert answer.status == status
    assert "access_token" not in answer.json
    assert said in " ".join(capsys.readouterr().out.split())


async def test_a_binding_that_says_that_a_key_is_missing_says_why(bound: Any) -> None:
    desk = await bound(Shy())

    with pytest.raises(TypeError, match=r"\(token binding 'jkt'\): missing returned True; it returns a Problem or None$"):
        await desk.client(more={"key_bound": True})


class PromisingFields(msgspec.Struct, frozen=True, kw_only=True):
    dpop_bound_access_tokens: bool = False


class Promising(Silent):
    """Brings a member that the core keeps, and neither proves nor refuses."""

    fields = PromisingFields

    def missing(self, client: Client) -> Any:
        return None


async def test_a_client_that_gets_bound_tokens_alone_gets_none_of_a_silent_binding_which_is_named(bound: Any, capsys: Any) -> None:
    desk = await bound(Promising())
    client = await desk.client(more={"dpop_bound_access_tokens": True})

    answer = await redeem(desk, client, Key="k1")

    assert (answer.status, answer.error) == (400, "unauthorized_client")
    assert "(token binding 'jkt') gave neither a proof nor, from missing, a refusal" in " ".join(capsys.readouterr().out.split())


class Generous(Grant[msgspec.Struct]):
    """Gives tokens to another client than the one that asks."""

    grant_type = "urn:generous"

    async def prepare(self, request: Any) -> Granted:
        return Granted(subject="c", client_id="somebody-else", scopes=("api",))


async def test_no_grant_gives_tokens_in_the_name_of_another_client(bound: Any) -> None:
    desk = await bound(Generous())
    client = await desk.client(grant_types=("urn:generous",))

    answer = await desk.form("/token", client, {"grant_type": "urn:generous"})

    assert (answer.status, "access_token" in answer.json) == (500, False)


async def test_no_grant_says_what_its_tokens_are_bound_to(bound: Any) -> None:
    desk = await bound(Keys(), Own())
    client = await desk.client(grant_types=("urn:own",))

    plain = (await desk.form("/token", client, {"grant_type": "urn:own"})).json
    proven = (await desk.form("/token", client, {"grant_type": "urn:own"}, {"Key": "k1"})).json

    assert (plain["token_type"], "cnf" in desk.read(plain["access_token"]).claims) == ("Bearer", False)
    assert desk.read(proven["access_token"]).claims["cnf"] == {"jkt": "k1"}


async def test_two_keys_of_one_token_are_refused_and_nothing_is_dropped(bound: Any) -> None:
    desk = await bound(Keys(), Seals(), Instances())
    client = await desk.client()
    code = await desk.code(client)

    both = await redeem(desk, client, code, Key="k1", Seal="s")
    beside = await redeem(desk, client, code, Key="k1", Instance="i")

    assert (both.status, both.error, both.headers["Key-Nonce"]) == (400, "invalid_request", "next")
    assert desk.read(beside.json["access_token"]).claims["cnf"] == {"jkt": "k1"}
    assert (await desk.introspect(client, beside.json["refresh_token"]))["cnf"] == {"instance": "i"}


async def test_every_refresh_proves_the_keys_of_its_family(bound: Any) -> None:
    desk = await bound(Keys(), Instances())
    client = await desk.client(method="none")
    token = (await redeem(desk, client, Key="k1", Instance="i")).json["refresh_token"]

    for headers in ({}, {"Key": "k1"}, {"Instance": "i"}, {"Key": "k2", "Instance": "i"}, {"Key": "k1", "Instance": "j"}):
        refused = await refresh(desk, client, token, **headers)
        assert (refused.status, refused.error) == (400, "invalid_grant"), headers
    good = await refresh(desk, client, token, Key="k1", Instance="i")

    assert good.status == 200, "the refusals were no replay"
    assert desk.read(good.json["access_token"]).claims["cnf"] == {"jkt": "k1"}


async def test_a_client_that_proves_itself_may_change_its_key(bound: Any) -> None:
    desk = await bound(Keys())
    client = await desk.client()
    token = (await redeem(desk, client, Key="k1")).json["refresh_token"]

    answer = await refresh(desk, client, token, Key="k2")

    assert desk.read(answer.json["access_token"]).claims["cnf"] == {"jkt": "k2"}


async def test_a_key_that_nobody_can_prove_any_more_is_503_and_the_token_stays_good(
    bound: Any, start_desk: Any, fresh_database: Any, tmp_path: Any
) -> None:
    sections = {"database": {"url": fresh_database()}, "cluster": {"key_file": str(tmp_path / "kept.key")}}
    desk = await bound(Keys(), **sections)
    client = await desk.client(method="none")
    tokens = (await redeem(desk, client, Key="k1")).json
    await desk.service.stop()

    without = await start_desk(**sections)
    answer = await refresh(without, client, tokens["refresh_token"], Key="k1")
    resource = await userinfo(without, f"Key {tokens['access_token']}", Key="k1")

    assert answer.status == 503, answer.text
    assert (resource.status, "Key" in resource.headers["WWW-Authenticate"]) == (401, False)


async def test_a_bound_token_goes_with_the_scheme_and_the_key_alone(bound: Any) -> None:
    desk = await bound(Keys(), Seals())
    client = await desk.client()
    token = (await redeem(desk, client, Key="k1")).json["access_token"]
    sealed = (await redeem(desk, client, Seal="s")).json["access_token"]
    plain = (await redeem(desk, client)).json["access_token"]

    for scheme in ("Key", "key", "KEY"):
        good = await userinfo(desk, f"{scheme} {token}", Key="k1")
        assert (good.status, good.headers["Key-Nonce"]) == (200, "next")
    assert (await userinfo(desk, f"Bearer {sealed}", Seal="s")).status == 200
    refusals = {
        f"Bearer {token}": "Key",
        f"Key {plain}": "Key",
        f"Key {sealed}": "Bearer",
        f"Bearer {sealed}": "Bearer",
        "Key nonsense": "Key",
    }
    for authorization, scheme in refusals.items():
        refused = await userinfo(desk, authorization, Key="k1")
        assert (refused.status, refused.error) == (401, "invalid_token"), authorization
        assert refused.headers["WWW-Authenticate"].startswith(f'{scheme} error="invalid_token"'), authorization
    other = await userinfo(desk, f"Key {token}", Key="k2")
    assert (other.status, other.error) == (401, "invalid_token")
    nobody = await desk.get("/userinfo")
    assert nobody.headers["WWW-Authenticate"] == 'Bearer, Key algs="none"'


async def test_a_refusal_after_the_proof_has_its_headers(bound: Any) -> None:
    desk = await bound(Keys())
    client = await desk.client()
    token = (await redeem(desk, client, await desk.code(client, scopes=("email",)), Key="k1")).json["access_token"]

    late = await redeem(desk, client, "ac_n1_unknown", Key="k1")
    early = await redeem(desk, client, Key="nonsense")
    scope = await userinfo(desk, f"Key {token}", Key="k1")

    assert (late.error, late.headers["Key-Nonce"]) == ("invalid_grant", "next")
    assert (early.error, early.headers["Key-Nonce"]) == ("invalid_request", "fresh")
    assert (scope.status, scope.headers["Key-Nonce"]) == (403, "next")
    assert scope.headers["WWW-Authenticate"].startswith('Key error="insufficient_scope"')


async def test_scripts_of_other_origins_may_send_proofs_and_read_what_comes_back(bound: Any) -> None:
    desk = await bound(Keys())
    origin = {"Origin": "https://app.example"}

    preflight = await desk.ask("OPTIONS", "/token", headers={**origin, "Access-Control-Request-Method": "POST"})
    client = await desk.client()
    token = (await redeem(desk, client, await desk.code(client, scopes=("email",)), Key="k1")).json["access_token"]
    refused = await userinfo(desk, f"Key {token}", Key="k1", **origin)

    assert preflight.headers["Access-Control-Allow-Headers"] == "*, Authorization"
    assert refused.headers["Access-Control-Expose-Headers"] == "WWW-Authenticate, Key-Nonce"


async def test_the_members_of_a_client_that_a_binding_brings(open_admin: Any, parts: Any) -> None:
    admin = await open_admin(parts(Keys(), Seals()))

    plain = await admin.client(key_bound=False)
    asking = await admin.client(key_bound=True)
    both = await admin.post("clients", {**BODY, "key_bound": True, "seal_bound": True})
    wrong = await admin.post("clients", {**BODY, "key_bound": "yes"})
    back = (await admin.put(f"clients/{asking['client_id']}", {"key_bound": None})).json

    assert (plain["key_bound"], asking["key_bound"], back["key_bound"]) == (False, True, False)
    assert (both.status, both.error) == (400, "invalid_client_metadata")
    assert both.json["error_description"] == "a token is bound to one key, and this client asks for jkt and x5t#S256 (RFC 7800 s3.1)"
    assert wrong.json["error_description"].startswith("key_bound: Expected bool")


BODY = {"client_name": "App", "redirect_uris": ["https://app.example/cb"], "scopes": ["openid"], "token_endpoint_auth_method": "none"}


class Required(msgspec.Struct, frozen=True, kw_only=True):
    other: str


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (KeyFields, "'key_bound' comes from plugin 'parts0' (token binding 'jkt') and from plugin 'parts0'"),
        (Required, "plugin 'parts0' (token binding 'x5t#S256'): the client member 'other' has no default; give it"),
    ],
)
async def test_members_that_cannot_be_kept_stop_the_start(open_idp: Any, parts: Any, fields: Any, said: str) -> None:
    seals = Seals()
    seals.fields = fields

    with pytest.raises(StartProblem) as raised:
        await open_idp(parts(Keys(), seals))
    assert said in str(raised.value)


async def test_a_binding_that_two_distributions_bring_stops_the_start(open_idp: Any, parts: Any) -> None:
    with pytest.raises(
        StartProblem, match="token_bindings: 'jkt' comes from plugin 'parts0' and from plugin 'parts1'; disable one of them"
    ):
        await open_idp(parts(Keys()), parts(Keys()))


async def test_an_unbound_token_is_still_one(bound: Any) -> None:
    desk = await bound(Keys())
    client = await desk.client()
    token = (await redeem(desk, client)).json["access_token"]

    assert (await desk.get("/userinfo", headers=bearer(token))).status == 200
