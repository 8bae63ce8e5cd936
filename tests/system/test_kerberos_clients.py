"""Clients that prove themselves by a ticket, at every endpoint of clients. With a KDC: tests/peers/test_peers_kerberos_clients.py."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet
from rig.tickets import install_tickets, negotiate
from security.idp_desk import SECRET, Desk, open_desk

from greatseal.api.kerberos import NotConfigured, Ready, Unusable
from greatseal.testing.desk import CALLBACK, Answer

REALM = "CHANCERY.TEST"
WEB, DB, HTTP = f"host/web1.chancery.test@{REALM}", f"host/db1.chancery.test@{REALM}", f"HTTP/web1.chancery.test@{REALM}"
ALICE, EVIL, ODD = f"alice@{REALM}", "host/web1.chancery.test@EVIL.TEST", f"host/@{REALM}"
SLOW = f"host/slow.chancery.test@{REALM}"
UNKNOWN = "the client or its credentials are not known"
METHOD = "kerberos_client_auth"


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.syspath_prepend(tmp_path / "installed")
    tickets = install_tickets(tmp_path / "installed", WEB, DB, HTTP, ALICE, EVIL, ODD, legs=(SLOW,))
    async with open_desk(tmp_path, "client-auth-kerberos", "hbac", tickets, ipa={"gssapi": True}) as desk:
        yield desk


def body(**fields: Any) -> dict[str, Any]:
    return {"client_name": "Hosts", "scopes": ["profile", "groups"], "token_endpoint_auth_method": METHOD, **fields}


async def made(desk: Desk, **fields: Any) -> dict[str, Any]:
    answer = await desk.post("/api/admin/clients", cookie=desk.admin, json=body(**fields))
    assert answer.status == 201, answer.text
    client: dict[str, Any] = answer.json
    assert "client_secret" not in client
    return client


async def token(desk: Desk, principal: str, **form: str) -> Answer:
    sent = {"grant_type": "client_credentials", "scope": "groups", **form}
    return await desk.post("/token", data=sent, headers=negotiate(principal))


async def claims(desk: Desk, answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.text
    keys = KeySet.import_key_set((await desk.get("/jwks")).json)
    return dict(jwt.decode(answer.json["access_token"], keys, algorithms=["ES256"]).claims)


async def test_idp_025_idp_033_idp_041_idp_346_idp_351_a_client_is_found_by_its_exact_principal(desk: Desk) -> None:
    client = await made(desk, kerberos_principal=WEB)

    named = await token(desk, WEB, client_id=client["client_id"])
    found = await token(desk, WEB, scope="groups profile")

    for answer in (named, found):
        assert (await claims(desk, answer))["sub"] == (await claims(desk, answer))["client_id"] == client["client_id"]
        assert (answer.headers["WWW-Authenticate"], answer.headers["Cache-Control"]) == ("Negotiate done", "no-store")
    told = [(one.sub, one.client_id, one.detail, one.outcome) for one in await desk.events(METHOD)]
    assert told == [(WEB, client["client_id"], scopes, "success") for scopes in ("groups", "groups profile")]


async def test_idp_044_idp_346_idp_350_r57_the_tokens_of_a_template_are_the_machines(desk: Desk) -> None:
    client = await made(desk, kerberos_principal_pattern=f"host/*@{REALM}")

    for principal in (WEB, DB):
        assert (await claims(desk, await token(desk, principal)))["sub"] == principal
        assert (await claims(desk, await token(desk, principal, client_id=client["client_id"])))["sub"] == principal
    assert {(one.sub, one.client_id) for one in await desk.events(METHOD)} == {(WEB, client["client_id"]), (DB, client["client_id"])}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("principal", [HTTP, ALICE, EVIL, ODD, f"host/WEB1.chancery.test@{REALM}", "TlRMTVNTUAAB", ""])
async def test_s081_s086_other_principals_malformed_ones_and_other_mechanisms_are_nobody(desk: Desk, principal: str, named: bool) -> None:
    client = await made(desk, kerberos_principal_pattern=f"host/*@{REALM}")

    answer = await token(desk, principal, **({"client_id": client["client_id"]} if named else {}))

    assert (answer.outcome, answer.json["error_description"]) == ((401, "invalid_client"), UNKNOWN)
    assert answer.headers.getall("WWW-Authenticate") == ["Negotiate"]
    assert not await desk.events(METHOD)


async def test_r73_exact_principals_come_first_and_several_patterns_are_refused(desk: Desk) -> None:
    broad = await made(desk, kerberos_principal_pattern=f"host/*@{REALM}")
    assert (await claims(desk, await token(desk, WEB)))["client_id"] == broad["client_id"]
    narrow = await made(desk, kerberos_principal_pattern=f"host/web*.chancery.test@{REALM}")

    both = await token(desk, WEB)

    assert both.outcome == (401, "invalid_client")
    assert "send client_id" in both.json["error_description"]
    for client in (broad, narrow):
        assert (await claims(desk, await token(desk, WEB, client_id=client["client_id"])))["client_id"] == client["client_id"]
    exact = await made(desk, kerberos_principal=WEB)
    assert (await claims(desk, await token(desk, WEB)))["client_id"] == exact["client_id"]
    await made(desk, kerberos_principal=WEB, client_name="Its twin")
    assert "send client_id" in (await token(desk, WEB)).json["error_description"]
    assert (await claims(desk, await token(desk, DB)))["client_id"] == broad["client_id"]
    await desk.ask("DELETE", f"/api/admin/clients/{broad['client_id']}", cookie=desk.admin)
    assert (await token(desk, DB)).outcome == (401, "invalid_client")


async def test_whoever_sends_nothing_is_asked_for_a_ticket(desk: Desk) -> None:
    client = await made(desk, kerberos_principal=WEB)

    for form in ({}, {"client_id": client["client_id"]}):
        answer = await desk.post("/token", data={"grant_type": "client_credentials", **form})
        assert (answer.outcome, answer.headers.getall("WWW-Authenticate")) == ((401, "invalid_client"), ["Negotiate"])
    basic = await desk.post("/token", data={}, headers={"Authorization": "Basic eDp5"})
    assert basic.headers["WWW-Authenticate"].startswith("Basic ")


async def test_two_legs_on_one_connection(desk: Desk) -> None:
    await made(desk, kerberos_principal=SLOW)

    first = await token(desk, SLOW)
    second = await token(desk, "more")

    assert (first.outcome, first.headers["WWW-Authenticate"]) == ((401, "invalid_client"), "Negotiate more")
    assert second.status == 200
    assert (await token(desk, "more")).outcome == (401, "invalid_client"), "an exchange that nobody began"


async def test_r72_a_ticket_beside_other_credentials_and_one_that_is_too_long_are_400(desk: Desk) -> None:
    client = await made(desk, kerberos_principal=WEB)

    for other in ({"client_secret": SECRET}, {"client_assertion": "a.b.c", "client_secret": SECRET, "client_id": client["client_id"]}):
        assert (await token(desk, WEB, **other)).outcome == (400, "invalid_request")
    assert (await token(desk, "x" * 50_000)).outcome == (400, "invalid_request")


async def test_the_ticket_proves_the_client_at_introspect_revoke_and_par_and_is_answered_by_refusals_too(desk: Desk) -> None:
    client = await made(desk, kerberos_principal=WEB, redirect_uris=[CALLBACK], grant_types=["client_credentials", "authorization_code"])
    got = (await token(desk, WEB)).json["access_token"]

    async def ask(path: str, **form: str) -> Answer:
        return await desk.post(path, data=form, headers=negotiate(WEB))

    for path, form, status in (
        ("/introspect", {"token": got}, 200),
        ("/revoke", {"token": got}, 200),
        ("/introspect", {}, 400),
        ("/revoke", {}, 400),
        ("/par", {}, 400),
        ("/token", {"grant_type": "authorization_code", "code": "x", "redirect_uri": CALLBACK}, 400),
        ("/token", {"grant_type": "password"}, 400),
    ):
        answer = await ask(path, **form)
        assert (answer.status, answer.headers.getall("WWW-Authenticate")) == (status, ["Negotiate done"]), (path, answer.text)
    pushed = await ask(
        "/par",
        client_id=client["client_id"], redirect_uri=CALLBACK, response_type="code", scope="profile", code_challenge="a" * 43,
        code_challenge_method="S256",
    )  # fmt: skip
    assert (pushed.status, pushed.headers.getall("WWW-Authenticate")) == (201, ["Negotiate done"])
    assert not (await ask("/introspect", token=got)).json["active"]


RULES: list[tuple[dict[str, Any], str]] = [
    ({}, "kerberos_principal, kerberos_principal_pattern: give exactly one"),
    ({"kerberos_principal": WEB, "kerberos_principal_pattern": f"host/*@{REALM}"}, "kerberos_principal, kerberos_principal_pattern"),
    ({"kerberos_principal": ALICE}, "kerberos_principal: expected a service or host"),
    ({"kerberos_principal": "host/web1.chancery.test"}, "kerberos_principal: it has no @ and realm"),
    ({"kerberos_principal": ODD}, "kerberos_principal: it has an empty component"),
    ({"kerberos_principal": f"host\\/web1@{REALM}"}, "kerberos_principal: expected a service or host"),
    ({"kerberos_principal_pattern": "host/*"}, "kerberos_principal_pattern: it has no @"),
    ({"kerberos_principal_pattern": "a*b*c*d*@R"}, "kerberos_principal_pattern: it has 4 wildcards"),
    ({"kerberos_principal": WEB, "client_secret": SECRET}, "client_secret: must not be set"),
    ({"kerberos_principal": WEB, "jwks_uri": "https://app.example/jwks"}, "jwks_uri: must not be set"),
    ({"kerberos_principal": WEB, "jwks": {"keys": []}}, "jwks: must not be set"),
    ({"kerberos_principal": WEB, "tls_client_certificate": "x"}, "tls_client_certificate: must not be set"),
]


@pytest.mark.parametrize(("fields", "reason"), RULES, ids=[reason[:60] for _, reason in RULES])
async def test_s052_idp_035_idp_037_idp_039_idp_041_idp_042_idp_044_idp_046_idp_059_idp_357_each_rule_is_400_at_post_and_put(
    desk: Desk, fields: dict[str, Any], reason: str
) -> None:
    other = await desk.registered()

    posted = await desk.post("/api/admin/clients", cookie=desk.admin, json=body(**fields))
    secret = {} if "client_secret" in fields else {"client_secret": None}
    put = await desk.put(other, **body(**fields), **secret)

    for answer in (posted, put):
        assert answer.outcome == (400, "invalid_client_metadata"), answer.text
        assert answer.json["error_description"].startswith(reason)


async def test_s052_a_kerberos_client_does_not_become_what_may_not_be_stored(desk: Desk) -> None:
    client = await made(desk, kerberos_principal_pattern=f"a*b*c*@{REALM}")

    for change in ({"kerberos_principal_pattern": f"a*b*c*d*@{REALM}"}, {"kerberos_principal": WEB}, {"client_secret": SECRET}):
        assert (await desk.put(client, **change)).outcome == (400, "invalid_client_metadata")
    changed = await desk.put(client, kerberos_principal=WEB, kerberos_principal_pattern=None)
    assert (changed.status, changed.json["kerberos_principal"]) == (200, WEB)
    assert (await token(desk, WEB)).status == 200


async def test_s062_idp_048_idp_049_with_a_service_and_no_rule_every_request_is_denied(desk: Desk) -> None:
    client = await made(desk, kerberos_principal=WEB, kerberos_hbac_service="idp", grant_types=["client_credentials", "refresh_token"])

    async def all_of_them() -> list[tuple[int, str]]:
        refresh = await token(desk, WEB, grant_type="refresh_token", refresh_token="rt_x")
        looked = await desk.post("/introspect", data={"token": "x"}, headers=negotiate(WEB))
        answers = [await token(desk, WEB), await token(desk, WEB, client_id=client["client_id"]), refresh, looked]
        assert all(answer.headers["WWW-Authenticate"] == "Negotiate done" for answer in answers)
        return [(answer.status, answer.error) for answer in answers]

    assert await all_of_them() == [(403, "access_denied")] * 4
    rule = {"name": "r", "hosts": ["web1.chancery.test"], "services": ["other"]}
    await desk.post("/api/admin/hbac", cookie=desk.admin, json=rule)
    assert await all_of_them() == [(403, "access_denied")] * 4
    answer = await desk.post("/api/admin/hbac", cookie=desk.admin, json={**rule, "services": ["idp"]})
    assert answer.status == 201, answer.text
    assert await all_of_them() == [(200, ""), (200, ""), (400, "invalid_grant"), (200, "")]
    assert len(await desk.events(METHOD)) == 2


async def test_s062_a_template_with_a_service_lets_in_the_hosts_of_the_rules(desk: Desk) -> None:
    await made(desk, kerberos_principal_pattern=f"*@{REALM}", kerberos_hbac_service="idp")
    users = [f"host/web*@{REALM}"]
    await desk.post("/api/admin/hbac", cookie=desk.admin, json={"name": "r", "users": users, "services": ["idp"]})

    assert (await token(desk, WEB)).status == 200
    for principal in (DB, HTTP, ALICE):
        assert (await token(desk, principal)).outcome == (403, "access_denied")


async def test_s062_without_rules_of_access_a_service_lets_nobody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path / "installed")
    tickets = install_tickets(tmp_path / "installed", WEB)
    async with open_desk(tmp_path, "client-auth-kerberos", tickets, ipa={"gssapi": True}) as desk:
        client = await made(desk, kerberos_principal=WEB, kerberos_hbac_service="idp")
        assert (await token(desk, WEB)).outcome == (403, "access_denied")
        await desk.put(client, kerberos_hbac_service=None)
        assert (await token(desk, WEB)).status == 200


async def test_idp_048_of_another_method_the_service_does_not_matter(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        fields = {"kerberos_hbac_service": "idp", "grant_types": ["client_credentials"], "redirect_uris": [], "consent": None}
        client = await desk.registered(**fields, scopes=["groups"])
        assert (await desk.form("/token", {"grant_type": "client_credentials"}, by=client)).status == 200


async def test_without_a_usable_keytab_503_and_the_others_go_on(desk: Desk) -> None:
    await made(desk, kerberos_principal=WEB)
    negotiator = sys.modules["greatseal_tickets"].NEGOTIATOR

    for state in (NotConfigured(), Unusable(reason="the keytab /etc/x.keytab cannot be read")):
        negotiator.state = state
        refused = await token(desk, WEB)
        assert refused.status == 503
        assert "keytab" not in refused.text
        assert (await desk.form("/token", {"grant_type": "client_credentials", "scope": "profile"})).status != 503
    negotiator.state = Ready()
    assert (await token(desk, WEB)).status == 200


async def test_idp_043_idp_047_idp_058_idp_060_without_the_switch_there_is_no_such_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path / "installed")
    tickets = install_tickets(tmp_path / "installed", WEB)
    async with open_desk(tmp_path, "client-auth-kerberos", tickets) as desk:
        for fields in ({"kerberos_principal": WEB}, {"kerberos_principal_pattern": f"host/*@{REALM}"}):
            answer = await desk.post("/api/admin/clients", cookie=desk.admin, json=body(**fields))
            assert answer.outcome == (400, "invalid_client_metadata")
            assert "[ipa] gssapi = true" in answer.json["error_description"]
        assert METHOD not in (await desk.get("/.well-known/openid-configuration")).json["token_endpoint_auth_methods_supported"]
        assert (await token(desk, WEB)).outcome == (401, "invalid_client")


async def test_idp_061_s055_nobody_registers_such_a_client_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path / "installed")
    tickets = install_tickets(tmp_path / "installed", WEB)
    server = {"registration_token": "let-me-in-please-0123456789", "auth_rate_limit": 0}
    async with open_desk(
        tmp_path, "resolver", "client-auth-kerberos", "registration", tickets, ipa={"gssapi": True}, server=server
    ) as desk:
        for fields in ({}, {"kerberos_principal": WEB}):
            asked = {"token_endpoint_auth_method": METHOD, "redirect_uris": [CALLBACK], **fields}
            answer = await desk.post("/register", json=asked, headers={"Authorization": f"Bearer {server['registration_token']}"})
            assert answer.outcome == (400, "invalid_client_metadata")
        assert METHOD in (await desk.get("/.well-known/openid-configuration")).json["token_endpoint_auth_methods_supported"]
