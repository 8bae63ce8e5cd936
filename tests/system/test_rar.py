"""Rich authorization requests (RFC 9396) over HTTP, with the types of the guide and with one of a stranger's wheel."""

import json
import re
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rig.strangers.tool_calls import ToolCalls
from security.idp_desk import BROWSER, Desk, open_desk
from security.idp_device import device_of

from greatseal.api.clients import Client
from greatseal.jose.compact import b64url_decode
from greatseal.testing.desk import Answer, hidden_fields, members_of
from greatseal.testing.details import DetailTypeContract

GUIDE = (Path(__file__).parents[2] / "docs/guide/authorization-details.md").read_text()
BANK = tomllib.loads(next(block for block in re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL) if "[[oauth" in block))["oauth"]
(PAYMENT,) = json.loads(re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)[0])
SMALL = {**PAYMENT, "actions": ["status"]}
RATES = {"type": "exchange_rates", "actions": ["read", "subscribe"]}
TYPES = ["payment_initiation", "exchange_rates"]
MCP = "https://mcp.example/"
TOOLS = {"type": "mcp_tools", "locations": [MCP], "tools": ["search", "read"], "calls": 10}
REFUSED = (400, "invalid_authorization_details")


class TestToolCalls(DetailTypeContract):
    good = (TOOLS,)
    refused = ({**TOOLS, "tools": ["delete"]}, {**TOOLS, "locations": ["https://other.example/"]}, {**TOOLS, "calls": 0})
    less = (({**TOOLS, "calls": 9, "tools": ["read"]}, TOOLS),)
    client = Client(client_id="c1", token_endpoint_auth_method="none", more={"resources": [MCP]})

    def detail_type(self) -> ToolCalls:
        return ToolCalls()


@pytest.fixture
async def desk(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path, "device-flow", "rar", database={"url": database_url}, oauth=BANK) as desk:
        yield desk


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Desk]:
    """Where the database makes no difference."""
    async with open_desk(tmp_path, "rar", oauth=BANK) as desk:
        yield desk


def text(*details: Any) -> str:
    return json.dumps(details)


async def registered(desk: Desk, **fields: Any) -> dict[str, Any]:
    return await desk.registered(**{"consent": "explicit", "authorization_details_types": TYPES, **fields})


def said(answer: Answer) -> list[Any]:
    """The details of a token response, which its access token says too."""
    assert answer.status == 200, answer.text
    claims = json.loads(b64url_decode(answer.json["access_token"].split(".")[1]))
    found: list[Any] = answer.json.get("authorization_details", [])
    assert claims.get("authorization_details", []) == found
    return found


async def test_a_person_reads_what_is_asked_for_each_time_and_the_tokens_say_it(desk: Desk) -> None:
    client, cookie = await registered(desk), await desk.cookie("ann")
    asked = {"client_id": client["client_id"], "scope": "openid offline_access", "authorization_details": text(PAYMENT, PAYMENT, RATES)}
    for _ in range(2):
        page, fields = await desk.consent(cookie, **asked)
        assert page.text.count("Pay 123.50 EUR to “Merchant A”") == 2
        assert "The account of the receiver is “DE02100100109307118603”" in page.text
        assert "actions: initiate, status" in page.text
        assert "Read the exchange rates of today" in page.text
        code = members_of((await desk.approve(cookie, fields)).location)["code"]
    again = await desk.authorize(cookie, **{**asked, "prompt": "none"})
    assert members_of(again.location)["error"] == "consent_required"

    tokens = await desk.redeem(code, by=client)
    assert said(tokens) == [PAYMENT, PAYMENT, RATES]
    introspected = await desk.introspect(tokens.json["access_token"], by=client)
    assert introspected["authorization_details"] == [PAYMENT, PAYMENT, RATES]
    assert (await desk.userinfo(tokens.json["access_token"])).json.keys() == {"sub"}

    less = await desk.refresh(tokens.json["refresh_token"], by=client, authorization_details=text(SMALL))
    assert said(less) == [SMALL]
    for widened in ([PAYMENT] * 3, [{**PAYMENT, "creditorName": "Mallory"}], [{**PAYMENT, "actions": ["cancel"]}]):
        refused = await desk.refresh(less.json["refresh_token"], by=client, authorization_details=text(*widened))
        assert refused.outcome == REFUSED
    whole = await desk.refresh(less.json["refresh_token"], by=client)
    assert said(whole) == [PAYMENT, PAYMENT, RATES], "a refusal is no replay, and narrowing one token narrows no refresh"


async def test_a_code_gives_what_was_allowed_and_a_refusal_burns_none(desk: Desk) -> None:
    client, cookie = await registered(desk), await desk.cookie("ann")
    code = await desk.code(cookie, client_id=client["client_id"], scope=None, authorization_details=text(PAYMENT))
    bare = await desk.code(cookie, client_id=client["client_id"])

    assert (await desk.redeem(code, by=client, authorization_details=text(PAYMENT, RATES))).outcome == REFUSED
    assert (await desk.redeem(bare, by=client, authorization_details=text(PAYMENT))).outcome == REFUSED
    tokens = await desk.redeem(code, by=client, authorization_details=text(SMALL))
    assert said(tokens) == [SMALL]
    assert tokens.json["scope"] == "", "details need no scope"
    assert said(await desk.redeem(bare, by=client)) == []


