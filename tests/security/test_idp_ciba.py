"""CIBA under attack: the requests of others, foreign sites, links that somebody sent, polls and decisions that race."""

import asyncio
from typing import Any

import pytest
from security.idp_ciba import API, GRANT, INVALID, PAGE, PENDING, caller_of, open_callers
from security.idp_desk import BROWSER, PARALLEL

from greatseal.testing.desk import hidden_fields


@pytest.fixture
async def flow(tmp_path: Any) -> Any:
    async with open_callers(tmp_path) as (desk, caller, ann):
        yield desk, caller, ann


async def test_s033_a_request_to_one_person_is_nothing_to_another(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    ben = await desk.cookie("ben")

    assert await caller.waiting(ben) == []
    for method, sent in (("GET", {}), ("POST", {"json": {"decision": "approve"}})):
        assert (await desk.ask(method, f"{API}/{waiting['id']}", cookie=ben, **sent)).outcome == (404, "not_found")
    assert (await desk.ask("GET", f"{PAGE}/{waiting['id']}", cookie=ben, headers=BROWSER)).status == 404
    assert (await caller.decide(ben, id=waiting["id"])).outcome == (404, "not_found")
    assert (await caller.poll()).outcome == PENDING


async def test_s033_nothing_but_a_decision_on_the_page_decides(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    place = f"{PAGE}/{waiting['id']}"

    page = await desk.ask("GET", f"{place}?decision=approve", cookie=ann, headers=BROWSER)
    fields = hidden_fields(page)
    assert page.status == 200
    for sent in (fields, {**fields, "decision": ""}, {**fields, "decision": "yes"}, {**fields, "decision": "Approve"}):
        assert (await desk.ask("POST", place, cookie=ann, headers=BROWSER, data=sent)).status == 400
    assert (await desk.ask("HEAD", place, cookie=ann, headers=BROWSER)).status == 200
    assert (await caller.poll()).outcome == PENDING
    assert await desk.events("ciba_approved", "consent_granted") == []


async def test_s066_another_site_approves_nothing(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    place, api = f"{PAGE}/{waiting['id']}", f"{API}/{waiting['id']}"
    page = await desk.ask("GET", place, cookie=ann, headers=BROWSER)
    fields = {**hidden_fields(page), "decision": "approve"}
    ben = await desk.cookie("ben")
    theirs = hidden_fields(await desk.ask("GET", "/account", cookie=ben, headers=BROWSER))

    for sent in ({"decision": "approve"}, {**fields, "form_token": theirs["form_token"]}):
        assert (await desk.ask("POST", place, cookie=ann, headers=BROWSER, data=sent)).status == 403
    foreign = {**BROWSER, "Origin": "https://evil.example"}
    assert (await desk.ask("POST", place, cookie=ann, headers=foreign, data=fields)).status == 403
    assert (await desk.ask("POST", api, cookie=ann, headers=foreign, json={"decision": "approve"})).status == 403
    assert (await desk.ask("POST", api, cookie=ann, data={"decision": "approve"})).status in {400, 403, 415}
    assert (await caller.poll()).outcome == PENDING


async def test_s033_the_request_of_one_client_is_nothing_to_another(flow: Any) -> None:
    desk, caller, ann = flow
    another = await caller_of(desk)
    await caller.begin()
    assert [(await caller.poll(by=another.client)).outcome for _ in range(3)] == [INVALID] * 3, "and they slow nobody down"
    await caller.decide(ann)

    assert (await caller.poll(by=another.client)).outcome == INVALID
    assert (await caller.poll()).status == 200


async def test_s033_of_many_polls_and_of_two_decisions_one_counts(flow: Any) -> None:
    desk, caller, ann = flow
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    decided = await asyncio.gather(*(caller.decide(ann, one, waiting["id"]) for one in ("approve", "deny", "deny", "approve")))
    assert sorted(answer.status for answer in decided) == [200, 409, 409, 409]
    assert len(await desk.events("ciba_approved", "ciba_denied")) == 1

    await caller.begin()
    await caller.decide(ann)
    polls = await asyncio.gather(*(caller.poll() for _ in range(PARALLEL)))
    (won,) = (answer for answer in polls if answer.status == 200)
    assert {answer.outcome for answer in polls if answer is not won} == {INVALID}
    assert (await desk.userinfo(won.json["access_token"])).status == 200, "polling twice is no attack"


async def test_s029_nothing_else_is_an_auth_req_id(flow: Any) -> None:
    desk, caller, ann = flow
    tokens = await caller.tokens(ann)
    code = await desk.code(ann)
    await caller.begin()
    (waiting,) = await caller.waiting(ann)
    await caller.decide(ann)
    handle = caller.asked["auth_req_id"]

    for wrong in (
        waiting["id"],
        code,
        *tokens.values(),
        handle[:-1],
        handle + "A",
        handle.swapcase(),
        "crq_n1_" + "A" * 43,
        "\0",
        "ä",
        "x" * 9000,
    ):
        assert (await caller.poll(str(wrong))).outcome == INVALID, wrong
    assert (await desk.form("/token", {"grant_type": GRANT}, by=caller.client)).outcome == (400, "invalid_request")
    assert (await desk.userinfo(handle)).status == 401
    assert (await caller.poll()).status == 200
