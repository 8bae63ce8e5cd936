"""The device flow under attack (RFC 8628 s5): guessed codes, links that somebody sent, devices that ask too often, foreign sites."""

import asyncio
from typing import Any

import pytest
from security.idp_desk import BROWSER, PARALLEL, SECRET
from security.idp_device import API, GRANT, INVALID, PAGE, PENDING, Device, device_of, entered, open_devices

from greatseal.testing.desk import hidden_fields
from greatseal_device_flow.limits import WRONG_OF_ADDRESS, WRONG_OF_SESSION


@pytest.fixture
async def flow(tmp_path: Any) -> Any:
    async with open_devices(tmp_path) as (desk, device, ann):
        yield desk, device, ann


async def test_s033_codes_are_guessed_five_times_in_a_session_and_twenty_times_from_an_address(flow: Any) -> None:
    desk, device, ann = flow
    user_code = await device.begin()

    guesses = [(await entered(desk, ann, "BBBB-BBB" + letter)).status for letter in "BCDFGH"]
    assert guesses == [404] * WRONG_OF_SESSION + [429]
    right = await entered(desk, ann, user_code)
    assert (right.status, "Too many attempts" in right.text, int(right.headers["Retry-After"]) > 0) == (429, True, True)
    assert (await device.decide(ann)).outcome == (429, "rate_limited")
    sessions = [await desk.cookie(name) for name in ("ann", "ben", "ann", "ben")]
    tried = [(await desk.ask("GET", f"{API}?user_code=x", cookie=one)).status for one in sessions for _ in range(WRONG_OF_SESSION)]
    assert tried.count(404) == WRONG_OF_ADDRESS - WRONG_OF_SESSION
    assert tried.count(429) == len(tried) - tried.count(404)
    fresh = await desk.cookie("ben")
    assert (await device.decide(fresh)).outcome == (429, "rate_limited")
    assert len(await desk.events("rate_limited")) == 2
    desk.clock.advance(301)
    assert (await device.decide(ann)).json == {"status": "approved"}


async def test_s033_parallel_guesses_are_counted_like_others(flow: Any) -> None:
    desk, _, ann = flow

    answers = await asyncio.gather(*(desk.ask("GET", f"{API}?user_code=BBBBBBBB", cookie=ann) for _ in range(PARALLEL)))

    assert sorted(answer.status for answer in answers) == [404] * WRONG_OF_SESSION + [429] * (PARALLEL - WRONG_OF_SESSION)


async def test_s033_nothing_but_a_decision_on_the_page_decides(flow: Any) -> None:
    desk, device, ann = flow
    user_code = await device.begin()
    link = f"{PAGE}?user_code={user_code}"

    page = await desk.ask("GET", f"{link}&decision=approve", cookie=ann, headers=BROWSER)
    fields = hidden_fields(page)
    assert page.status == 200
    for sent in (fields, {**fields, "decision": ""}, {**fields, "decision": "yes"}, {**fields, "decision": "Approve"}):
        assert (await desk.ask("POST", PAGE, cookie=ann, headers=BROWSER, data=sent)).status in {200, 400}
    assert (await desk.ask("HEAD", link, cookie=ann, headers=BROWSER)).status == 200
    assert (await desk.ask("POST", link, cookie=ann, data={"decision": "approve"})).status == 403
    assert (await device.poll()).outcome == PENDING
    assert await desk.events("device_approved", "consent_granted") == []


async def test_s033_an_earlier_consent_approves_no_device(flow: Any) -> None:
    desk, device, ann = flow
    await device.tokens(ann)
    desk.clock.advance(1)

    user_code = await device.begin()
    page = await desk.ask("GET", f"{PAGE}?user_code={user_code}", cookie=ann, headers=BROWSER)

    assert "Connect The TV?" in page.text
    assert (await device.poll()).outcome == PENDING


async def test_s033_the_code_of_one_device_is_nothing_to_another(flow: Any) -> None:
    desk, device, ann = flow
    another = await device_of(desk)
    await device.begin()
    assert [(await device.poll(by=another.client)).outcome for _ in range(3)] == [INVALID] * 3, "and they slow nobody down"
    await device.decide(ann)

    assert (await device.poll(by=another.client)).outcome == INVALID
    assert (await device.poll()).status == 200


async def test_s033_of_many_polls_and_of_two_decisions_one_counts(flow: Any) -> None:
    desk, device, ann = flow
    await device.begin()
    ben = await desk.cookie("ben")
    decided = await asyncio.gather(device.decide(ann), device.decide(ben, "deny"), device.decide(ben), device.decide(ann))
    assert sorted(answer.status for answer in decided) == [200, 409, 409, 409]
    assert len(await desk.events("device_approved", "device_denied")) == 1

    await device.begin()
    await device.decide(ann)
    polls = await asyncio.gather(*(device.poll() for _ in range(PARALLEL)))
    (won,) = (answer for answer in polls if answer.status == 200)
    assert {answer.outcome for answer in polls if answer is not won} == {INVALID}
    assert (await desk.userinfo(won.json["access_token"])).status == 200, "polling twice is no attack"


