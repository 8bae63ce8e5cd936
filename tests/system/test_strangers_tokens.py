"""A stranger's token binding, extension and commands of ctl, each from a wheel, and used of one running service."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rig.strangers.badges import Badges
from rig.strangers.purposes import Purposes
from security.idp_desk import PASSWORD, Desk, open_desk

from greatseal.api.authorization import Extension
from greatseal.api.clients import Client
from greatseal.api.tokens import TokenBinding
from greatseal.jose.compact import b64url_decode
from greatseal.testing.bindings import TokenBindingContract
from greatseal.testing.calls import FakeCall
from greatseal.testing.ctl import Ctl, quiet
from greatseal.testing.desk import VERIFIER, Answer, members_of
from greatseal.testing.extensions import ExtensionContract

BADGE = {"Badge": "abc123"}
OWN = {"grant_types": ["client_credentials"], "redirect_uris": None, "scopes": ["groups"]}


class TestBadges(TokenBindingContract):
    asking = Client(client_id="c1", token_endpoint_auth_method="none", more={"badge_bound_access_tokens": True})

    def binding(self) -> TokenBinding:
        return Badges()

    def prove(self, call: FakeCall, *, key: int, token: str | None = None) -> None:
        call.headers["Badge"] = f"badge{key}"

    def spoil(self, call: FakeCall) -> None:
        call.headers["Badge"] = "no badge"


class TestPurposes(ExtensionContract):
    parameters = (("purpose", "to send you birthday wishes"),)

    def extension(self) -> Extension[Any]:
        return Purposes()


@pytest.fixture
async def desk(strangers: Path, tmp_path: Path) -> AsyncIterator[Desk]:
    """A provider with all three."""
    with quiet():
        async with open_desk(tmp_path, "badges", "purposes", "proclamations") as desk:
            yield desk


def claims_of(answer: Answer) -> Any:
    """Of the access token."""
    assert answer.status == 200, answer.text
    return json.loads(b64url_decode(answer.json["access_token"].split(".")[1]))


async def test_a_token_is_bound_to_the_strangers_badge_and_good_with_it_alone(desk: Desk) -> None:
    client = await desk.registered(badge_bound_access_tokens=True)
    code = await desk.code(await desk.cookie("ann"), client_id=client["client_id"], scope="openid offline_access")
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": client["redirect_uris"][0], "code_verifier": VERIFIER}

    without = await desk.form("/token", form, by=client)
    spoilt = await desk.form("/token", form, by=client, headers={"Badge": "no badge"})
    made = await desk.form("/token", form, by=client, headers=BADGE)
    token = made.json["access_token"]
    answers = [
        await desk.get("/userinfo", headers={"Authorization": f"{scheme} {token}", **badge})
        for scheme, badge in (("Badge", BADGE), ("Badge", {"Badge": "other"}), ("Badge", {}), ("Bearer", BADGE))
    ]
    refresh = {"grant_type": "refresh_token", "refresh_token": made.json["refresh_token"]}
    refused = await desk.form("/token", refresh, by=client, headers={"Badge": "other"})
    again = await desk.form("/token", refresh, by=client, headers=BADGE)

    assert (without.outcome, spoilt.outcome) == ((400, "invalid_request"), (400, "invalid_request"))
    assert made.json["token_type"] == "Badge"
    assert claims_of(made)["cnf"].keys() == {"badge#S256"}
    assert [answer.status for answer in answers] == [200, 401, 401, 401]
    assert "another badge" in answers[1].headers["WWW-Authenticate"]
    assert refused.status == 400
    assert claims_of(again)["cnf"] == claims_of(made)["cnf"]


async def test_the_strangers_parameter_is_shown_to_the_person_and_said_by_the_token(desk: Desk) -> None:
    client, cookie = await desk.registered(consent="explicit"), await desk.cookie("ann")
    asked = {"client_id": client["client_id"], "purpose": "to greet <you>"}

    page, fields = await desk.consent(cookie, **asked)
    code = members_of((await desk.approve(cookie, fields)).location)["code"]
    other = await desk.redeem(code, by=client, purpose="to sell you things")
    made = await desk.redeem(code, by=client)
    long = await desk.authorize(cookie, **{**asked, "purpose": "x" * 81})
    plain = await desk.redeem(await desk.code(cookie, client_id=client["client_id"]), by=client)

    assert "to greet &lt;you&gt;" in page.text
    assert other.outcome == (400, "invalid_request")
    assert claims_of(made)["purpose"] == "to greet <you>"
    assert members_of(long.location)["error"] == "invalid_request"
    assert "purpose" not in claims_of(plain)
    assert (await desk.get("/.well-known/openid-configuration")).json["purpose_parameter_supported"] is True


async def test_a_program_says_its_purpose_and_wears_its_badge_in_one_request(desk: Desk) -> None:
    client = await desk.registered(**OWN, badge_bound_access_tokens=True)

    form = {"grant_type": "client_credentials", "purpose": "to count"}
    claims = claims_of(await desk.form("/token", form, by=client, headers=BADGE))

    assert claims["purpose"] == "to count"
    assert "badge#S256" in claims["cnf"]


async def test_the_strangers_commands_use_its_routes_with_the_session_of_who_signed_in(desk: Desk, tmp_path: Path) -> None:
    ctl = Ctl(desk.url, tmp_path)
    stranger = await ctl.run("notice", "show")
    await ctl.login("ann", PASSWORD)
    refused = await ctl.run("notice", "write", "closed on Sunday")
    await ctl.login("admin", PASSWORD)
    written = await ctl.run("--json", "notice", "write", "closed on Sunday")
    shown = await ctl.run("notice", "show")

    assert (stranger.exit_code != 0, "not signed in" in stranger.stderr) == (True, True)
    assert (refused.exit_code != 0, "notice:write" in refused.stderr) == (True, True)
    assert json.loads(written.stdout) == {"text": "closed on Sunday"}
    assert "closed on Sunday" in shown.stdout
    assert (await desk.get("/api/admin/notice")).status == 401
