"""Passkeys from their registration to their end, on both databases."""

import asyncio
import json
import os
from typing import Any

import pytest
from rig import warm
from rig.softkeys import BE, BS, UP, UV, SoftKey
from security.idp_desk import PASSWORD, open_desk
from security.idp_passkeys import API, open_passkeys

from greatseal.api.problems import Unavailable
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.compact import b64url_encode
from greatseal.testing.desk import hidden_fields
from greatseal_passkey import tables as t
from greatseal_passkey.local import LocalPasskeys
from greatseal_users_file.edit import write

MINUTE = 60
PAGE = "/account/passkeys"
FORM = {"Accept": "text/html"}


@pytest.fixture
async def flow(database_url: str, tmp_path: Any) -> Any:
    async with open_passkeys(tmp_path, database={"url": database_url}) as opened:
        yield opened


@pytest.fixture
async def plain(tmp_path: Any) -> Any:
    """Where the database makes no difference."""
    async with open_passkeys(tmp_path) as opened:
        yield opened


async def test_idp_235_the_options_to_register_are_those_of_the_person(plain: Any) -> None:
    passkeys, cookie, key = plain

    begun = await passkeys.offer(cookie)

    options = begun["publicKey"]
    assert set(begun) == {"challenge_id", "publicKey"}
    assert options["rp"] == {"id": "localhost", "name": "localhost"}
    assert options["user"] == {"id": b64url_encode(key.handle), "name": "ann", "displayName": "ann"}
    assert [one["alg"] for one in options["pubKeyCredParams"]] == [-7, -8, -257]
    assert options["excludeCredentials"] == [{"type": "public-key", "id": b64url_encode(key.id)}]
    assert options["authenticatorSelection"] == {
        "residentKey": "preferred",
        "requireResidentKey": False,
        "userVerification": "required",
    }
    assert options["attestation"] == "none"
    for method, path in (("POST", "/register/begin"), ("POST", "/register/complete"), ("GET", "s"), ("DELETE", "s/x")):
        assert (await passkeys.desk.ask(method, f"{API}{path}", json={} if method == "POST" else None)).outcome == (401, "unauthenticated")


@pytest.mark.parametrize("algorithm", [-7, -8, -257])
async def test_idp_236_a_passkey_of_each_algorithm_is_registered_and_signs_in(flow: Any, algorithm: int) -> None:
    passkeys, cookie, _ = flow
    key = SoftKey(algorithm=algorithm, id=b"\0\xff" * 8)

    made = await passkeys.register(cookie, key, "  The key ")

    assert set(made) == {"id", "label", "created_at"}
    assert (made["id"], made["label"]) == (b64url_encode(key.id), "The key")
    assert (await passkeys.sign_in(key)).status == 200
    (event, *_) = [one for one in await passkeys.desk.events("passkey_registered") if made["id"] in one.detail]
    assert event.sub == "ann@LOCALHOST"


async def test_idp_233_the_options_to_sign_in(plain: Any) -> None:
    passkeys, _, key = plain

    without, named = await passkeys.begin(), await passkeys.begin("ann")

    assert set(without["publicKey"]) == {"challenge", "timeout", "rpId", "allowCredentials", "userVerification"}
    assert without["publicKey"]["allowCredentials"] == []
    assert (without["publicKey"]["rpId"], without["publicKey"]["userVerification"]) == ("localhost", "required")
    assert named["publicKey"]["allowCredentials"] == [{"type": "public-key", "id": b64url_encode(key.id), "transports": ["internal"]}]
    assert without["publicKey"]["challenge"] != (await passkeys.begin())["publicKey"]["challenge"]
    assert (await passkeys.desk.post(f"{API}/begin")).status == 200, "the body is optional"


