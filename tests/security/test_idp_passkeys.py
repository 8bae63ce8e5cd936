"""Passkeys under attack: challenges of others and used ones, foreign origins, keys of others, hostile answers of a device."""

from pathlib import Path
from typing import Any

import pytest
from cbor2 import CBORTag, dumps
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from rig.softkeys import BE, BS, UP, UV, SoftKey
from security.idp_desk import open_desk
from security.idp_passkeys import API, Passkeys, changed, open_passkeys

from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal_passkey import tables as t

REFUSED = (400, "invalid_request")
LIST = "/api/auth/passkeys"


@pytest.fixture
async def flow(tmp_path: Path) -> Any:
    async with open_passkeys(tmp_path) as opened:
        yield opened


# ---- Challenges


async def test_s094_a_challenge_is_good_once_for_one_purpose_and_300_seconds(flow: Any) -> None:
    passkeys, cookie, key = flow
    answered = key.answer(await passkeys.begin(), passkeys.desk.url)
    assert (await passkeys.complete(answered)).status == 200
    await passkeys.refused(answered)
    await passkeys.refused(key.answer(await passkeys.offer(cookie), passkeys.desk.url))
    late = await passkeys.begin()
    passkeys.desk.clock.step(300)
    await passkeys.refused(key.answer(late, passkeys.desk.url))
    passkeys.desk.clock.step(-300)
    assert (await passkeys.sign_in(key)).status == 200

    made = SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url)
    assert (await passkeys.send(cookie, made)).status == 201
    assert (await passkeys.send(cookie, made)).outcome == (409, "conflict")
    assert (await passkeys.desk.ask("DELETE", f"{LIST}/{made['id']}", cookie=cookie)).status == 204
    assert (await passkeys.send(cookie, made)).outcome == (409, "conflict"), "also when there is room for it again"
    begun = await passkeys.begin()
    begun["publicKey"]["user"] = {"id": "AAAA"}
    assert (await passkeys.send(cookie, SoftKey().make(begun, passkeys.desk.url))).outcome == REFUSED


@pytest.mark.parametrize("challenge", ["", "AAAA", "pk_n1_AAAA", b64url_encode(b"pk_n1_" + b"A" * 200), b64url_encode(b"\xff" * 40), "="])
async def test_s094_a_challenge_that_is_not_ours_is_nothing(flow: Any, challenge: str) -> None:
    passkeys, _, key = flow
    begun = await passkeys.begin()
    begun["publicKey"]["challenge"] = challenge

    await passkeys.refused(key.answer(begun, passkeys.desk.url))


async def test_s094_the_challenge_is_that_of_its_id(flow: Any) -> None:
    passkeys, _, key = flow
    first, second = await passkeys.begin(), await passkeys.begin()

    await passkeys.refused(key.answer({**first, "challenge_id": second["challenge_id"]}, passkeys.desk.url))


async def test_s100_a_registration_is_finished_by_the_session_that_began_it(flow: Any) -> None:
    passkeys, cookie, _ = flow
    other, again = await passkeys.desk.cookie("ben"), await passkeys.desk.cookie("ann")
    made = SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url)

    for foreign in (other, again):
        assert (await passkeys.send(foreign, made)).outcome == REFUSED
    assert await passkeys.listed(other) == []
    assert (await passkeys.send(cookie, made)).status == 201


# ---- Origins and flags


@pytest.mark.parametrize(
    "origin",
    ["https://localhost", "http://localhost:1", "http://evil.localhost", "http://127.0.0.1", "null", "", "http://localhost.example"],
)
async def test_s095_another_origin_is_refused(flow: Any, origin: str) -> None:
    passkeys, cookie, key = flow

    await passkeys.refused(key.answer(await passkeys.begin(), origin))
    assert (await passkeys.send(cookie, SoftKey().make(await passkeys.offer(cookie), origin))).outcome == REFUSED


