"""Client registrations over the admin API (document, "Client registry"; reference 3.2 and 3.3)."""

import uuid

import pytest

from greatseal_idp import tables as t

SECRET = "a secret that somebody chose"
CONFIDENTIAL = {"token_endpoint_auth_method": "client_secret_basic", "client_secret": SECRET}
SEED_FIELDS = (
    "client_id", "client_name", "redirect_uris", "scopes", "token_endpoint_auth_method", "jwks_uri", "kerberos_principal",
    "kerberos_principal_pattern", "kerberos_hbac_service", "spiffe_id", "workload_type", "allow_token_exchange_actor",
)  # fmt: skip


async def test_idp_019_the_client_id_is_a_uuid_of_the_service(admin):
    client = await admin.client(client_id="mine")

    assert str(uuid.UUID(client["client_id"])) == client["client_id"] != "mine"


async def test_idp_125_the_list_holds_every_client_with_every_field_of_the_document(admin):
    made = [await admin.client(client_name=name) for name in ("one", "two")]

    answer = await admin.get("clients")

    assert (answer.status, answer.json) == (200, made)
    assert set(SEED_FIELDS) <= answer.json[0].keys()
    for optional in ("jwks_uri", "kerberos_principal", "kerberos_hbac_service", "spiffe_id", "workload_type"):
        assert answer.json[0][optional] is None
    assert answer.json[0]["allow_token_exchange_actor"] is False


async def test_idp_127_idp_361_an_unknown_client_is_404(admin):
    for method in ("get", "delete"):
        answer = await getattr(admin, method)("clients/00000000-0000-4000-8000-000000000000")
        assert (answer.status, answer.json["error"]) == (404, "not_found")
    assert (await admin.put("clients/unknown", {"client_name": "x"})).status == 404


async def test_idp_020_idp_021_idp_024_idp_050_fields_come_back_as_they_were_set(admin):
    fields = {
        "client_name": "Ünïcode & <b>App</b>",
        "redirect_uris": ["https://a.example/cb", "http://localhost:1234/cb"],
        "scopes": ["openid", "groups"],
        "spiffe_id": "spiffe://example.org/app",
        "workload_type": "batch",
        "allow_token_exchange_actor": True,
        "post_logout_redirect_uris": ["https://a.example/out"],
        "grant_types": ["authorization_code"],
    }

    client = await admin.client(**fields)

    assert {name: client[name] for name in fields} == fields
    assert (await admin.get(f"clients/{client['client_id']}")).json == client


async def test_idp_128_idp_129_put_changes_what_is_given_and_keeps_the_rest(admin):
    client = await admin.client(**CONFIDENTIAL, workload_type="batch", logo_uri="https://app.example/logo.svg")

    answer = await admin.put(f"clients/{client['client_id']}", {"client_name": "Renamed"})

    assert answer.status == 200
    expected = {**client, "client_name": "Renamed", "updated_at": answer.json["updated_at"]}
    del expected["client_secret"]
    assert answer.json == expected
    assert (await admin.get(f"clients/{client['client_id']}")).json == expected


@pytest.mark.parametrize("change", [{"token_endpoint_auth_method": "client_secret_basic"}, {"client_secret": SECRET}])
async def test_s052_put_refuses_what_post_refuses_and_changes_nothing(admin, change):
    client = await admin.client()

    answer = await admin.put(f"clients/{client['client_id']}", change)

    assert answer.status == 400, answer.text
    assert (await admin.get(f"clients/{client['client_id']}")).json == client
    assert not await admin.desk.events("client_updated")


async def test_a_scope_that_is_not_defined_is_refused_by_its_name(admin):
    await admin.put("scopes/reports", {"description": "Read the reports"})
    client = await admin.client(scopes=["openid", "reports", "introspect"])
    body = {"client_name": "B", "redirect_uris": ["https://app.example/cb"], "token_endpoint_auth_method": "none"}

    for answer in (
        await admin.post("clients", {**body, "scopes": ["openid", "reprots"]}),
        await admin.put(f"clients/{client['client_id']}", {"scopes": ["openid", "reprots"]}),
    ):
        assert (answer.status, answer.json["error"]) == (400, "invalid_client_metadata")
        assert "reprots is not defined" in answer.text

    assert (await admin.delete("scopes/reports")).status == 204
    kept = await admin.put(f"clients/{client['client_id']}", {"client_name": "A", "scopes": client["scopes"]})
    assert (kept.status, kept.json["scopes"]) == (200, ["openid", "reports", "introspect"]), "it was there before"


