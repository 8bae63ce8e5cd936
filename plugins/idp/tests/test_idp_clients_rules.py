"""The rules of a registration, at POST and at PUT alike."""

from typing import Any

import pytest

from greatseal_idp import tables as t

BASIC = {
    "client_name": "App",
    "token_endpoint_auth_method": "client_secret_basic",
    "client_secret": "chosen by somebody 1234",
    "scopes": ["openid"],
}
WEB = {**BASIC, "redirect_uris": ["https://app.example/cb"]}
JWKS = {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "k1"}]}


@pytest.fixture
async def admin(open_admin: Any) -> Any:
    return await open_admin("client-auth-jwt", "resolver")


async def made(admin: Any, body: object) -> Any:
    answer = await admin.post("clients", body)
    assert answer.status == 201, answer.text
    return answer.json


async def refused_everywhere(admin: Any, change: dict[str, Any], error: str, word: str) -> None:
    """POST refuses the whole, and PUT refuses the change (S052)."""
    client = await made(admin, WEB)
    for answer in (await admin.post("clients", {**WEB, **change}), await admin.put(f"clients/{client['client_id']}", change)):
        assert answer.status == 400, answer.text
        assert answer.json["error"] == error
        assert word in answer.json["error_description"]
    assert [shown["updated_at"] for shown in (await admin.get("clients")).json] == [client["updated_at"]]
    assert not await admin.desk.events("client_updated")


async def test_idp_126_a_client_is_shown_as_it_was_registered(admin: Any) -> None:
    answer = await admin.post("clients", WEB)
    client = answer.json

    assert (answer.status, answer.location) == (201, f"{admin.desk.url}/api/admin/clients/{client['client_id']}")
    assert client["client_name"] == "App"
    assert client["redirect_uris"] == ["https://app.example/cb"]
    assert client["scopes"] == ["openid"]
    assert client["token_endpoint_auth_method"] == "client_secret_basic"
    assert client["allow_token_exchange_actor"] is False
    assert client["workload_type"] is client["spiffe_id"] is client["jwks_uri"] is client["kerberos_principal"] is None
    assert client["grant_types"] == ["authorization_code", "refresh_token"]
    assert (await admin.get(f"clients/{client['client_id']}")).json == {
        name: value for name, value in client.items() if name != "client_secret"
    }


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none"])
async def test_idp_025_idp_028_idp_029_idp_032_the_methods_of_the_enabled_plugins_are_known(admin: Any, method: str) -> None:
    given = {"private_key_jwt": {"jwks_uri": "https://app.example/jwks"}, "none": {}}.get(method, {"client_secret": "s" * 32})
    client = await made(admin, {"token_endpoint_auth_method": method, "redirect_uris": ["https://app.example/cb"], **given})
    assert client["token_endpoint_auth_method"] == method


@pytest.mark.parametrize(
    "method", ["", "basic", "CLIENT_SECRET_BASIC", "NONE", "client_secret_basic ", "tls_client_auth", "self_signed_tls_client_auth"]
)
async def test_r103_a_method_whose_plugin_is_not_loaded_is_unknown(admin: Any, method: str) -> None:
    await refused_everywhere(admin, {"token_endpoint_auth_method": method}, "invalid_client_metadata", "token_endpoint_auth_method")


async def test_idp_058_kerberos_client_auth_without_its_plugin_is_400(admin: Any) -> None:
    change = {"token_endpoint_auth_method": "kerberos_client_auth", "kerberos_principal": "host/a.example@EXAMPLE", "client_secret": None}
    await refused_everywhere(admin, change, "invalid_client_metadata", "token_endpoint_auth_method: expected one of client_secret_basic")


@pytest.mark.parametrize(
    "field",
    [{"kerberos_principal": "host/a.example@EXAMPLE"}, {"kerberos_principal_pattern": "host/*@EXAMPLE"}, {"tls_client_certificate": "x"}],
)
async def test_idp_043_idp_047_fields_of_other_methods_are_refused(admin: Any, field: dict[str, Any]) -> None:
    await refused_everywhere(admin, field, "invalid_client_metadata", next(iter(field)))


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "client_secret_jwt"])
async def test_idp_034_a_secret_must_be_given_for_the_secret_methods(admin: Any, method: str) -> None:
    answer = await admin.post("clients", {"token_endpoint_auth_method": method, "redirect_uris": ["https://app.example/cb"]})
    assert answer.status == 400
    assert answer.json["error"] == "invalid_client_metadata"
    assert "client_secret" in answer.json["error_description"]
    client = await made(admin, {**WEB, "token_endpoint_auth_method": method, "client_secret": "s" * 32})
    assert (await admin.put(f"clients/{client['client_id']}", {"client_secret": None})).status == 400
    assert (await admin.get(f"clients/{client['client_id']}")).json["has_secret"]