@pytest.mark.parametrize("name", [None, "ann", " ann ", "ann@LOCALHOST"])
async def test_idp_234_a_proven_passkey_makes_the_session(flow: Any, name: str | None) -> None:
    passkeys, _, key = flow

    answered = key.answer(await passkeys.begin(name), passkeys.desk.url)
    answer = await passkeys.complete({**answered, "return_to": "/ciba"})

    assert answer.status == 200, answer.text
    assert {name: answer.json[name] for name in ("username", "sub", "amr", "return_to")} == {
        "username": "ann",
        "sub": "ann@LOCALHOST",
        "amr": ["hwk", "user", "mfa"],
        "return_to": "/ciba",
    }
    assert set(answer.json) >= {"display_name", "groups", "acr", "auth_time", "expires_at"}
    assert (await passkeys.desk.get("/api/auth/me", cookie=answer.cookie)).json["sub"] == "ann@LOCALHOST"
    assert [event.sub for event in await passkeys.desk.events("login_success")][-1] == "ann@LOCALHOST"


async def test_s104_the_methods_are_what_was_proven(tmp_path: Any) -> None:
    async with open_passkeys(tmp_path, passkey={"user_verification": "preferred"}) as (passkeys, cookie, held):
        held.flags = UP
        assert (await passkeys.sign_in(held)).json["amr"] == ["hwk"]
        passkeys.desk.clock.step(1)
        synced = SoftKey()
        synced.flags = UP | UV | BE
        await passkeys.register(cookie, synced)
        synced.flags |= BS
        assert (await passkeys.sign_in(synced)).json["amr"] == ["swk", "user", "mfa"]
        assert [one["backup_state"] for one in await passkeys.listed(cookie)] == [False, True]


async def test_idp_237_a_person_sees_their_own_passkeys(flow: Any) -> None:
    passkeys, cookie, key = flow
    other = await passkeys.desk.cookie("ben")
    assert await passkeys.listed(other) == []
    passkeys.desk.clock.step(MINUTE)
    await passkeys.register(cookie, SoftKey())
    await passkeys.sign_in(key)

    first, second = await passkeys.listed(cookie)

    assert first == {
        "id": b64url_encode(key.id),
        "label": "My phone",
        "created_at": first["created_at"],
        "last_used_at": first["created_at"] + MINUTE,
        "transports": ["internal"],
        "backup_eligible": False,
        "backup_state": False,
        "suspected_at": None,
        "source": "local",
    }
    assert (second["label"], second["last_used_at"]) == ("Passkey 2", None)


async def test_idp_238_a_deleted_passkey_signs_nobody_in(flow: Any) -> None:
    passkeys, cookie, key = flow
    path = f"/api/auth/passkeys/{b64url_encode(key.id)}"

    answer = await passkeys.desk.ask("DELETE", path, cookie=cookie)

    assert (answer.status, answer.body) == (204, b"")
    await passkeys.refused(key.answer(await passkeys.begin(), passkeys.desk.url))
    assert await passkeys.listed(cookie) == []
    assert (await passkeys.desk.ask("DELETE", path, cookie=cookie)).outcome == (404, "not_found")
    assert [event.sub for event in await passkeys.desk.events("passkey_deleted")] == ["ann@LOCALHOST"]
    assert await passkeys.desk.rows(t.credential) == await passkeys.desk.rows(t.record) == []


async def test_an_administrator_sees_and_deletes_the_passkeys_of_a_person(flow: Any) -> None:
    """Also of one who is in no directory any more: the name may be given to somebody else."""
    passkeys, cookie, key = flow
    desk, path = passkeys.desk, "/api/admin/passkeys?sub=ann%40LOCALHOST"
    await passkeys.register(cookie, SoftKey())
    users = desk.folder / "users.toml"
    write(users, users.read_text().replace('username = "ann"', 'username = "anna"'))
    assert (await passkeys.sign_in(key)).status == 403

    for method in ("GET", "DELETE"):
        assert (await desk.ask(method, path, cookie=await desk.cookie("ben"))).outcome == (403, "forbidden")
        for wrong in (path.partition("?")[0], f"{path}&username=ann"):
            assert (await desk.ask(method, wrong, cookie=desk.admin)).outcome == (400, "invalid_request")
    assert {one["label"] for one in (await desk.get(path, cookie=desk.admin)).json} == {"My phone", "Passkey 2"}
    assert (await desk.ask("DELETE", path, cookie=desk.admin)).status == 204

    assert (await desk.get(path, cookie=desk.admin)).json == []
    await passkeys.refused(key.answer(await passkeys.begin(), desk.url))
    events = await desk.events("passkey_deleted")
    assert {(event.sub, event.principal) for event in events} == {("ann@LOCALHOST", "admin@LOCALHOST")}
    assert len(events) == 2


