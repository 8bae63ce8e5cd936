"""A whole organisation at one service: its own people in LDAP, partners who sign in at home, and one application that wants more."""

import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rig.slapd import REALM, SERVICE, SERVICE_PASSWORD, SUFFIX
from rig.softkeys import SoftKey
from security.idp_desk import BROWSER
from security.idp_federation import open_federation
from security.idp_passkeys import Passkeys

from greatseal.testing.desk import Answer, hidden_fields, told
from greatseal_passkey import tables as passkey_tables

ONE, TWO = "urn:example:password", "urn:example:two-factors"
LADDER = [{"value": ONE, "level": 1, "satisfied_by": ["pwd", "fed"]}, {"value": TWO, "level": 2, "satisfied_by": ["mfa"]}]
OFFLINE = "openid offline_access"


@pytest.fixture
async def house(make_slapd: Any, tmp_path: Path, database_url: str) -> AsyncIterator[Any]:
    with make_slapd() as slapd:
        ipa = {"ldap_uri": slapd.uri, "base_dn": SUFFIX, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD, "start_tls": False}
        ipa |= {"cache_secs": 0, "passkey_rp_id": "localhost"}
        partner = {"realm": "PARTNER.EXAMPLE", "username_claim": "name"}
        sections = {"ipa": ipa, "server": {"realm": REALM}, "acr": LADDER, "database": {"url": database_url}}
        async with open_federation(tmp_path, features=("ipa", "passkey", "otp"), table=partner, **sections) as opened:
            opened.slapd = slapd
            opened.strict = await opened.desk.registered(required_acr_values=[TWO])
            yield opened


def claims_of(tokens: Any) -> Any:
    payload = tokens["id_token"].split(".")[1]
    return json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


async def statuses(desk: Any, *cookies: str) -> list[int]:
    return [(await desk.get("/api/auth/me", cookie=cookie)).status for cookie in cookies]


async def tokens_of(house: Any, asked: Answer, client: Any) -> Any:
    answer = await house.desk.redeem(told(asked)["code"], by=client)
    assert answer.status == 200, answer.text
    return answer.json


async def test_people_of_the_directory_and_of_a_partner_in_one_day(house: Any) -> None:
    desk, slapd, strict = house.desk, house.slapd, house.strict
    keys, key = Passkeys(desk), SoftKey()

    # Erin of the directory signs in with her password there, and gets a passkey, which rests there too.
    erin = (await desk.login("erin", "erinpw")).cookie
    await keys.register(erin, key, "Erin's key")
    assert await desk.rows(passkey_tables.credential) == []
    first = await tokens_of(house, await desk.authorize(erin, scope=OFFLINE), desk.client)
    assert (claims_of(first)["sub"], claims_of(first)["acr"]) == (f"erin@{REALM}", ONE)

    # One application wants two factors: she proves the passkey alone, and is not asked for it by the others.
    asked = await desk.authorize(erin, client_id=strict["client_id"], scope=OFFLINE)
    assert asked.location.startswith("/ui/auth/step-up")
    stepped = await keys.complete(key.answer(await keys.begin("erin"), desk.url), headers={"Cookie": erin})
    assert (stepped.status, stepped.json["acr"], stepped.json["amr"]) == (200, TWO, ["hwk", "user", "mfa"])
    strong = await tokens_of(house, await desk.authorize(stepped.cookie, client_id=strict["client_id"], scope=OFFLINE), strict)
    assert claims_of(strong)["acr"] == TWO
    assert await statuses(desk, erin, stepped.cookie) == [401, 200], "the session goes on under another cookie"

    # Ada of a partner signs in at home, and is somebody of the partner's realm here.
    house.stub.claims = {"name": "ada", "amr": ["pwd"]}
    came = await house.sign_in()
    partner = await tokens_of(house, await desk.authorize(came.cookie, scope=OFFLINE), desk.client)
    short = await tokens_of(house, await desk.authorize(came.cookie, scope="openid"), desk.client)
    assert (claims_of(partner)["sub"], claims_of(partner)["amr"]) == ("ada@PARTNER.EXAMPLE", ["fed", "pwd"])
    refused = told(await desk.authorize(came.cookie, client_id=strict["client_id"], prompt="none"))
    assert refused["error"] == "login_required"

    # She signs out at home: what came of that has ended before the partner has its answer, and nobody else's.
    logout = {"logout_token": house.stub.logout_token(sub="ada-1", sid="sid-1")}
    assert (await desk.post("/backchannel/logout/partner", data=logout)).status == 200
    assert await statuses(desk, came.cookie, stepped.cookie) == [401, 200]
    assert (await desk.userinfo(short["access_token"])).status == 401
    assert (await desk.refresh(strong["refresh_token"], by=strict)).status == 200
    assert (await desk.post("/backchannel/logout/partner", data=logout)).status == 400

    # An administrator of the directory locks Erin out: she is out everywhere, in every way.
    slapd.replace("erin", "nsAccountLock", "TRUE")
    assert await statuses(desk, stepped.cookie) == [403]
    assert (await desk.refresh(first["refresh_token"])).error == "invalid_grant"
    assert (await desk.userinfo(first["access_token"])).status == 401
    assert (await desk.login("erin", "erinpw")).status == 403
    await keys_refused(keys, key)
    asked = await desk.authorize(stepped.cookie, prompt="none")
    assert told(asked)["error"] in {"login_required", "access_denied"}