@pytest.mark.parametrize(
    "change", [{"token_endpoint_auth_method": "none"}, {"token_endpoint_auth_method": "private_key_jwt", "jwks": JWKS}]
)
async def test_r36_a_secret_with_a_method_that_has_none_is_refused_until_it_is_cleared(admin: Any, change: dict[str, Any]) -> None:
    await refused_everywhere(admin, change, "invalid_client_metadata", "client_secret")
    client = await made(admin, WEB)
    changed = await admin.put(f"clients/{client['client_id']}", {**change, "client_secret": None})
    assert changed.status == 200, changed.text
    assert not changed.json["has_secret"]


async def test_a_digest_cannot_become_the_secret_of_client_secret_jwt(admin: Any) -> None:
    client = await made(admin, WEB)
    assert (await admin.put(f"clients/{client['client_id']}", {"token_endpoint_auth_method": "client_secret_jwt"})).status == 400
    changed = await admin.put(
        f"clients/{client['client_id']}", {"token_endpoint_auth_method": "client_secret_jwt", "client_secret": "s" * 32}
    )
    assert changed.status == 200
    assert (await admin.put(f"clients/{client['client_id']}", {"token_endpoint_auth_method": "client_secret_post"})).status == 400


async def test_r38_without_a_method_it_is_private_key_jwt_which_needs_keys(admin: Any) -> None:
    answer = await admin.post("clients", {"client_name": "App", "redirect_uris": ["https://app.example/cb"]})
    assert answer.status == 400
    assert "jwks_uri" in answer.json["error_description"]
    client = await made(admin, {"jwks_uri": "https://app.example/jwks", "redirect_uris": ["https://app.example/cb"]})
    assert client["token_endpoint_auth_method"] == "private_key_jwt"


async def test_r32_jwks_inline_or_by_uri_and_not_both(admin: Any) -> None:
    client = await made(admin, {"token_endpoint_auth_method": "private_key_jwt", "jwks": JWKS})
    assert client["jwks"] == JWKS
    assert (await admin.put(f"clients/{client['client_id']}", {"jwks_uri": "https://app.example/jwks"})).status == 400
    assert (await admin.put(f"clients/{client['client_id']}", {"jwks": None})).status == 400
    changed = await admin.put(f"clients/{client['client_id']}", {"jwks_uri": "https://app.example/jwks", "jwks": None})
    assert changed.status == 200
    assert changed.json["jwks"] is None


async def test_null_clears_an_optional_field(admin: Any) -> None:
    client = await made(
        admin, {**WEB, "workload_type": "batch", "logo_uri": "https://app.example/logo.png", "spiffe_id": "spiffe://example/app"}
    )
    changed = (
        await admin.put(f"clients/{client['client_id']}", {"workload_type": None, "logo_uri": None, "spiffe_id": None, "scopes": None})
    ).json
    assert changed["workload_type"] is changed["logo_uri"] is changed["spiffe_id"] is None
    assert changed["scopes"] == []


async def test_idp_130_s053_a_public_client_stays_public(admin: Any) -> None:
    client = await made(admin, {"token_endpoint_auth_method": "none", "redirect_uris": ["https://app.example/cb"]})
    for body in ({}, {"client_name": "New"}, {"token_endpoint_auth_method": None}):
        answer = await admin.put(f"clients/{client['client_id']}", body)
        assert answer.status == 200
        assert answer.json["token_endpoint_auth_method"] == "none"


async def test_the_whole_of_a_get_can_be_put_back(admin: Any) -> None:
    client = await made(admin, WEB)
    shown = (await admin.get(f"clients/{client['client_id']}")).json
    answer = await admin.put(f"clients/{client['client_id']}", shown)
    assert answer.status == 200, answer.text
    assert {**answer.json, "updated_at": 0} == {**shown, "updated_at": 0}