async def test_ctl_lists_and_deletes_the_passkeys_of_a_person(plain: Any) -> None:
    passkeys, cookie, key = plain
    desk = passkeys.desk
    environ = {**os.environ, "GREATSEAL_SESSION": str(desk.folder / "session.json"), "GREATSEAL_SERVER": desk.url}

    async def ctl(*arguments: str, given: str = "", code: int = 0) -> str:
        result = await asyncio.to_thread(warm.run, "ctl", *arguments, given=given, env=environ)
        assert result.returncode == code, result.stderr
        return str(result.stdout)

    await ctl("login", "admin", "--password-file", "-", given=PASSWORD)
    (listed,) = json.loads(await ctl("--json", "passkeys", "list", "ann@LOCALHOST"))
    assert (listed["id"], listed["label"]) == (b64url_encode(key.id), "My phone")
    for words in ("list",), ("delete", "--yes"):
        await ctl("passkeys", *words, "ann", code=1)
    await ctl("passkeys", "delete", "ben@LOCALHOST", "--yes")
    assert len(await passkeys.listed(cookie)) == 1, "ben's are meant"
    assert "ann@LOCALHOST has no passkeys any more" in await ctl("passkeys", "delete", "ann@LOCALHOST", "--yes")
    assert json.loads(await ctl("--json", "passkeys", "list", "ann@LOCALHOST")) == []
    assert [event.principal for event in await desk.events("passkey_deleted")] == ["admin@LOCALHOST"]


async def test_whoever_signed_in_long_ago_neither_adds_nor_deletes(plain: Any) -> None:
    passkeys, cookie, key = plain
    begun = await passkeys.offer(cookie)
    passkeys.desk.clock.step(10 * MINUTE)
    stale = (403, "reauthentication_required")

    assert (await passkeys.desk.post(f"{API}/register/begin", cookie=cookie, json={})).outcome == stale
    assert (await passkeys.send(cookie, SoftKey().make(begun, passkeys.desk.url))).outcome == stale
    assert (await passkeys.desk.ask("DELETE", f"/api/auth/passkeys/{b64url_encode(key.id)}", cookie=cookie)).outcome == stale
    page = await passkeys.desk.get(PAGE, cookie=cookie, headers=FORM)
    assert "Sign in again" in page.text
    assert "add-passkey" not in page.text
    assert (await passkeys.desk.get(f"{PAGE}/again")).location == "/ui/auth/login?return_to=%2Faccount%2Fpasskeys"


async def test_the_page_lists_and_deletes_without_a_script(plain: Any) -> None:
    passkeys, cookie, key = plain
    page = await passkeys.desk.get(PAGE, cookie=cookie, headers=FORM)
    assert "My phone" in page.text
    assert "never used" in page.text
    fields = hidden_fields(page)
    assert fields["id"] == b64url_encode(key.id)

    async def send(**changes: str) -> Any:
        return await passkeys.desk.post(PAGE, cookie=cookie, headers=FORM, data={**fields, **changes})

    assert (await send(form_token="x")).status == 403
    gone = await send(id="AAAA")
    assert (gone.status, "You have no such passkey." in gone.text) == (404, True)
    assert (await send()).location == PAGE
    assert "None yet." in (await passkeys.desk.get(PAGE, cookie=cookie, headers=FORM)).text
    assert (await passkeys.desk.get(PAGE, headers=FORM)).location == "/ui/auth/login?return_to=%2Faccount%2Fpasskeys"
    assert (await passkeys.desk.post(PAGE, headers=FORM, data=fields)).location == "/ui/auth/login?return_to=%2Faccount%2Fpasskeys"


async def test_the_account_page_names_the_passkeys_and_leads_to_them(plain: Any) -> None:
    passkeys, cookie, _ = plain

    page = (await passkeys.desk.get("/account", cookie=cookie, headers=FORM)).text

    assert "My phone" in page
    assert f'href="{PAGE}"' in page


