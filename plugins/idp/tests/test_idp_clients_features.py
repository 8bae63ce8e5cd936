"""Fields of a client that ask for a feature of another plugin: refused without it, and whoever must get bound tokens gets no others."""

import base64
import sys

import orjson
import pytest

from greatseal.api.problems import StartProblem
from greatseal.testing.distributions import install
from greatseal_idp import tables as t

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
    "frontchannel_logout_uri": "https://app.example/front",
    "frontchannel_logout_session_required": True,
}
BINDING = ("dpop_bound_access_tokens", "tls_client_certificate_bound_access_tokens", "profile")
PLAIN = {name: False if value is True else None for name, value in ASKING.items()} | {"profile": "default"}

FEATURES = """
from greatseal import hookimpl
from greatseal.api.clients import ClientField

FIELDS = []


class Plugin:
    @hookimpl
    def client_fields(self, host):
        return [ClientField(name=name) for name in FIELDS]
"""


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
    assert (shown[field], shown["updated_at"]) == (None, client["updated_at"])


@pytest.mark.parametrize("values", [PLAIN, dict.fromkeys(ASKING)], ids=["plain", "null"])
async def test_a_value_that_asks_for_nothing_is_kept_as_it_is(desk, values):
    made = await post(desk, {**APP, **values})

    assert made.status == 201, made.text
    assert {name: made.json[name] for name in values} == values
    assert (await put(desk, made.json["client_id"], values)).status == 200
    assert (await token(desk, made.json["client_id"])).status == 200


@pytest.mark.parametrize(("field", "value"), ASKING.items())
async def test_the_plugin_that_provides_a_feature_switches_its_field_on_and_no_other(open_idp, tmp_path, monkeypatch, field, value):
    folder = tmp_path / "features"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    features = install(folder, "greatseal-features", FEATURES.replace("[]", f"[{field!r}]", 1))
    desk = await open_idp(features, rbac=ADMINS)

    made = await post(desk, {**APP, field: value})
    others = [await post(desk, {**APP, name: other}) for name, other in ASKING.items() if name != field]

    sys.modules.pop("greatseal_features")
    assert (made.status, made.json[field]) == (201, value)
    assert (await token(desk, made.json["client_id"])).status == 200
    assert {answer.status for answer in others} == {400}


async def test_a_field_that_waits_for_nobody_stops_the_start(open_idp, tmp_path, monkeypatch):
    folder = tmp_path / "features"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    features = install(folder, "greatseal-features", FEATURES.replace("[]", "['dpop_bound_acces_tokens']", 1))

    with pytest.raises(StartProblem, match="'dpop_bound_acces_tokens' is no field that waits for a plugin; expected one of dpop_bound"):
        await open_idp(features)

    sys.modules.pop("greatseal_features")


@pytest.mark.parametrize("field", BINDING)
async def test_a_stored_client_that_must_get_bound_tokens_gets_none_when_its_plugin_is_gone(desk, field):
    """RFC 9449 s5.2, RFC 8705 s3.4: a disabled plugin must not turn its clients' tokens into bearer tokens."""
    client = (await post(desk, APP)).json
    stored = await desk.provider.clients.get(client["client_id"])
    more = {**stored.more, field: ASKING[field]}
    await keep(desk, client["client_id"], more)

    answer = await token(desk, client["client_id"])

    assert (answer.status, answer.json["error"]) == (400, "unauthorized_client")
    assert answer.json["error_description"] == f"{field}: no enabled plugin provides this"
    assert (await put(desk, client["client_id"], {"client_name": "New"})).status == 400
    assert (await put(desk, client["client_id"], {field: None})).status == 200
    assert (await token(desk, client["client_id"])).status == 200


async def keep(desk, client_id, more):
    """The row as a service with other plugins wrote it."""
    await desk.service.host("idp").db.write(lambda tx: tx.put(t.CLIENT, client_id, more=orjson.dumps(more).decode()))