async def test_idp_131_a_deleted_client_is_gone_at_once(admin: Any) -> None:
    path = f"clients/{(await made(admin, WEB))['client_id']}"
    deleted = await admin.delete(path)
    assert (deleted.status, deleted.text) == (204, "")
    for answer in (await admin.delete(path), await admin.get(path), await admin.put(path, {})):
        assert (answer.status, answer.json["error"]) == (404, "not_found")
    assert (await admin.get("clients")).json == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"client_name": 7}, "client_name"),
        ({"client_name": "a\nb"}, "client_name"),
        ({"client_name": "x" * 257}, "client_name"),
        ({"redirect_uris": "https://app.example/cb"}, "redirect_uris"),
        ({"redirect_uris": [1]}, "redirect_uris"),
        ({"scopes": ["a b"]}, "scopes"),
        ({"scopes": ['a"b']}, "scopes"),
        ({"scopes": [f"s{n}" for n in range(1001)]}, "scopes"),
        ({"client_secret": ""}, "client_secret"),
        ({"client_secret": "a\x00b"}, "JSON"),
        ({"client_secret": "a\nb"}, "client_secret"),
        ({"client_secret": "x" * 1025}, "client_secret"),
        ({"allow_token_exchange_actor": "yes"}, "allow_token_exchange_actor"),
        ({"grant_types": ["password"]}, "grant_types"),
        ({"grant_types": ["implicit"]}, "grant_types"),
        ({"response_types": ["token"]}, "response_types"),
        ({"post_logout_redirect_uris": ["http://app.example/"]}, "post_logout_redirect_uris"),
        ({"backchannel_logout_uri": "http://app.example/"}, "backchannel_logout_uri"),
        ({"backchannel_logout_uri": "https://app.example/#x"}, "backchannel_logout_uri"),
        ({"logo_uri": "javascript:alert(1)"}, "logo_uri"),
        ({"id_token_signed_response_alg": "none"}, "id_token_signed_response_alg"),
        ({"access_token_format": "xml"}, "access_token_format"),
        ({"consent": "never"}, "consent"),
        ({"default_max_age": -1}, "default_max_age"),
        ({"contacts": ["a\nb"]}, "contacts"),
        ({"workload_type": ""}, "workload_type"),
        ({"workload_type": "a\tb"}, "workload_type"),
        ({"kerberos_hbac_service": "x" * 1025}, "kerberos_hbac_service"),
        ({"jwks_uri": "http://app.example/jwks"}, "jwks_uri"),
        ({"jwks": {"keys": "none"}}, "jwks"),
        ({"jwks": {"keys": [1]}}, "jwks"),
        ({"jwks": []}, "jwks"),
        ({"spiffe_id": "https://example/app"}, "spiffe_id"),
        ({"spiffe_id": "spiffe://Example/app"}, "spiffe_id"),
        ({"spiffe_id": "spiffe://example:80/app"}, "spiffe_id"),
        ({"spiffe_id": "spiffe://example/a//b"}, "spiffe_id"),
        ({"spiffe_id": "spiffe://example/../b"}, "spiffe_id"),
        ({"spiffe_id": "spiffe://example/"}, "spiffe_id"),
        ({"spiffe_id": "spiffe://example/app?x"}, "spiffe_id"),
        ({"spiffe_id": "spiffe:///app"}, "spiffe_id"),
    ],
)
async def test_s052_every_field_is_checked_at_post_and_put(admin: Any, change: dict[str, Any], word: str) -> None:
    error = {"post_logout_redirect_uris": "invalid_redirect_uri", "JSON": "invalid_request"}.get(word, "invalid_client_metadata")
    await refused_everywhere(admin, change, error, word)


@pytest.mark.parametrize("spiffe_id", ["spiffe://example", "spiffe://example.org/ns/prod/sa/app", "spiffe://a_b/x.y-z_1/..."])
async def test_idp_050_a_spiffe_id_is_kept(admin: Any, spiffe_id: str) -> None:
    assert (await made(admin, {**WEB, "spiffe_id": spiffe_id}))["spiffe_id"] == spiffe_id


async def test_s071_a_name_that_looks_like_markup_is_kept_as_text(admin: Any) -> None:
    name = "<script>alert('{{7*7}}')</script>"
    assert (await made(admin, {**WEB, "client_name": name}))["client_name"] == name


async def test_r33_private_use_schemes_with_their_switch(open_admin: Any) -> None:
    admin = await open_admin(oauth={"allow_private_use_schemes": True})
    client = await made(admin, {"token_endpoint_auth_method": "none", "redirect_uris": ["com.example.app:/cb"]})
    assert client["redirect_uris"] == ["com.example.app:/cb"]
    assert (await admin.post("clients", {"token_endpoint_auth_method": "none", "redirect_uris": ["javascript:alert(1)"]})).status == 400


async def test_r108_a_chosen_secret_has_a_least_length_and_doctor_names_those_that_have_not(admin: Any) -> None:
    await refused_everywhere(admin, {"client_secret": "s" * 21}, "invalid_client_metadata", "client_secret: 22 to 1024 characters")
    client_id = (await made(admin, {**BASIC, "client_secret": "s" * 22}))["client_id"]
    health = admin.desk.service.kernel.health
    assert (await health.run(ready_only=False))["client-secrets"].ok

    def forget_length(tx: Any) -> None:
        tx.put(t.CLIENT, client_id, secret_length=None)

    await admin.desk.service.host("idp").db.write(forget_length)
    told = (await health.run(ready_only=False))["client-secrets"]

    assert (told.ok, told.cause) == (False, client_id)
    assert told.detail.startswith("1 client has a chosen secret that is shorter than 22 characters")
    registry = admin.desk.provider.clients
    assert await registry.secrets.is_right(await registry.get(client_id), ["s" * 22]), "it goes on working"
    assert "client-secrets" not in await health.run(ready_only=True)


async def test_r108_the_least_length_is_configured(open_admin: Any) -> None:
    admin = await open_admin(oauth={"min_client_secret_length": 40})
    refused = await admin.post("clients", {**BASIC, "client_secret": "s" * 39})
    assert (refused.status, "client_secret: 40 to 1024 characters" in refused.text) == (400, True)
    assert (await made(admin, {**BASIC, "client_secret": "s" * 40}))["has_secret"]