async def keys_refused(keys: Passkeys, key: SoftKey) -> None:
    answer = await keys.complete(key.answer(await keys.begin("erin"), keys.desk.url))
    assert answer.status in {401, 403}, answer.text
    assert not any("greatseal_session" in one for one in answer.cookies)


async def test_the_limit_of_an_address_holds_over_all_ways_together(make_slapd: Any, tmp_path: Path) -> None:
    with make_slapd() as slapd:
        ipa = {"ldap_uri": slapd.uri, "base_dn": SUFFIX, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD, "start_tls": False}
        ipa |= {"passkey_rp_id": "localhost"}
        sections = {"ipa": ipa, "server": {"realm": REALM, "auth_rate_limit": 8}}
        async with open_federation(tmp_path, features=("ipa", "passkey", "otp"), **sections) as opened:
            desk = opened.desk  # whose administrator has signed in once
            keys, key = Passkeys(desk), SoftKey()
            page = await desk.get("/ui/auth/login", headers=BROWSER)
            form = {**hidden_fields(page, "login-form"), "username": "erin", "password": "wrong"}
            request = await opened.begin()

            answers = [
                await desk.login("alice", "wrong"),
                await desk.login("nobody", "wrong"),
                await desk.post("/login", data=form, cookie=page.cookies[0].partition(";")[0], headers=BROWSER),
                await desk.post("/api/auth/otp", json={"username": "bob", "password": "wrong", "otp_code": "123456"}),
                await keys.complete(key.answer(await keys.begin(), desk.url)),
                await opened.arrive(code=opened.stub.code(request), state=request["state"]),
                await desk.login("erin", "erinpw"),
            ]
            over = [
                await desk.login("erin", "erinpw"),
                await desk.post("/login", data=form, cookie=page.cookies[0].partition(";")[0], headers=BROWSER),
                await desk.post("/api/auth/otp", json={"username": "bob", "password": "bobpw", "otp_code": "123456"}),
                await keys.complete(key.answer(await keys.begin(), desk.url)),
                await opened.arrive(code="c", state=(await opened.begin())["state"]),
            ]

            assert [answer.status for answer in answers] == [401, 401, 401, 401, 401, 403, 200]
            assert [answer.status for answer in over] == [429] * 5
            assert all(int(answer.headers["Retry-After"]) > 0 for answer in over)
