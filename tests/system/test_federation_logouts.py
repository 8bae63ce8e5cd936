"""Sign-outs that are told across: a provider to us, in the back and in the front, and from here to the provider; and linked accounts."""

import asyncio
from typing import Any, ClassVar
from unittest.mock import AsyncMock
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from rig.upstream import CLIENT, request_of
from security.idp_federation import ACCOUNTS, BROWSER, Federation, open_federation

from greatseal.testing.desk import Answer, hidden_fields
from greatseal_federation import tables as t

MINUTE = 60
AFTER = "https://app.example/signed-out"


@pytest.fixture
async def flow(database_url: str, tmp_path: Any) -> Any:
    async with open_federation(tmp_path, database={"url": database_url}) as opened:
        await opened.link("ann")
        yield opened


@pytest.fixture
async def plain(tmp_path: Any) -> Any:
    async with open_federation(tmp_path, table={"self_service": True}) as opened:
        await opened.link("ann")
        yield opened


async def told(opened: Federation, token: str | None, upstream: str = "partner") -> Answer:
    return await opened.desk.post(f"/backchannel/logout/{upstream}", data={} if token is None else {"logout_token": token})


async def is_live(opened: Federation, answer: Answer) -> bool:
    return (await opened.desk.get("/api/auth/me", cookie=answer.cookie)).status == 200


async def test_idp_264_a_logout_at_the_provider_ends_the_sessions_that_came_of_it(flow: Federation) -> None:
    first = await flow.sign_in()
    flow.stub.claims["sid"] = "sid-2"
    second = await flow.sign_in()
    other = await flow.desk.cookie("ann")

    answer = await told(flow, flow.stub.logout_token(sid="sid-1"))

    assert (answer.status, answer.body, answer.headers["Cache-Control"]) == (200, b"", "no-store")
    assert (await is_live(flow, first), await is_live(flow, second)) == (False, True)
    assert (await told(flow, flow.stub.logout_token(sub="ada-1"))).status == 200
    assert not await is_live(flow, second)
    assert (await flow.desk.get("/api/auth/me", cookie=other)).status == 200, "a session that came of a password goes on"
    events = await flow.desk.events("backchannel_logout_in")
    assert [one.detail for one in events] == [
        "upstream=partner sid=sid-1 sessions=1",
        "upstream=partner sub=ada-1 sessions=1",
    ]
    assert await flow.desk.rows(t.session) == []


async def test_idp_264_refresh_tokens_of_the_session_end_but_for_offline_ones(flow: Federation) -> None:
    signed_in = await flow.sign_in()
    code = await flow.desk.code(signed_in.cookie, scope="openid profile")
    token = (await flow.desk.redeem(code)).json["access_token"]
    offline = (await flow.desk.tokens(signed_in.cookie))["refresh_token"]

    await told(flow, flow.stub.logout_token(sub="ada-1", sid="sid-1"))

    assert (await flow.desk.userinfo(token)).status == 401
    assert (await flow.desk.refresh(offline)).status == 200


async def test_idp_264_of_fifty_deliveries_of_one_logout_token_one_is_taken(flow: Federation) -> None:
    signed_in = await flow.sign_in()
    token = flow.stub.logout_token(sub="ada-1")

    answers = await asyncio.gather(*(told(flow, token) for _ in range(50)))

    assert sorted(answer.status for answer in answers) == [200] + [400] * 49
    assert not await is_live(flow, signed_in)
    assert len(await flow.desk.events("backchannel_logout_in")) == 1
    again = await flow.sign_in()
    assert (await told(flow, token)).outcome == (400, "invalid_request")
    assert await is_live(flow, again), "a token that was used before ends nothing"


LIES: dict[str, dict[str, Any]] = {
    "issuer": {"iss": "https://evil.example"},
    "audience": {"aud": "somebody-else"},
    "another-party": {"aud": [CLIENT, "somebody-else"]},
    "old": {"exp": 1},
    "long-lived": {"exp": 1 << 39},
    "no-end": {"exp": None},
    "no-beginning": {"iat": None},
    "from-the-future": {"iat": 1 << 39},
    "no-jti": {"jti": None},
    "no-events": {"events": None},
    "another-event": {"events": {"https://elsewhere.example": {}}},
    "events-as-list": {"events": ["http://schemas.openid.net/event/backchannel-logout"]},
    "event-as-text": {"events": {"http://schemas.openid.net/event/backchannel-logout": ""}},
    "nonce": {"nonce": "n"},
    "nobody": {"sub": None},
    "sub-as-list": {"sub": ["ada-1"]},
    "lines": {"sub": "ada-1\n"},
}


