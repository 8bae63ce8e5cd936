"""Fields of a client that ask for a feature of another plugin: refused without it, and whoever must get bound tokens gets no others."""

import base64

import msgspec
import orjson
import pytest

from greatseal.api.authorization import Extension
from greatseal.api.problems import StartProblem
from greatseal.api.tokens import TokenBinding
from greatseal_idp import tables as t
from greatseal_idp.proofs import PROMISED

ADMINS = {"role": [{"name": "administrator", "permissions": ["*"], "groups": ["admins"]}]}
APP = {
    "client_name": "App",
    "token_endpoint_auth_method": "client_secret_basic",
    "client_secret": "an old secret of somebody",
    "redirect_uris": ["https://app.example/cb"],
    "grant_types": ["authorization_code", "client_credentials"],
    "scopes": ["groups"],
}
ASKING = {
    "dpop_bound_access_tokens": True,
    "tls_client_certificate_bound_access_tokens": True,
    "profile": "fapi2",
    "authorization_signed_response_alg": "ES256",
    "request_object_signing_alg": "ES256",
    "require_signed_request_object": True,
    "id_token_encrypted_response_alg": "ECDH-ES",
    "userinfo_encrypted_response_alg": "ECDH-ES",
    "introspection_encrypted_response_alg": "ECDH-ES",
    "authorization_encrypted_response_alg": "ECDH-ES",
}
PLAIN = {name: False if value is True else None for name, value in ASKING.items()} | {"profile": "default"}


class Feature(Extension[msgspec.Struct]):
    """Brings one member."""

    name = "feature"

    def __init__(self, field, struct=None):
        self.fields = struct or msgspec.defstruct("Fields", [(field, bool, False)], frozen=True, kw_only=True)


class Word(TokenBinding):
    """Says that it binds, and does nothing."""

    def __init__(self, confirmation, fields):
        self.confirmation, self.fields = confirmation, fields

    async def prove(self, request):
        return None

    async def check(self, call, text, token, value):
        return ()


def bringing(field, value):
    """What brings one member, with the type of a value that asks for something: a binding where it has to be one, else an extension."""
    kind, default = (bool, False) if value is True else (str, None if field != "profile" else "default")
    struct = msgspec.defstruct("Fields", [(field, kind | None, default)], frozen=True, kw_only=True)

    if field in PROMISED:
        return Word(PROMISED[field], struct)

    return Feature(field, struct)


@pytest.fixture
async def desk(open_idp):
    return await open_idp(rbac=ADMINS)


async def post(desk, body):
    return await desk.post("/api/admin/clients", cookie=await desk.cookie("bob"), json=body)


async def put(desk, client_id, body):
    return await desk.ask("PUT", f"/api/admin/clients/{client_id}", cookie=await desk.cookie("bob"), json=body)


async def token(desk, client_id):
    basic = base64.b64encode(f"{client_id}:an old secret of somebody".encode()).decode()
    form = {"grant_type": "client_credentials", "scope": "groups"}
    return await desk.post("/token", data=form, headers={"Authorization": f"Basic {basic}"})


@pytest.mark.parametrize(("field", "value"), ASKING.items())
async def test_a_field_of_a_feature_that_no_plugin_provides_is_400_at_post_and_put(desk, field, value):
    client = (await post(desk, APP)).json

    for answer in (await post(desk, {**APP, field: value}), await put(desk, client["client_id"], {field: value})):
        assert answer.status == 400, answer.text
        assert answer.json["error"] == "invalid_client_metadata"
        assert answer.json["error_description"] == f"{field}: no enabled plugin provides this"

    shown = (await desk.get(f"/api/admin/clients/{client['client_id']}", cookie=await desk.cookie("bob"))).json
    assert (field in shown, shown["updated_at"]) == (False, client["updated_at"])