async def test_s095_another_domain_type_or_frame_is_refused(flow: Any) -> None:
    passkeys, cookie, key = flow
    url = passkeys.desk.url

    for more in ({"type": "webauthn.create"}, {"type": "payment.get"}, {"crossOrigin": True}, {"topOrigin": "https://a.example"}):
        await passkeys.refused(key.answer(await passkeys.begin(), url, **more))
    for more in ({"type": "webauthn.get"}, {"crossOrigin": True}, {"topOrigin": "https://a.example"}):
        assert (await passkeys.send(cookie, SoftKey().make(await passkeys.offer(cookie), url, **more))).outcome == REFUSED
    for rp_id in ("evil.example", "host", "", "LOCALHOST"):
        key.rp_id = rp_id
        await passkeys.refused(key.answer(await passkeys.begin(), url))
        new = SoftKey()
        new.rp_id = rp_id
        assert (await passkeys.send(cookie, new.make(await passkeys.offer(cookie), url))).outcome == REFUSED


@pytest.mark.parametrize("flags", [0, UP, UV, UP | UV | BS, UP | UV | BE])
async def test_s096_who_is_not_there_or_not_verified_or_changed_its_kind_is_refused(flow: Any, flags: int) -> None:
    passkeys, cookie, key = flow
    key.flags = flags
    await passkeys.refused(key.answer(await passkeys.begin(), passkeys.desk.url))
    if flags != UP | UV | BE:  # as such it may be registered
        new = SoftKey()
        new.flags = flags
        assert (await passkeys.send(cookie, new.make(await passkeys.offer(cookie), passkeys.desk.url))).outcome == REFUSED


# ---- Whose it is


async def test_s098_a_passkey_is_good_for_its_own_person_alone(flow: Any) -> None:
    passkeys, _, key = flow
    ben = SoftKey()
    await passkeys.register(await passkeys.desk.cookie("ben"), ben)

    await passkeys.refused(ben.answer(await passkeys.begin("ann"), passkeys.desk.url))
    await passkeys.refused(key.answer(await passkeys.begin("nobody"), passkeys.desk.url))
    own = ben.answer(await passkeys.begin(), passkeys.desk.url)
    for handle in (b64url_encode(key.handle), "", "AAAA", "="):
        await passkeys.refused(changed(own, userHandle=handle))
    del own["response"]["userHandle"]
    await passkeys.refused(own)
    named = ben.answer(await passkeys.begin("ben"), passkeys.desk.url)
    await passkeys.refused(changed(named, userHandle=b64url_encode(key.handle)))
    del named["response"]["userHandle"]
    assert (await passkeys.complete(named)).json["username"] == "ben"


async def test_s098_the_id_of_another_passkey_with_the_key_of_ones_own_is_refused(flow: Any) -> None:
    passkeys, cookie, key = flow
    mine = SoftKey()
    await passkeys.register(cookie, mine)
    mine.id = key.id

    await passkeys.refused(mine.answer(await passkeys.begin(), passkeys.desk.url))


async def test_s099_an_id_that_is_there_is_nobody_elses(flow: Any) -> None:
    passkeys, _, key = flow
    ben = await passkeys.desk.cookie("ben")
    made = SoftKey(id=key.id).make(await passkeys.offer(ben), passkeys.desk.url)

    assert (await passkeys.send(ben, made)).outcome == (409, "conflict")
    assert await passkeys.listed(ben) == []
    assert (await passkeys.sign_in(key)).json["username"] == "ann"


async def test_s070_somebody_elses_passkey_is_as_one_that_is_not_there(flow: Any) -> None:
    passkeys, _, key = flow
    ben = await passkeys.desk.cookie("ben")

    answers = [
        await passkeys.desk.ask("DELETE", f"{LIST}/{id}", cookie=ben) for id in (b64url_encode(key.id), b64url_encode(bytes(32)), "=", "A")
    ]

    assert {(one.status, one.body) for one in answers} == {(404, answers[0].body)}
    assert (await passkeys.sign_in(key)).status == 200
    assert await passkeys.desk.events("passkey_deleted") == []


# ---- Other sites