async def test_a_part_of_the_account_page_that_cannot_be_told_leaves_the_rest(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    passkeys, cookie, _ = plain
    host = passkeys.desk.service.host("passkey")

    async def down(_subject: str) -> Any:
        raise Unavailable("the directory cannot be reached")

    monkeypatch.setattr(host._plugin.assembly(host).part._keeper._stores, "home", down)
    page = await passkeys.desk.get("/account", cookie=cookie, headers=FORM)

    assert page.status == 200
    assert "This cannot be shown at the moment." in page.text
    assert "Connected applications" in page.text


async def test_a_person_has_twenty_at_most(flow: Any) -> None:
    passkeys, cookie, _ = flow
    for _ in range(19):
        await passkeys.register(cookie, SoftKey())

    answer = await passkeys.send(cookie, SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url))

    assert answer.outcome == (409, "conflict")
    assert "20 passkeys" in answer.json["error_description"]
    assert len(await passkeys.listed(cookie)) == 20


@pytest.mark.parametrize("label", ["x" * 65, "two\nlines", "a\u202eb"])
async def test_a_name_that_cannot_be_shown_is_refused(plain: Any, label: str) -> None:
    passkeys, cookie, _ = plain

    answer = await passkeys.send(cookie, {**SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url), "label": label})

    assert answer.outcome == (400, "invalid_request")


async def test_the_handle_of_a_person_is_the_same_for_all_their_passkeys_and_nobody_elses(plain: Any) -> None:
    passkeys, cookie, key = plain
    again, other = SoftKey(), SoftKey()
    await passkeys.register(cookie, again)
    await passkeys.register(await passkeys.desk.cookie("ben"), other)

    assert again.handle == key.handle != other.handle
    assert len(key.handle) == 32


async def test_fifty_answers_to_one_challenge_make_one_session(flow: Any) -> None:
    """S094, in parallel."""
    passkeys, _, key = flow
    answered = key.answer(await passkeys.begin(), passkeys.desk.url)

    answers = await asyncio.gather(*(passkeys.complete(answered) for _ in range(50)))

    assert sorted(answer.status for answer in answers) == [200, *[401] * 49]
    assert len(await passkeys.desk.events("login_success")) == 3, "the administrator, ann with her password, ann with her passkey"


async def test_fifty_registrations_of_one_challenge_make_one_passkey(flow: Any) -> None:
    passkeys, cookie, _ = flow
    made = SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url)

    answers = await asyncio.gather(*(passkeys.send(cookie, made) for _ in range(50)))

    assert sorted(answer.status for answer in answers) == [201, *[409] * 49]
    assert len(await passkeys.listed(cookie)) == 2
    assert len(await passkeys.desk.events("passkey_registered")) == 2


async def test_s097_a_counter_that_goes_back_is_refused_and_shown(flow: Any) -> None:
    passkeys, cookie, key = flow
    key.counter = 10
    assert (await passkeys.sign_in(key)).status == 200

    for counter in (10, 3, 0):  # one more is what it says, and 0 is that of no counter
        key.counter = counter
        await passkeys.refused(key.answer(await passkeys.begin(), passkeys.desk.url))

    (listed,) = await passkeys.listed(cookie)
    assert listed["suspected_at"] is not None
    assert "counter=11 known=11" in (await passkeys.desk.events("passkey_suspected"))[0].detail
    assert "passkey: the signature counter went back" in (await passkeys.failures())[0]
    assert "It may have been copied." in (await passkeys.desk.get(PAGE, cookie=cookie, headers=FORM)).text
    key.counter = 11
    assert (await passkeys.sign_in(key)).status == 200