@pytest.mark.parametrize("values", [PLAIN, dict.fromkeys(ASKING)], ids=["plain", "null"])
async def test_a_value_that_asks_for_nothing_is_ignored_like_every_member_that_nobody_knows(desk, values):
    made = await post(desk, {**APP, **values})

    assert made.status == 201, made.text
    assert made.json.keys().isdisjoint(values)
    assert (await put(desk, made.json["client_id"], values)).status == 200
    assert (await token(desk, made.json["client_id"])).status == 200


@pytest.mark.parametrize(("field", "value"), ASKING.items())
async def test_the_plugin_that_brings_a_member_switches_it_on_and_no_other(open_idp, parts, field, value):
    desk = await open_idp(parts(bringing(field, value)), rbac=ADMINS)

    made = await post(desk, {**APP, field: value})
    others = [await post(desk, {**APP, name: other}) for name, other in ASKING.items() if name != field]

    assert (made.status, made.json[field]) == (201, value)
    assert (await token(desk, made.json["client_id"])).status == (400 if field in PROMISED else 200), "no word of a plugin opens a guard"
    assert {answer.status for answer in others} == {400}


async def test_a_member_may_be_a_list_or_a_table(open_idp, parts):
    """msgspec makes such a default anew for each client."""
    members = [("lists", list[str], []), ("table", dict[str, str], msgspec.field(default_factory=lambda: {"a": "b"}))]
    desk = await open_idp(parts(Feature("", msgspec.defstruct("Fields", members, frozen=True, kw_only=True))), rbac=ADMINS)

    made = await post(desk, APP)
    changed = await put(desk, made.json["client_id"], {"lists": ["x"], "table": {}})
    back = await put(desk, made.json["client_id"], {"lists": [], "table": {"a": "b"}})

    assert [(one.json["lists"], one.json["table"]) for one in (made, changed, back)] == [([], {"a": "b"}), (["x"], {}), ([], {"a": "b"})]
    assert (await desk.provider.clients.get(made.json["client_id"])).more.keys().isdisjoint({"lists", "table"})


@pytest.mark.parametrize("field", PROMISED)
async def test_a_promise_of_bound_tokens_is_brought_by_the_binding_that_keeps_it_alone(open_idp, parts, field):
    for component in (Feature(field), Word("other", bringing(field, True).fields)):
        with pytest.raises(StartProblem, match=f"'{field}' is for the token binding '{PROMISED[field]}', which keeps its promise"):
            await open_idp(parts(component))


@pytest.mark.parametrize("field", [*ASKING, "whatever_else_a_plugin_brought"])
async def test_a_stored_client_that_asks_for_what_nobody_provides_gets_no_token(desk, field):
    """RFC 9449 s5.2, RFC 8705 s3.4: a disabled plugin must not turn its clients' tokens into bearer tokens."""
    client = (await post(desk, APP)).json
    stored = await desk.provider.clients.get(client["client_id"])
    more = {**stored.more, field: ASKING.get(field, 1)}
    await keep(desk, client["client_id"], more)

    answer = await token(desk, client["client_id"])

    assert (answer.status, answer.json["error"]) == (400, "unauthorized_client")
    assert answer.json["error_description"] == f"{field}: no enabled plugin provides this"
    assert (await put(desk, client["client_id"], {"client_name": "New"})).status == 400
    assert (await put(desk, client["client_id"], {field: None})).status == 200
    assert (await token(desk, client["client_id"])).status == 200


async def test_what_a_former_version_stored_and_asks_for_nothing_is_forgotten(desk):
    client = (await post(desk, APP)).json
    await keep(desk, client["client_id"], PLAIN)

    assert (await token(desk, client["client_id"])).status == 200
    assert (await put(desk, client["client_id"], {"client_name": "New"})).status == 200


async def keep(desk, client_id, more):
    """The row as a service with other plugins wrote it."""
    await desk.service.host("idp").db.write(lambda tx: tx.put(t.CLIENT, client_id, more=orjson.dumps(more).decode()))