async def test_s066_another_site_signs_nobody_in_and_changes_nothing(flow: Any) -> None:
    passkeys, cookie, key = flow
    desk = passkeys.desk
    foreign: list[dict[str, str]] = [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": desk.url.replace("localhost", "sub.localhost")},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"},
    ]
    answered = key.answer(await passkeys.begin(), desk.url)
    made = SoftKey().make(await passkeys.offer(cookie), desk.url)

    for headers in foreign:
        for path, body, session in (
            ("begin", {}, ""),
            ("complete", answered, ""),
            ("register/begin", {}, cookie),
            ("register/complete", made, cookie),
        ):
            assert (await desk.post(f"{API}/{path}", cookie=session, json=body, headers=headers)).status in {403, 415}, (headers, path)
        if "Content-Type" not in headers:
            assert (await desk.ask("DELETE", f"{LIST}/{b64url_encode(key.id)}", cookie=cookie, headers=headers)).status == 403
    assert (await passkeys.complete(answered, headers={"Origin": desk.url, "Sec-Fetch-Site": "same-origin"})).status == 200
    assert len(await passkeys.listed(cookie)) == 1


# ---- Who is there


async def test_s078_a_name_that_nobody_has_is_answered_like_one_that_somebody_has(flow: Any) -> None:
    passkeys, _, _ = flow
    known, without, unknown = [await passkeys.begin(name) for name in ("ann", "ben", "nobody")]

    for one in (known, without, unknown):
        assert set(one) == set(known)
        assert set(one["publicKey"]) == set(known["publicKey"])
        assert len(one["publicKey"]["challenge"]) == len(known["publicKey"]["challenge"])
        assert [set(allowed) for allowed in one["publicKey"]["allowCredentials"]] == [{"type", "id", "transports"}] * len(
            one["publicKey"]["allowCredentials"]
        )
    for name in ("ben", "nobody", "NOBODY", "ünknown", "a" * 510):
        first = (await passkeys.begin(name))["publicKey"]["allowCredentials"]
        assert 1 <= len(first) <= 2
        assert first == (await passkeys.begin(f" {name} "))["publicKey"]["allowCredentials"]
        assert all(16 <= len(b64url_decode(one["id"])) <= 64 for one in first)
    for name in ("nobody", "ben"):  # as those of somebody who has one
        same = [
            (await passkeys.begin(spelt))["publicKey"]["allowCredentials"] for spelt in (name, f"{name}@LOCALHOST", f"{name}@localhost")
        ]
        assert same[0] == same[1] == same[2] != (await passkeys.begin(f"{name}@ELSEWHERE"))["publicKey"]["allowCredentials"]
    assert len({(await passkeys.begin(f"n{number}"))["publicKey"]["allowCredentials"][0]["id"] for number in range(50)}) == 50