async def test_s029_nothing_else_is_a_device_code(flow: Any) -> None:
    desk, device, ann = flow
    user_code = await device.begin()
    tokens = await Device(desk, device.client).tokens(ann)
    code = await desk.code(ann)
    await device.decide(ann)
    device_code = device.asked["device_code"]

    for wrong in (
        user_code,
        code,
        *tokens.values(),
        device_code[:-1],
        device_code + "A",
        device_code.swapcase(),
        "dc_n1_" + "A" * 43,
        "\0",
        "ä",
    ):
        assert (await device.poll(str(wrong))).outcome == INVALID, wrong
    assert (await desk.form("/token", {"grant_type": GRANT}, by=device.client)).outcome == (400, "invalid_request")
    twice = [("grant_type", GRANT), ("device_code", device_code), ("device_code", device_code)]
    assert (await desk.form("/token", twice, by=device.client)).outcome == (400, "invalid_request")
    assert (await desk.redeem(device_code)).outcome == INVALID
    assert (await desk.refresh(device_code, by=device.client)).outcome == INVALID
    assert (await desk.userinfo(device_code)).status == 401
    assert (await device.poll()).status == 200


async def test_s039_who_may_not_sign_in_any_more_gets_no_tokens(flow: Any) -> None:
    desk, device, ann = flow
    await device.begin()
    await device.decide(ann)
    users = desk.folder / "users.toml"
    known = users.read_text()
    users.write_text(known.replace('username = "ann"', 'username = "ann"\nenabled = false'))
    assert users.read_text() != known

    desk.clock.advance(60)
    assert (await device.poll()).outcome == INVALID
    users.write_text(known)
    desk.clock.advance(60)
    assert (await device.poll()).status == 200, "nothing was used up"


async def test_s066_another_site_approves_nothing(flow: Any) -> None:
    desk, device, ann = flow
    user_code = await device.begin()
    fields = hidden_fields(await desk.ask("GET", f"{PAGE}?user_code={user_code}", cookie=ann, headers=BROWSER))
    approval = {**fields, "decision": "approve"}
    without = {name: value for name, value in approval.items() if name != "form_token"}
    body = {"user_code": user_code, "decision": "approve"}

    for foreign in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}):
        assert (await desk.ask("POST", PAGE, cookie=ann, headers=foreign, data=approval)).status == 403
        assert (await desk.ask("POST", API, cookie=ann, headers=foreign, json=body)).status == 403
    assert (await desk.ask("POST", PAGE, cookie=ann, data=without)).status == 403
    assert (await desk.ask("POST", PAGE, cookie=await desk.cookie("ben"), data=approval)).status == 403
    plain = await desk.ask("POST", API, cookie=ann, headers={"Content-Type": "text/plain"}, data=b"{}")
    assert plain.status in {403, 415}
    assert (await device.poll()).outcome == PENDING


async def test_b24_the_pages_are_framed_by_nobody_and_say_what_they_got_as_text(flow: Any) -> None:
    desk, _, ann = flow
    evil = await device_of(desk, client_name="<script>alert(1)</script>")
    user_code = await evil.begin()

    pages = [
        await desk.ask("GET", PAGE, cookie=ann, headers=BROWSER),
        await desk.ask("GET", f"{PAGE}?user_code={user_code}", cookie=ann, headers=BROWSER),
        await desk.ask("GET", f"{PAGE}?user_code=%22%3E%3Cscript%3E", cookie=ann, headers=BROWSER),
    ]

    for page in pages:
        assert page.headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["Referrer-Policy"] == "no-referrer"
        assert "<script" not in page.text
    assert "&lt;script&gt;" in pages[1].text


async def test_b26_a_confidential_client_is_proven_at_both_endpoints(flow: Any) -> None:
    desk, _, ann = flow
    printer = await device_of(desk, token_endpoint_auth_method="client_secret_basic", client_secret=SECRET)
    bare = {"client_id": printer.client["client_id"], "scope": "openid"}
    assert (await desk.ask("POST", "/device_authorization", data=bare)).outcome == (401, "invalid_client")
    await printer.begin()
    await printer.decide(ann)

    poll = {"client_id": printer.client["client_id"], "grant_type": GRANT, "device_code": printer.asked["device_code"]}
    assert (await desk.ask("POST", "/token", data=poll)).outcome == (401, "invalid_client")
    assert (await printer.poll()).status == 200


async def test_b30_codes_rest_as_digests(flow: Any) -> None:
    desk, device, _ = flow
    user_code = await device.begin()
    content = b"".join(file.read_bytes() for file in desk.folder.glob("greatseal.db*"))

    for secret in (device.asked["device_code"], user_code, user_code.replace("-", "")):
        assert secret.encode() not in content


async def test_requests_of_public_clients_are_limited_by_their_address(tmp_path: Any) -> None:
    async with open_devices(tmp_path, server={"auth_rate_limit": 3}) as (desk, device, _):
        proven = await device_of(desk, token_endpoint_auth_method="client_secret_basic", client_secret=SECRET)
        answers = [(await device.ask()).status for _ in range(31)]

        assert answers == [200] * 30 + [429]
        assert (await proven.ask()).status == 200