async def test_details_are_pushed_and_a_device_asks_for_them(desk: Desk) -> None:
    client, cookie = await registered(desk), await desk.cookie("ann")
    pushed = (await desk.push(by=client, scope="openid", authorization_details=text(PAYMENT))).json
    asked = await desk.get(f"/authorize?client_id={client['client_id']}&request_uri={pushed['request_uri']}", cookie=cookie)
    page = await desk.get(asked.location, cookie=cookie, headers=BROWSER)
    code = members_of((await desk.approve(cookie, hidden_fields(page))).location)["code"]
    assert said(await desk.redeem(code, by=client)) == [PAYMENT]

    device = await device_of(desk, authorization_details_types=TYPES)
    assert (await device.ask(authorization_details=text({"type": "x"}))).outcome == REFUSED
    user_code = await device.begin(scope=None, authorization_details=text(PAYMENT))
    shown = await desk.get(f"/device?user_code={user_code}", cookie=cookie, headers=BROWSER)
    assert "Pay 123.50 EUR to “Merchant A”" in shown.text
    await device.decide(cookie)
    assert (await device.poll(authorization_details=text(RATES))).outcome == REFUSED
    desk.clock.advance(5)
    assert said(await device.poll(authorization_details=text(SMALL))) == [SMALL]


async def test_what_breaks_a_rule_is_told_at_every_endpoint_without_being_repeated(plain: Desk) -> None:
    desk, client = plain, await registered(plain)
    cookie = await desk.cookie("ann")
    bad = text({**PAYMENT, "zq7": "zq7"})

    pushed = await desk.push(by=client, authorization_details=bad)
    sent = members_of((await desk.authorize(cookie, client_id=client["client_id"], authorization_details=bad)).location)
    twice = await desk.push(by=client, authorization_details=(text(PAYMENT), text(RATES)))
    other = await desk.push(authorization_details=text(PAYMENT))

    assert (pushed.outcome, sent["error"]) == (REFUSED, REFUSED[1])
    described = "authorization_details[0]: it has a member that the type does not declare (RFC 9396 s5)"
    assert pushed.json["error_description"] == sent["error_description"] == described
    assert twice.outcome == (400, "invalid_request")
    assert other.outcome == REFUSED
    assert "(RFC 9396 s10)" in other.json["error_description"], "the client is registered for no type"


async def test_a_program_gets_for_itself_what_the_operator_allows_without_a_person(plain: Desk) -> None:
    own = {"grant_types": ["client_credentials"], "redirect_uris": None}
    client, form = await registered(plain, **own, scopes=[]), {"grant_type": "client_credentials"}

    assert said(await plain.form("/token", {**form, "authorization_details": text(RATES)}, by=client)) == [RATES]
    assert (await plain.form("/token", form, by=client)).outcome == (400, "invalid_scope")
    refused = await plain.form("/token", {**form, "authorization_details": text(RATES, PAYMENT)}, by=client)
    assert refused.outcome == REFUSED
    assert "needs a person" in refused.json["error_description"]


async def test_types_are_registered_listed_and_taken_away(plain: Desk) -> None:
    assert (await plain.register(authorization_details_types=["other"])).outcome == (400, "invalid_client_metadata")
    assert (await plain.register(authorization_details_types="payment_initiation")).outcome == (400, "invalid_client_metadata")
    for document in ("openid-configuration", "oauth-authorization-server"):
        assert (await plain.get(f"/.well-known/{document}")).json["authorization_details_types_supported"] == sorted(TYPES)
    client, cookie = await registered(plain), await plain.cookie("ann")
    asked = {"client_id": client["client_id"], "scope": "offline_access", "authorization_details": text(PAYMENT, RATES)}
    tokens = await plain.redeem(await plain.code(cookie, **asked), by=client)

    await plain.put(client, authorization_details_types=["exchange_rates"])
    left = await plain.refresh(tokens.json["refresh_token"], by=client)
    assert said(left) == [RATES]
    await plain.put(client, authorization_details_types=[])
    assert (await plain.refresh(left.json["refresh_token"], by=client)).outcome == REFUSED


async def test_without_a_type_or_without_the_plugin_the_metadata_say_nothing_of_it(tmp_path: Path) -> None:
    for number, features in enumerate((["rar"], [])):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with open_desk(folder, *features) as desk:
            metadata = (await desk.get("/.well-known/openid-configuration")).json
            pushed = await desk.push(authorization_details=text(PAYMENT))
            assert "authorization_details_types_supported" not in metadata
            assert pushed.outcome == (REFUSED if features else (201, "")), "whoever does not know a parameter ignores it"


async def test_a_strangers_type_is_asked_for_told_narrowed_and_refused_by_its_own_words(strangers: Path, tmp_path: Path) -> None:
    async with open_desk(tmp_path, "rar", "tool-calls", oauth=BANK) as desk:
        cookie = await desk.cookie("ann")
        client = await registered(desk, authorization_details_types=["mcp_tools"], resources=[MCP])
        asked = {"client_id": client["client_id"], "scope": "openid offline_access", "authorization_details": text(TOOLS)}
        page, fields = await desk.consent(cookie, **asked)
        code = members_of((await desk.approve(cookie, fields)).location)["code"]
        few = {**TOOLS, "calls": 3, "tools": ["read"]}
        tokens = await desk.redeem(code, by=client, authorization_details=text(few))
        more = await desk.refresh(tokens.json["refresh_token"], by=client, authorization_details=text({**TOOLS, "calls": 11}))
        wrong = await desk.push(by=client, authorization_details=text({**TOOLS, "tools": ["sudo"]}))

    assert f"Use {MCP} at most 10 times" in page.text
    assert "Search your documents" in page.text
    assert said(tokens) == [few]
    assert more.outcome == REFUSED
    assert wrong.json["error_description"] == "authorization_details[0]: tools: expected some of search, read and share"