async def test_s078_decoys_are_the_same_after_a_restart(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with open_desk(tmp_path, "passkey") as desk:
            seen.append((await Passkeys(desk).begin("nobody"))["publicKey"]["allowCredentials"])

    assert seen[0] == seen[1]


async def test_s078_every_failure_is_said_in_the_same_words_and_told_to_the_administrator(flow: Any) -> None:
    passkeys, _, key = flow
    unknown = SoftKey()
    unknown.handle = key.handle
    answered = key.answer(await passkeys.begin(), passkeys.desk.url)

    await passkeys.refused(unknown.answer(await passkeys.begin(), passkeys.desk.url))
    await passkeys.refused(changed(answered, signature=b64url_encode(bytes(70))))
    await passkeys.refused({**answered, "id": "AAAA"})
    await passkeys.refused({**answered, "id": "=", "rawId": "="})
    await passkeys.refused({**answered, "id": "", "rawId": ""})
    await passkeys.refused({**answered, "id": b64url_encode(bytes(1024)), "rawId": b64url_encode(bytes(1024))})

    events = await passkeys.desk.events("login_failure")
    assert [event.sub for event in events] == [None, "ann@LOCALHOST", None, None, None, None]
    assert all(event.detail.startswith("passkey: ") and "address=127.0.0.1" in event.detail for event in events)


async def test_attempts_and_questions_about_names_are_limited(tmp_path: Path) -> None:
    async with open_passkeys(tmp_path, server={"auth_rate_limit": 6}) as (passkeys, _, key):
        answers = [await passkeys.complete(key.answer(await passkeys.begin(), "https://evil.example")) for _ in range(7)]
        assert [one.status for one in answers][-1] == 429
        assert int(answers[-1].headers["Retry-After"]) > 0
        assert (await passkeys.desk.login("ann", "x")).status == 429, "all ways together"
        questions = [await passkeys.desk.post(f"{API}/begin", json={"username": f"n{number}"}) for number in range(7)]
        assert [one.status for one in questions] == [200] * 6 + [429]
        assert (await passkeys.desk.post(f"{API}/begin", json={})).status == 200, "the page loads all the same"


# ---- Hostile answers


async def test_s101_hostile_answers_of_a_device_are_refused_at_once(flow: Any) -> None:
    passkeys, cookie, _ = flow
    good = SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url)
    data = SoftKey()._data(0x40, bytes(18))
    bombs = [
        b"",
        b"\x81" * 40_000,
        b"\xbf\xff",
        dumps([]),
        dumps({"fmt": "none", "attStmt": {}}),
        dumps({"fmt": "none", "attStmt": {}, "authData": "text"}),
        dumps({"fmt": "none", "attStmt": {}, "authData": b""}),
        dumps({"fmt": "none", "attStmt": {}, "authData": data}),
        dumps({"fmt": "none", "attStmt": {}, "authData": data + dumps(CBORTag(35, "(a|b)" * 5_000))}),
        dumps({"fmt": "none", "attStmt": {}, "authData": data + dumps({number * (2**61 - 1): 0 for number in range(3_000)})}),
        dumps({"fmt": "packed", "attStmt": CBORTag(36, "x: y\n" * 5_000), "authData": data}),
        dumps({"fmt": "none", "attStmt": {}, "authData": bytes(32) + b"\xc5" + bytes(4) + b"\xff" * 18}),
    ]
    for bomb in bombs:
        answer = await passkeys.send(cookie, changed(good, attestationObject=b64url_encode(bomb)))
        assert answer.outcome == REFUSED, bomb[:20]
        assert answer.json["error_description"] == "the passkey could not be registered; begin again"
    assert (await passkeys.send(cookie, good)).status == 201


@pytest.mark.parametrize(
    "cose",
    [
        dumps({1: 3, 3: -257, -1: b"\xc3" + bytes(126) + b"\x01", -2: b"\1\0\1"}),
        dumps({1: 3, 3: -65535, -1: b"\xc3" * 256, -2: b"\1\0\1"}),
        dumps({1: 2, 3: -7, -1: 1, -2: bytes(32), -3: bytes(32)}),
        dumps({1: 2, 3: -35, -1: 2, -2: bytes(48), -3: bytes(48)}),
        dumps({1: 1, 3: -8, -1: 6, -2: bytes(32)}),
        dumps({1: 7, 3: -48, -1: bytes(1312)}),
        dumps({}),
        dumps(b"x"),
        b"\x04" + bytes(64),
    ],
    ids=lambda cose: cose[:6].hex(),
)
async def test_s101_keys_that_nobody_may_have_are_refused(flow: Any, cose: bytes) -> None:
    passkeys, cookie, _ = flow
    new = SoftKey()

    assert (await passkeys.send(cookie, new.make(await passkeys.offer(cookie), passkeys.desk.url, cose=cose))).outcome == REFUSED
    assert len(await passkeys.desk.rows(t.credential)) == 1


