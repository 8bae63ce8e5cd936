"""The names of passkeys, and policies about the devices that make them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.softkeys import Maker, SoftKey
from security.idp_desk import open_desk
from security.idp_passkeys import Passkeys, open_passkeys

from greatseal.api.problems import StartProblem
from greatseal.testing.desk import hidden_fields

PAGE = "/account/passkeys"
FORM = {"Accept": "text/html"}


@pytest.fixture
async def flow(database_url: str, tmp_path: Path) -> AsyncIterator[Any]:
    async with open_passkeys(tmp_path, database={"url": database_url}) as opened:
        yield opened


async def test_a_person_gives_a_passkey_another_name(flow: Any) -> None:
    passkeys, cookie, key = flow
    (one,) = await passkeys.listed(cookie)
    path = f"/api/auth/passkeys/{one['id']}"

    assert (await passkeys.desk.ask("PUT", path, cookie=cookie, json={"label": " The blue key "})).status == 204

    assert [held["label"] for held in await passkeys.listed(cookie)] == ["The blue key"]
    for label in ("", "   ", "x" * 65, "two\nlines"):
        assert (await passkeys.desk.ask("PUT", path, cookie=cookie, json={"label": label})).outcome == (400, "invalid_request"), label
    assert (await passkeys.sign_in(key)).status == 200
    assert [event.sub for event in await passkeys.desk.events("passkey_renamed")] == ["ann@LOCALHOST"]


async def test_s070_a_passkey_of_somebody_else_keeps_its_name(flow: Any) -> None:
    passkeys, cookie, _ = flow
    (one,) = await passkeys.listed(cookie)
    ben = await passkeys.desk.cookie("ben")
    there, nowhere = f"/api/auth/passkeys/{one['id']}", "/api/auth/passkeys/AAAA"

    answers = [await passkeys.desk.ask("PUT", path, cookie=ben, json={"label": "Mine"}) for path in (there, nowhere)]

    assert [answer.outcome for answer in answers] == [(404, "not_found")] * 2
    assert answers[0].body == answers[1].body
    assert [held["label"] for held in await passkeys.listed(cookie)] == ["My phone"]


async def test_the_page_renames_without_a_script(flow: Any) -> None:
    passkeys, cookie, _ = flow
    page = await passkeys.desk.get(PAGE, cookie=cookie, headers=FORM)
    (one,) = await passkeys.listed(cookie)
    fields = {"form_token": hidden_fields(page)["form_token"], "id": one["id"]}
    both = f"{cookie}; {page.cookies[0].partition(';')[0]}" if page.cookies else cookie

    done = await passkeys.desk.post(PAGE, data={**fields, "label": "Renamed"}, cookie=both, headers=FORM)
    wrong = await passkeys.desk.post(PAGE, data={**fields, "label": " "}, cookie=both, headers=FORM)

    assert (done.status, done.location) == (303, PAGE)
    assert (wrong.status, "Enter a name." in wrong.text) == (400, True)
    assert [held["label"] for held in await passkeys.listed(cookie)] == ["Renamed"]


# ---- Only some models


@asynccontextmanager
async def only(folder: Path, maker: Maker, **more: Any) -> AsyncIterator[tuple[Passkeys, str]]:
    """A service at which only devices of that maker make passkeys, and ann's session."""
    file = folder / "models.json"
    file.write_text(json.dumps(maker.metadata()))
    settings = {"attestation": "direct", "metadata_file": str(file), **more}
    async with open_desk(folder, "passkey", passkey=settings) as desk:
        yield Passkeys(desk), await desk.cookie("ann")


@pytest.mark.parametrize("fmt", ["packed", "fido-u2f"])
async def test_only_devices_of_the_models_in_the_file_make_passkeys(tmp_path: Path, fmt: str) -> None:
    maker = Maker()
    maker.fmt = fmt
    async with only(tmp_path, maker) as (passkeys, cookie):
        key = SoftKey()
        key.maker = maker
        offer = await passkeys.offer(cookie)

        made = await passkeys.register(cookie, key)

        assert offer["publicKey"]["attestation"] == "direct"
        assert made["label"] == "Example Key 1"
        assert (await passkeys.sign_in(key)).status == 200


async def test_another_device_is_told_that_it_may_not_be_used(tmp_path: Path) -> None:
    maker = Maker()
    async with only(tmp_path, maker) as (passkeys, cookie):
        stranger, copied = SoftKey(), SoftKey()
        copied.maker = Maker()  # of the same model as it says, by another authority
        for key in (stranger, copied):
            answer = await passkeys.send(cookie, key.make(await passkeys.offer(cookie), passkeys.desk.url))
            assert answer.outcome == (403, "device_not_allowed")
            assert answer.json["error_description"] == "this kind of device may not be used here; ask your administrator which ones may"

        assert await passkeys.listed(cookie) == []
        events = await passkeys.desk.events("passkey_refused")
        assert [event.outcome for event in events] == ["failure"] * 2
        assert ["nobody vouches" in events[0].detail, "do not lead to one that is trusted" in events[1].detail] == [True, True]


async def test_a_model_that_was_revoked_makes_no_more_passkeys_and_those_that_there_are_go_on(tmp_path: Path) -> None:
    maker = Maker()
    async with only(tmp_path, maker) as (passkeys, cookie):
        first, second = SoftKey(), SoftKey()
        first.maker = second.maker = maker
        await passkeys.register(cookie, first)
        other = tmp_path / "models.new"
        other.write_text(json.dumps(maker.metadata("FIDO_CERTIFIED_L1", "REVOKED")))
        other.replace(tmp_path / "models.json")

        answer = await passkeys.send(cookie, second.make(await passkeys.offer(cookie), passkeys.desk.url))

        assert answer.outcome == (403, "device_not_allowed")
        assert (await passkeys.sign_in(first)).status == 200


async def test_a_file_of_models_that_is_none_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text("none")
    settings = {"attestation": "direct", "metadata_file": str(tmp_path / "models.json")}

    with pytest.raises(StartProblem, match="metadata_file"):
        async with open_desk(tmp_path, "passkey", passkey=settings):
            pass