async def test_idp_264_s035_no_other_token_ends_anything(plain: Federation) -> None:
    signed_in = await plain.sign_in()
    stub = plain.stub

    for lie, changes in LIES.items():
        answer = await told(plain, stub.logout_token(**{"sub": "ada-1", **changes}))
        assert answer.outcome == (400, "invalid_request"), lie
    for header in ({"alg": "none"}, {"typ": "at+jwt"}, {"jwk": {}}, {"kid": "another"}, {"crit": ["exp"]}):
        token = stub.sign({**_claims(stub.logout_token(sub="ada-1"))}, typ="logout+jwt", **{k: v for k, v in header.items() if k != "typ"})
        if "typ" in header:
            token = stub.sign(_claims(stub.logout_token(sub="ada-1")), typ=header["typ"])
        assert (await told(plain, token)).outcome == (400, "invalid_request"), header
    for token in (None, "", "x", "a.b.c", "x" * 20_000, stub.logout_token(sub="ada-1")[:-4] + "AAAA"):
        assert (await told(plain, token)).status == 400
    id_token = stub.id_token(await plain.begin(), "x")
    assert (await told(plain, id_token)).status == 400
    assert (await told(plain, stub.logout_token(sub="ada-1"), "nobody")).outcome == (404, "not_found")
    assert (await plain.desk.post("/backchannel/logout/partner", json={"logout_token": "x"})).status == 415
    assert await is_live(plain, signed_in)


def _claims(token: str) -> Any:
    from greatseal.jose.compact import parse_compact
    from greatseal.jose.strict import decode_object

    return decode_object(parse_compact(token).payload)


async def test_what_a_crash_left_ends_by_a_job(flow: Federation) -> None:
    signed_in = await flow.sign_in()
    made: Any = flow.desk.service.kernel.hooks.instances["federation"]
    sessions, host = made.assembly(None).sessions, flow.desk.service.host("federation")

    await host.db.write(lambda tx: sessions.end_upstream(tx, "partner", subject="ada-1", sid=None))
    assert await is_live(flow, signed_in)
    await sessions.carry_on()

    assert not await is_live(flow, signed_in)
    assert await flow.desk.rows(t.session) == []


async def test_sessions_whose_time_is_over_are_forgotten(flow: Federation) -> None:
    await flow.sign_in()
    made: Any = flow.desk.service.kernel.hooks.instances["federation"]
    flow.desk.clock.advance(8 * 60 * MINUTE + 1)
    flow.desk.clock.advance(60 * MINUTE)
    await made.assembly(None).sessions.carry_on()
    flow.desk.clock.advance(61 * MINUTE)
    flow.desk.clock.now()
    await made.assembly(None).sessions.carry_on()

    assert await flow.desk.rows(t.session) == []


async def test_what_is_no_logout_token_is_of_no_node(plain: Federation) -> None:
    instance: Any = plain.desk.service.kernel.hooks.instances["federation"]
    (route,) = [one for one in instance.assembly(None).routes if one.path.startswith("/backchannel/logout/")]

    class Asked:
        path: ClassVar = {"upstream_id": "partner"}

        def __init__(self, body: bytes) -> None:
            self.raw = AsyncMock(return_value=body)

    for body in (b"", b"logout_token=x", b"logout_token=a&logout_token=b"):
        assert await route.owner(Asked(body)) is None


async def test_a_logout_token_of_a_provider_whose_metadata_lie_is_asked_for_again(plain: Federation) -> None:
    signed_in = await plain.sign_in()
    plain.desk.service.kernel.hooks.instances["federation"].assembly(None).metadata.forget("partner")  # type: ignore[attr-defined]
    plain.stub.metadata = {"issuer": "https://evil.example"}

    assert (await told(plain, plain.stub.logout_token(sid="sid-1"))).status == 503
    assert await is_live(plain, signed_in)