async def test_an_attestation_that_nobody_asked_for_is_not_looked_at(flow: Any) -> None:
    passkeys, cookie, _ = flow
    key = SoftKey()
    key.fmt, key.statement = "packed", {"alg": -7, "sig": b"no signature", "x5c": [b"no certificate"]}

    await passkeys.register(cookie, key)

    assert (await passkeys.sign_in(key)).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"id":1}',
        b'{"id":"AA","rawId":"AA","type":"password","response":{}}',
        b'{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":5,"authenticatorData":"","signature":""}}',
        b"[" * 60_000,
    ],
    ids=lambda body: f"{body[:12]!r}-{len(body)}",
)
async def test_a_body_that_is_none_is_refused_with_a_reason(flow: Any, body: bytes) -> None:
    passkeys, cookie, _ = flow
    headers = {"Content-Type": "application/json"}

    for path, session in (("complete", ""), ("register/complete", cookie)):
        answer = await passkeys.desk.post(f"{API}/{path}", cookie=session, data=body, headers=headers)
        assert answer.outcome == REFUSED
        assert answer.json["error_description"]


@pytest.mark.parametrize("client_data", [b"", b"{}", b"[]", b"\xff", b'{"type":1,"challenge":"AAAA","origin":"x"}', b"[" * 40_000, b'"x"'])
async def test_client_data_that_is_none_proves_nothing(flow: Any, client_data: bytes) -> None:
    passkeys, cookie, key = flow
    answered = key.answer(await passkeys.begin(), passkeys.desk.url)
    made = SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url)

    await passkeys.refused(changed(answered, clientDataJSON=b64url_encode(client_data)))
    assert (await passkeys.send(cookie, changed(made, clientDataJSON=b64url_encode(client_data)))).outcome == REFUSED


async def test_a_registration_under_another_id_is_refused(flow: Any) -> None:
    passkeys, cookie, key = flow
    made = SoftKey().make(await passkeys.offer(cookie), passkeys.desk.url)
    id = b64url_encode(key.id)

    assert (await passkeys.send(cookie, {**made, "id": id, "rawId": id})).outcome == REFUSED


async def test_an_id_that_is_too_long_is_refused(flow: Any) -> None:
    passkeys, cookie, _ = flow

    assert (await passkeys.send(cookie, SoftKey(id=b"x" * 1024).make(await passkeys.offer(cookie), passkeys.desk.url))).outcome == REFUSED
    await passkeys.register(cookie, SoftKey(id=b"x" * 1023))


async def test_an_id_of_nobody_is_refused_whoever_knows_the_key_that_stands_for_it(flow: Any) -> None:
    """Unknown ids are checked against a key that everybody can have."""
    passkeys, _, key = flow
    unknown = SoftKey()
    unknown.key = derive_private_key(1, SECP256R1())
    for handle in (None, key.handle, b""):
        unknown.handle = handle
        await passkeys.refused(unknown.answer(await passkeys.begin(), passkeys.desk.url))
        await passkeys.refused(unknown.answer(await passkeys.begin("nobody"), passkeys.desk.url))


async def test_a_name_that_is_too_long_is_refused(flow: Any) -> None:
    passkeys, _, _ = flow

    assert (await passkeys.desk.post(f"{API}/begin", json={"username": "a" * 513})).outcome == REFUSED


@pytest.mark.parametrize(
    ("flag", "more"),
    [(0x80, dumps({"x": CBORTag(4000, 1)})), (0x80, dumps({"x": 1}) + b"\0"), (0, b"\0"), (0x40, b"")],
    ids=["tag", "follows extensions", "follows", "attested"],
)
async def test_authenticator_data_of_another_form_proves_nothing(flow: Any, flag: int, more: bytes) -> None:
    passkeys, cookie, key = flow
    key.more = flag, more
    await passkeys.refused(key.answer(await passkeys.begin(), passkeys.desk.url))
    if flag != 0x40:
        new = SoftKey()
        new.more = flag, more
        assert (await passkeys.send(cookie, new.make(await passkeys.offer(cookie), passkeys.desk.url))).outcome == REFUSED
    key.more = 0x80, dumps({"uvm": [[2, 4, 2]]})
    assert (await passkeys.sign_in(key)).status == 200
    assert len(await passkeys.listed(cookie)) == 1
