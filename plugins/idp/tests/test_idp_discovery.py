"""The metadata documents and the key set, over HTTP."""

from typing import Any

import pytest
from joserfc.jwk import KeySet

OPENID, OAUTH = "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"
RESOURCE = "/.well-known/oauth-protected-resource"


@pytest.fixture
async def desk(open_idp: Any) -> Any:
    return await open_idp()


async def test_idp_183_b7_b14_the_openid_document(desk: Any) -> None:
    answer = await desk.get(OPENID)
    document = answer.json

    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "public, max-age=3600"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert document["issuer"] == desk.url
    for name in ("authorization", "token", "userinfo", "end_session", "revocation", "introspection", "pushed_authorization_request"):
        assert document[f"{name}_endpoint"].startswith(f"{desk.url}/")
    assert document["jwks_uri"] == f"{desk.url}/jwks"
    assert document["response_types_supported"] == ["code"]
    assert document["response_modes_supported"] == ["query", "fragment", "form_post"]
    assert document["subject_types_supported"] == ["public"]
    assert document["id_token_signing_alg_values_supported"] == ["ES256", "RS256"]
    assert "openid" in document["scopes_supported"]
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert not {"password", "implicit"} & set(document["grant_types_supported"])
    assert document["require_pushed_authorization_requests"] is False
    assert document["authorization_response_iss_parameter_supported"] is True
    assert document["backchannel_logout_supported"] is document["backchannel_logout_session_supported"] is True
    assert document["frontchannel_logout_supported"] is document["frontchannel_logout_session_supported"] is True


async def test_idp_184_the_oauth_document_leaves_out_what_is_openid(desk: Any) -> None:
    oauth, openid = (await desk.get(OAUTH)).json, (await desk.get(OPENID)).json
    assert set(oauth) < set(openid)
    assert {name: openid[name] for name in oauth} == oauth
    assert oauth["code_challenge_methods_supported"] == ["S256"]
    assert "userinfo_endpoint" not in oauth
    assert not {"subject_types_supported", "claims_supported"} & oauth.keys()


async def test_the_issuer_as_a_protected_resource(desk: Any) -> None:
    """RFC 9728 s2."""
    document = (await desk.get(RESOURCE)).json

    assert document["resource"] == desk.url
    assert document["authorization_servers"] == [desk.url]
    assert "openid" in document["scopes_supported"]
    assert document["bearer_methods_supported"] == ["header", "body"]


async def test_no_member_is_empty(desk: Any) -> None:
    for path in (OPENID, OAUTH, RESOURCE):
        assert all(value not in ([], "", None, {}) for value in (await desk.get(path)).json.values())


async def test_members_are_those_of_the_enabled_plugins(desk: Any, open_idp: Any) -> None:
    plain = (await desk.get(OPENID)).json
    assert plain["token_endpoint_auth_methods_supported"] == ["client_secret_basic", "client_secret_post", "none"]
    assert plain["grant_types_supported"] == ["authorization_code", "refresh_token", "client_credentials"]
    assert "token_endpoint_auth_signing_alg_values_supported" not in plain
    for absent in (
        "registration_endpoint",
        "device_authorization_endpoint",
        "token_authority_endpoint",
        "request_object_signing_alg_values_supported",
    ):
        assert absent not in plain

    more = (await (await open_idp("client-auth-jwt", "resolver")).get(OPENID)).json
    assert {"private_key_jwt", "client_secret_jwt"} <= set(more["token_endpoint_auth_methods_supported"])
    algorithms = more["token_endpoint_auth_signing_alg_values_supported"]
    assert {"ES256", "RS256", "PS256", "HS256"} <= set(algorithms)
    assert more["revocation_endpoint_auth_signing_alg_values_supported"] == algorithms
    assert more["introspection_endpoint_auth_signing_alg_values_supported"] == algorithms
    assert not {"none", "HS1"} & set(algorithms)


async def test_a_public_client_is_not_offered_introspection(desk: Any) -> None:
    document = (await desk.get(OPENID)).json
    assert "none" in document["revocation_endpoint_auth_methods_supported"]
    assert "none" not in document["introspection_endpoint_auth_methods_supported"]


async def test_b16_documents_are_open_to_scripts_and_not_sent_again_to_those_who_know_them(desk: Any) -> None:
    for path in (OPENID, OAUTH, "/jwks"):
        first = await desk.get(path)
        etag = first.headers["ETag"]
        assert "max-age" in first.headers["Cache-Control"]
        assert first.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in first.headers
        for known in (etag, f'"x", {etag}', f"W/{etag}", "*"):
            answer = await desk.get(path, headers={"If-None-Match": known})
            assert (answer.status, answer.text, answer.headers["ETag"]) == (304, "", etag)
        assert (await desk.get(path, headers={"If-None-Match": '"x"'})).status == 200
        head = await desk.ask("HEAD", path)
        assert (head.status, head.text) == (200, "")


async def test_a_new_scope_is_in_the_document_at_once(desk: Any) -> None:
    before = await desk.get(OPENID)
    await desk.provider.scopes.put("payroll", "", [], by="root")
    after = await desk.get(OPENID)
    assert "payroll" in after.json["scopes_supported"]
    assert after.headers["ETag"] != before.headers["ETag"]
    await desk.provider.scopes.delete("payroll", by="root")
    assert (await desk.get(OPENID)).text == before.text


async def test_idp_194_the_key_set_follows_rotation_and_revocation_at_once(desk: Any) -> None:
    first = await desk.get("/jwks")
    kids = [key["kid"] for key in first.json["keys"]]
    rotated = await desk.provider.signing.rotate(by="root")
    second = await desk.get("/jwks")
    await desk.provider.signing.revoke(rotated.previous_kid, by="root")
    third = await desk.get("/jwks")

    assert {key["kid"] for key in second.json["keys"]} == {*kids, rotated.kid}
    assert {key["kid"] for key in third.json["keys"]} == {*kids, rotated.kid} - {rotated.previous_kid}
    assert len({answer.headers["ETag"] for answer in (first, second, third)}) == 3
    assert first.headers["Cache-Control"] == "public, max-age=300"
    KeySet.import_key_set(third.json)


async def test_an_issuer_with_a_path_has_its_metadata_where_both_texts_say(open_idp: Any) -> None:
    desk = await open_idp(server={"issuer": "https://id.example.org/idp"})
    for path in (OAUTH, f"{OAUTH}/idp", OPENID, f"{OPENID}/idp"):
        answer = await desk.get(path)
        assert answer.status == 200
        assert answer.json["issuer"] == "https://id.example.org/idp"
        assert answer.json["token_endpoint"] == "https://id.example.org/idp/token"
    resource = await desk.get(f"{RESOURCE}/idp")
    assert resource.json["resource"] == "https://id.example.org/idp"


async def test_s074_other_host_names_change_nothing(desk: Any) -> None:
    plain = (await desk.get(OPENID)).text
    for headers in ({"Host": "evil.example"}, {"X-Forwarded-Host": "evil.example"}, {"Forwarded": "host=evil.example"}):
        assert (await desk.get(OPENID, headers=headers)).text == plain