async def test_a_frame_of_the_provider_s_page_ends_the_session_that_it_names(plain: Federation) -> None:
    first = await plain.sign_in()
    path = "/frontchannel/logout/partner"
    for query in ({}, {"iss": plain.stub.url}, {"sid": "sid-1"}, {"iss": "https://evil.example", "sid": "sid-1"}):
        assert (await plain.desk.get(f"{path}?{urlencode(query)}", headers=BROWSER)).status == 400
    for sid in ("x" * 257, "sid-1\0"):
        assert (await plain.desk.get(f"{path}?{urlencode({'iss': plain.stub.url, 'sid': sid})}")).status == 400
    assert (await plain.desk.get(f"{path}?{urlencode({'iss': plain.stub.url, 'sid': 'another'})}")).status == 200
    assert await is_live(plain, first)

    frame = await plain.desk.get(f"{path}?{urlencode({'iss': plain.stub.url, 'sid': 'sid-1'})}")

    assert (frame.status, frame.headers["Cache-Control"]) == (200, "no-store")
    assert f"frame-ancestors {plain.stub.url}" in frame.headers["Content-Security-Policy"]
    assert "X-Frame-Options" not in frame.headers
    assert not await is_live(plain, first)
    assert [one.detail for one in await plain.desk.events("frontchannel_logout_in")] == ["upstream=partner sid=sid-1 sessions=1"]


async def test_whoever_signs_out_here_signs_out_there_and_comes_back(plain: Federation) -> None:
    desk = plain.desk
    await desk.put(desk.client, post_logout_redirect_uris=[AFTER])
    signed_in = await plain.sign_in()
    tokens = (await desk.redeem(await desk.code(signed_in.cookie))).json
    query = urlencode({"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": AFTER, "state": "s-1"})

    there = await desk.get(f"/logout?{query}", cookie=signed_in.cookie, headers=BROWSER)

    asked = request_of(there.location)
    assert (there.status, there.location.partition("?")[0]) == (302, f"{plain.stub.url}/logout")
    assert asked["client_id"] == CLIENT
    assert asked["post_logout_redirect_uri"] == f"{desk.url}/auth/external/partner/signed-out"
    assert asked["id_token_hint"].count(".") == 2
    assert not await is_live(plain, signed_in)
    back = await desk.get(f"/auth/external/partner/signed-out?{urlencode({'state': asked['state']})}", headers=BROWSER)
    assert (back.status, back.location) == (303, f"{AFTER}?state=s-1")
    for state in ("", "x", asked["state"][:-1]):
        page = await desk.get(f"/auth/external/partner/signed-out?{urlencode({'state': state})}", headers=BROWSER)
        assert (page.status, "signed out" in page.text) == (200, True)


async def test_a_form_that_signs_out_shows_a_page_that_goes_on(plain: Federation) -> None:
    signed_in = await plain.sign_in()
    page = await plain.desk.get("/logout", cookie=signed_in.cookie, headers=BROWSER)

    done = await plain.desk.post(
        "/logout", data={**hidden_fields(page), "confirm": "yes"}, cookie=signed_in.cookie, headers={**BROWSER, "Origin": plain.desk.url}
    )

    assert done.status == 200
    assert f"{plain.stub.url}/logout?" in done.text
    assert "Sign out where you came from too" in done.text


@pytest.mark.parametrize("how", ["switched-off", "no-endpoint", "down", "password"])
async def test_where_there_is_nothing_to_end_elsewhere_one_is_signed_out_here(tmp_path: Any, how: str) -> None:
    async with open_federation(tmp_path, table={"end_session": how != "switched-off"}) as opened:
        await opened.link("ann")
        opened.stub.metadata = {"end_session_endpoint": None} if how == "no-endpoint" else {}
        cookie = await opened.desk.cookie("ann") if how == "password" else (await opened.sign_in()).cookie
        if how == "down":
            opened.desk.service.kernel.hooks.instances["federation"].assembly(None).metadata.forget("partner")  # type: ignore[attr-defined]
            opened.stub.metadata = {"issuer": "https://evil.example"}
        page = await opened.desk.get("/logout", cookie=cookie, headers=BROWSER)
        headers = {**BROWSER, "Origin": opened.desk.url}
        done = await opened.desk.post("/logout", data={**hidden_fields(page), "confirm": "yes"}, cookie=cookie, headers=headers)

        assert (done.status, "You are signed out" in done.text, opened.stub.url in done.text) == (200, True, False)


async def _page(opened: Federation, cookie: str) -> Answer:
    return await opened.desk.get("/account/connections", cookie=cookie, headers=BROWSER)