async def test_a_passkey_that_was_registered_elsewhere_is_known_from_its_first_use_on(flow: Any) -> None:
    """As those that a directory holds: there is no row about them."""
    passkeys, cookie, key = flow
    host = passkeys.desk.service.host("passkey")
    await host.db.write(lambda tx: tx.remove(t.RECORD, b64url_encode(key.id)))
    (unknown,) = await passkeys.listed(cookie)
    assert (unknown["label"], unknown["created_at"], unknown["transports"]) == ("Passkey", None, [])
    assert "Not used here yet" in (await passkeys.desk.get(PAGE, cookie=cookie, headers=FORM)).text

    key.counter = 7
    assert (await passkeys.sign_in(key)).status == 200

    (known,) = await passkeys.listed(cookie)
    assert known["last_used_at"] is not None
    key.counter = 6
    await passkeys.refused(key.answer(await passkeys.begin(), passkeys.desk.url))


async def test_what_is_administered_elsewhere_is_not_changed_here(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    passkeys, cookie, key = plain
    made = SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url)
    monkeypatch.setattr(LocalPasskeys, "read_only", True)

    assert (await passkeys.desk.post(f"{API}/register/begin", cookie=cookie, json={})).outcome == (403, "forbidden")
    assert (await passkeys.send(cookie, made)).outcome == (403, "forbidden")
    assert (await passkeys.desk.ask("DELETE", f"/api/auth/passkeys/{b64url_encode(key.id)}", cookie=cookie)).outcome == (403, "forbidden")
    page = await passkeys.desk.get(PAGE, cookie=cookie, headers=FORM)
    assert "administered elsewhere" in page.text
    assert "add-passkey" not in page.text
    assert (await passkeys.sign_in(key)).status == 200
    assert len(await passkeys.listed(cookie)) == 1


async def test_a_counter_of_none_stays_none(plain: Any) -> None:
    passkeys, _, key = plain

    assert [(await passkeys.sign_in(key)).status for _ in range(2)] == [200, 200]


async def test_a_disabled_person_is_not_signed_in(tmp_path: Any) -> None:
    async with open_passkeys(tmp_path) as (passkeys, _, key):
        users = passkeys.desk.folder / "users.toml"
        write(users, users.read_text().replace('username = "ann"', 'username = "ann"\nenabled = false'))
        answer = await passkeys.sign_in(key)
        failures = await passkeys.desk.events("login_failure")

    assert answer.outcome == (403, "access_denied")
    assert not answer.cookies
    assert [event.sub for event in failures] == ["ann@LOCALHOST"]


async def test_a_blocked_key_is_neither_registered_nor_good_for_a_sign_in(plain: Any) -> None:
    passkeys, cookie, key = plain
    host = passkeys.desk.service.host("passkey")
    for one in (key, other := SoftKey()):
        digest = spki_sha256(one.key.public_key())
        await host.db.write(lambda tx, digest=digest: host.blocked_keys.block(tx, digest, reason="known to others", by="test"))

    await passkeys.refused(key.answer(await passkeys.begin(), passkeys.desk.url))
    answer = await passkeys.send(cookie, other.make(await passkeys.offer(cookie), passkeys.desk.url))
    assert answer.outcome == (400, "invalid_request")
    assert len(await passkeys.listed(cookie)) == 1


async def test_idp_232_passkeys_are_off_without_a_name_for_them(tmp_path: Any) -> None:

    async with open_desk(tmp_path, "passkey", ipa={}) as desk:
        cookie = await desk.cookie("ann")
        for method, path in (
            ("POST", f"{API}/begin"),
            ("POST", f"{API}/complete"),
            ("POST", f"{API}/register/begin"),
            ("POST", f"{API}/register/complete"),
            ("GET", "/api/auth/passkeys"),
            ("DELETE", "/api/auth/passkeys/x"),
        ):
            assert (await desk.ask(method, path, cookie=cookie)).outcome == (501, "not_implemented")
        assert (await desk.get("/api/auth/info")).json["features"]["passkey"] is False
        assert "passkey" not in (await desk.get("/ui/auth/login", headers=FORM)).text


async def test_idp_232_the_directory_s_domain_makes_them_work(tmp_path: Any) -> None:
    async with open_passkeys(tmp_path, ipa={"passkey_rp_id": "localhost"}) as (passkeys, _, key):
        assert (await passkeys.sign_in(key)).status == 200
        assert (await passkeys.desk.get("/api/auth/info")).json["features"]["passkey"] is True