async def test_s054_read_only_members_cannot_be_assigned(admin):
    readonly = {
        "client_id": "00000000-0000-4000-8000-000000000000",
        "source": "static",
        "created_at": 1,
        "updated_at": 1,
        "has_secret": True,
        "tls_client_certificate_sha256": "x" * 43,
        "is_system": True,
        "secret": {"form": "sha256", "value": "AAAA"},
    }
    client = await admin.client(**readonly)
    changed = (await admin.put(f"clients/{client['client_id']}", readonly)).json

    for shown in (client, changed):
        assert (shown["client_id"], shown["source"], shown["has_secret"]) == (client["client_id"], "admin", False)
        assert shown["tls_client_certificate_sha256"] is None
        assert shown["created_at"] > 1
        assert "is_system" not in shown
    assert (await admin.get("clients/00000000-0000-4000-8000-000000000000")).status == 404


async def test_s063_a_secret_is_shown_when_it_is_made_and_never_again(admin):
    client = await admin.client(**CONFIDENTIAL)
    assert client["client_secret"] == SECRET

    path = f"clients/{client['client_id']}"
    answers = [await admin.put(path, {"client_secret": SECRET + SECRET}), *[await admin.get(each) for each in (path, "clients", "audit")]]

    assert all(SECRET not in answer.text for answer in answers)
    assert answers[1].json["has_secret"] is True
    (row,) = await admin.desk.rows(t.client)
    assert (row.secret_form, row.secret_sealed) == ("argon2id", None)
    assert SECRET not in repr(row)


async def test_deleting_a_client_ends_its_families_and_consents_in_the_same_step(admin):
    client, other = await admin.client(), await admin.client()
    mine = await admin.family(client_id=client["client_id"])
    kept = await admin.family(client_id=other["client_id"])

    def consent(tx):
        for number, of in enumerate((client, client, other)):
            tx.put(t.CONSENT, f"k{number}", subject=f"bob{number}@LOCALHOST", client_id=of["client_id"], scopes="[]", granted_at=tx.now)

    await admin.write(consent)
    await admin.delete(f"clients/{client['client_id']}")

    assert [family["family_id"] for family in (await admin.get("refresh-families")).json] == [kept.id]
    assert [row.client_id for row in await admin.desk.rows(t.consent)] == [other["client_id"]]
    (deleted,) = await admin.desk.events("client_deleted")
    (revoked,) = await admin.desk.events("refresh_family_revoked")
    assert deleted.created_at == revoked.created_at
    assert mine.id in revoked.detail
    token = await admin.desk.post(
        "/token", data={"grant_type": "refresh_token", "refresh_token": mine.refresh_token, "client_id": client["client_id"]}
    )
    assert (token.status, token.json["error"]) == (401, "invalid_client")


async def test_every_change_of_a_client_tells_who_made_it(admin):
    client = await admin.client()
    await admin.put(f"clients/{client['client_id']}", {"client_name": "x"})
    await admin.delete(f"clients/{client['client_id']}")

    events = await admin.desk.events("client_created", "client_updated", "client_deleted")
    assert [(event.event_type, event.sub, event.client_id) for event in events] == [
        (name, "alice@LOCALHOST", client["client_id"]) for name in ("client_created", "client_updated", "client_deleted")
    ]


async def test_idp_124_bodies_are_json_objects(admin):
    broken = {"data": b"{", "headers": {"Content-Type": "application/json"}}
    twice = {"data": b'{"client_name": "a", "client_name": "b"}', "headers": {"Content-Type": "application/json"}}

    for request in (broken, twice):
        assert (await admin.post("clients", **request)).status == 400
    for body in ([], "x", 1, None):
        answer = await admin.post("clients", body)
        assert (answer.status, answer.json["error"]) == (400, "invalid_request")
    assert (await admin.post("clients", data={"client_name": "x"})).status in {403, 415}
    assert (await admin.get("clients")).json == []


async def test_who_wants_it_strict_hears_of_members_that_are_no_fields_and_nothing_is_done(admin):
    client = await admin.client()
    strict = {"headers": {"Prefer": 'respond-async, handling="strict"'}}
    wrong = {"client_name": "New", "consnet": "implicit", "xyzzy": 1, "created_at": 1, "": 2}

    made = await admin.post("clients", {**CONFIDENTIAL, **wrong}, **strict)
    changed = await admin.put(f"clients/{client['client_id']}", wrong, **strict)

    for answer in (made, changed):
        assert (answer.status, answer.json["error"]) == (400, "invalid_client_metadata")
        assert answer.json["fields"] == {
            "": "no client has this field; GET of a client shows all fields",
            "consnet": "no client has this field; did you mean 'consent'?",
            "created_at": "this field cannot be set",
            "xyzzy": "no client has this field; GET of a client shows all fields",
        }
    assert (await admin.get("clients")).json == [client]
    every = {name: value for name, value in client.items() if name in {*SEED_FIELDS, "logo_uri", "consent"} and name != "client_id"}
    assert (await admin.put(f"clients/{client['client_id']}", every, **strict)).status == 200
    assert (await admin.put(f"clients/{client['client_id']}", {"xyzzy": 1})).status == 200  # RFC 7591 s2