async def test_a_person_links_an_account_and_unlinks_it(plain: Federation) -> None:
    desk = plain.desk
    cookie = await desk.cookie("ben")
    headers = {**BROWSER, "Origin": desk.url}
    page = await _page(plain, cookie)
    assert "None yet" in page.text

    started = await desk.post("/account/connections/link", data=hidden_fields(page, "link-partner"), cookie=cookie, headers=headers)
    plain.browser = next(one.partition(";")[0] for one in started.cookies if "federation" in one)
    request = request_of(started.location)
    plain.stub.claims = {"sub": "ben-7", "email": "ben@partner.example"}
    linked = await plain.arrive(code=plain.stub.code(request), state=request["state"], cookie=cookie)

    assert (started.status, request["prompt"]) == (303, "login")
    assert (linked.status, linked.location) == (303, "/account/connections")
    assert not [one for one in linked.cookies if "session" in one]
    assert (await plain.me(await plain.sign_in()))["sub"] == "ben@LOCALHOST"
    shown = await _page(plain, cookie)
    assert "ben@partner.example, last used" in shown.text
    account = await desk.get("/account", cookie=cookie, headers=BROWSER)
    assert "Accounts elsewhere" in account.text
    (made,) = [one for one in (await desk.get(ACCOUNTS, cookie=desk.admin)).json if one["username"] == "ben@LOCALHOST"]
    assert made["created_by"] == "ben@LOCALHOST"
    form = {"form_token": hidden_fields(shown)["form_token"], "id": made["id"]}
    gone = await desk.post("/account/connections", data=form, cookie=cookie, headers=headers)
    assert gone.status == 303
    assert (await plain.sign_in()).status == 403


async def test_s079_an_account_is_linked_by_its_person_alone(plain: Federation) -> None:
    desk = plain.desk
    cookie, headers = await desk.cookie("ben"), {**BROWSER, "Origin": desk.url}
    fields = hidden_fields(await _page(plain, cookie), "link-partner")

    # Not by a page of somebody else, not from a browser that was left open, and not in a session that came meanwhile.
    assert (await desk.post("/account/connections/link", data={"upstream": "partner"}, cookie=cookie)).status == 403
    foreign = {**BROWSER, "Origin": "https://evil.example"}
    assert (await desk.post("/account/connections/link", data=fields, cookie=cookie, headers=foreign)).status == 403
    started = await desk.post("/account/connections/link", data=fields, cookie=cookie, headers=headers)
    plain.browser = next(one.partition(";")[0] for one in started.cookies if "federation" in one)
    request = request_of(started.location)
    plain.stub.claims = {"sub": "evil-1"}
    refused = await plain.arrive(code=plain.stub.code(request), state=request["state"], cookie=await desk.cookie("ann"))
    assert (refused.status, "is not linked" in refused.text) == (400, True)
    started = await desk.post("/account/connections/link", data=fields, cookie=cookie + "; " + plain.browser, headers=headers)
    nobody = request_of(started.location)
    assert (await plain.arrive(code=plain.stub.code(nobody), state=nobody["state"])).status == 400, "whoever it was has signed out"
    again = request_of(
        (await desk.post("/account/connections/link", data=fields, cookie=cookie + "; " + plain.browser, headers=headers)).location
    )
    plain.stub.claims = {"sub": "ada-1"}
    taken = await plain.arrive(code=plain.stub.code(again), state=again["state"], cookie=cookie)
    assert (taken.status, "linked already" in taken.text) == (409, True)
    desk.clock.advance(11 * MINUTE)
    late = await desk.post("/account/connections/link", data=fields, cookie=cookie, headers=headers)
    assert late.location.startswith("/ui/auth/login")
    assert "sign in again" in (await _page(plain, cookie)).text.lower()
    (made,) = (await desk.get(ACCOUNTS, cookie=desk.admin)).json
    form = {"form_token": fields["form_token"], "id": made["id"]}
    fresh = await desk.cookie("ben")
    form["form_token"] = hidden_fields(await _page(plain, fresh), "link-partner")["form_token"]
    assert (await desk.post("/account/connections", data=form, cookie=fresh, headers=headers)).status == 303
    assert len((await desk.get(ACCOUNTS, cookie=desk.admin)).json) == 1, "nobody unlinks what is somebody else's"
    assert (await desk.get("/account/connections", headers=BROWSER)).location.startswith("/ui/auth/login")


async def test_people_link_accounts_only_where_the_configuration_lets_them(tmp_path: Any) -> None:
    async with open_federation(tmp_path) as opened:
        desk = opened.desk
        cookie = await desk.cookie("ann")
        page = await _page(opened, cookie)
        assert "Link another account" not in page.text
        login = await desk.get("/ui/auth/login", headers=BROWSER, cookie=cookie)
        form = {**hidden_fields(login), "upstream": "partner"}

        answer = await desk.post("/account/connections/link", data=form, cookie=cookie, headers={**BROWSER, "Origin": desk.url})

        assert answer.location == "/account/connections"
        assert dict(parse_qsl(urlsplit(answer.location).query)) == {}
