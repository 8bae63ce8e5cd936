"""People of FreeIPA sign in with their codes and passkeys: a service over slapd, and one before which FreeIPA checks codes itself."""

import asyncio
from base64 import b32encode
from contextlib import asynccontextmanager
from pathlib import Path

import pyotp
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from rig.freeipa import FreeIpa
from rig.people import write_users
from rig.slapd import DATA, REALM, SERVICE, SERVICE_PASSWORD, SUFFIX
from rig.softkeys import BE, SoftKey
from security.idp_passkeys import API, Passkeys

from greatseal.clock import SystemClock
from greatseal.testing import FakeClock
from greatseal.testing.desk import Desk, forgetful, hidden_fields
from greatseal_ipa.library import Query, Scope
from greatseal_ipa.passkeys import parsed
from greatseal_passkey import tables as passkey_tables

NOW = SystemClock().now() // 1_000_000 * 1_000_000
KEY = b"12345678901234567890"
HTML = {"Accept": "text/html"}
MINE, SIGN_IN = "/api/me/otp-tokens", "/api/auth/otp"


def code(clock, steps=0, key=KEY):
    return pyotp.TOTP(b32encode(key).decode()).generate_otp(clock.now() // 30_000_000 + steps)


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
def own(make_slapd):
    """One for each test: they use codes up."""
    with make_slapd() as slapd:
        yield slapd


@asynccontextmanager
async def opened(start_service, clock, uri, *features, users=None, **ipa):
    directory = {"ldap_uri": uri, "base_dn": SUFFIX, "start_tls": False, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD}
    role = {"name": "admin", "permissions": ["*"], "users": [f"admin@{REALM}"]}
    sections = {"server": {"realm": REALM, "auth_rate_limit": 0}, "ipa": {**directory, **ipa}, "rbac": {"role": [role]}}
    service = await start_service("idp", *features, clock=clock, **sections, **({"users": {"file": str(users)}} if users else {}))
    async with forgetful() as http:
        yield Desk(service, http)


@pytest.fixture
async def desk(start_service, clock, own):
    """Codes are counted here: slapd knows nothing of them."""
    async with opened(start_service, clock, own.uri, "otp", "ipa", "passkey", passkey_rp_id="localhost") as desk:
        yield desk


@pytest.fixture
def freeipa(own, clock):
    made = FreeIpa(own.port, clock)
    yield made
    made.close()


@pytest.fixture
async def beside(start_service, clock, freeipa):
    """FreeIPA checks codes itself."""
    async with opened(start_service, clock, freeipa.uri, "otp", "ipa") as desk:
        yield desk


async def sign_in(desk, username, password, typed):
    return await desk.post(SIGN_IN, json={"username": username, "password": password, "otp_code": typed})


async def entries(desk, base, *attributes, filter="(objectClass=*)", scope=Scope.BASE):
    pool = desk.service.kernel.hooks.instances["ipa"]._assembly.pool
    return (await pool.search(Query(base=f"{base},{SUFFIX}", filter=filter, attributes=attributes, scope=scope))).entries


# ---- Codes that are counted here


async def test_idp_005_idp_240_a_token_of_freeipa_signs_its_person_in(desk, clock):
    alone = await desk.login("bob", "bobpw")
    answer = await sign_in(desk, "bob", "bobpw", code(clock))

    assert (alone.status, alone.json["credentials"]) == (403, ["PasswordAndCode"])
    assert (answer.status, answer.json["sub"], answer.json["amr"]) == (200, f"bob@{REALM}", ["pwd", "otp", "mfa"])
    assert (await sign_in(desk, "bob", "bobpw", code(clock))).outcome == (401, "invalid_credentials")
    assert (await sign_in(desk, "bob", "bobpw", code(clock, 1))).status == 200
    assert (await sign_in(desk, "bob", "wrong", code(clock, 2))).outcome == (401, "invalid_credentials")


async def test_s102_of_fifty_sign_ins_with_one_code_one_succeeds(desk, clock):
    answers = await asyncio.gather(*(sign_in(desk, "bob", "bobpw", code(clock)) for _ in range(50)))

    assert [answer.status for answer in answers].count(200) == 1
    assert {answer.status for answer in answers} <= {200, 401, 429}


async def test_idp_258_idp_259_idp_261_a_person_of_the_directory_has_their_tokens_there(desk, clock):
    cookie = (await desk.login("alice", "alicepw")).cookie

    made = await desk.post(MINE, json={"label": "My phone"}, cookie=cookie)

    assert made.status == 201
    app = pyotp.parse_uri(made.json["otpauth_uri"])
    (entry,) = await entries(desk, "cn=otp", "ipatokenUniqueID", "ipatokenOTPkey", filter="(description=My phone)", scope=Scope.ONE)
    assert entry.text("ipatokenUniqueID") == made.json["token_id"]
    assert b32encode(entry.values["ipatokenotpkey"][0]).decode() == app.secret
    assert (await desk.login("alice", "alicepw")).status == 200, "no code of it was given yet"

    confirmed = await desk.post(
        f"{MINE}/{made.json['token_id']}/confirm", json={"otp_code": app.at(clock.now() // 1_000_000)}, cookie=cookie
    )

    assert confirmed.status == 204
    cookie = confirmed.cookie
    (listed,) = (await desk.get(MINE, cookie=cookie)).json
    assert (listed["label"], listed["confirmed"], listed["enabled"], listed["source"]) == ("My phone", True, True, "ipa")
    assert (await desk.login("alice", "alicepw")).outcome == (403, "factor_required")
    clock.step(30)
    assert (await sign_in(desk, "alice", "alicepw", app.at(clock.now() // 1_000_000))).status == 200
    assert [one.event_type for one in await desk.events("otp_token_created", "otp_token_confirmed")] == [
        "otp_token_created",
        "otp_token_confirmed",
    ]
    assert (await desk.ask("DELETE", f"{MINE}/{made.json['token_id']}", cookie=cookie)).status == 204
    assert (await desk.login("alice", "alicepw")).status == 200


async def test_who_has_nothing_but_an_app_that_is_switched_off_is_told_what_to_do(desk, clock, own):
    cookie = (await desk.login("alice", "alicepw")).cookie
    made = (await desk.post(MINE, json={"label": "My phone"}, cookie=cookie)).json
    app, token = pyotp.parse_uri(made["otpauth_uri"]), f"{MINE}/{made['token_id']}"
    await desk.post(f"{token}/confirm", json={"otp_code": app.at(clock.now() // 1_000_000)}, cookie=cookie)
    disable = "changetype: modify\nreplace: ipatokenDisabled\nipatokenDisabled: TRUE\n-\n"
    own.modify(f"dn: ipatokenuniqueid={made['token_id']},cn=otp,{SUFFIX}\n{disable}")

    weak = (await desk.login("alice", "alicepw")).cookie
    page = await desk.get("/account/codes", cookie=weak, headers=HTML)

    assert ('id="switched-off"' in page.text, 'id="prove"' in page.text, 'id="add"' in page.text) == (True, False, False)
    assert (await desk.ask("DELETE", token, cookie=weak)).outcome == (401, "login_required")
    key = SoftKey()
    await Passkeys(desk).register(weak, key)
    page = await desk.get("/account/codes", cookie=weak, headers=HTML)
    assert ('id="switched-off"' in page.text, 'id="prove"' in page.text) == (False, True), "the passkey is something to prove"


async def test_s070_a_token_of_somebody_else_is_not_there(desk):
    cookie = (await desk.login("alice", "alicepw")).cookie

    answer = await desk.ask("DELETE", f"{MINE}/00000000-0000-4000-8000-000000000801", cookie=cookie)

    assert answer.outcome == (404, "not_found")
    assert (await desk.get(MINE, cookie=cookie)).json == []


async def test_an_administrator_sees_and_deletes_tokens_of_the_directory(desk):
    cookie = (await desk.login("admin", "adminpw")).cookie
    path = "/api/admin/users/henry/otp-tokens"

    listed = (await desk.get(path, cookie=cookie)).json
    deleted = await desk.ask("DELETE", path, cookie=cookie)

    assert [(one["type"], one["enabled"], one["source"]) for one in listed] == [
        ("totp", True, "ipa"), ("totp", False, "ipa"), ("hotp", True, "ipa"),
    ]  # fmt: skip
    assert deleted.json == {"deleted": 3}
    assert {one.principal for one in await desk.events("otp_token_deleted")} == {f"admin@{REALM}"}


async def test_without_the_directory_nobody_signs_in_without_the_code(desk, clock, own):
    cookie = (await desk.login("alice", "alicepw")).cookie
    own.stop()
    clock.advance(6)

    answers = [
        await desk.login("bob", "bobpw"),
        await sign_in(desk, "bob", "bobpw", code(clock)),
        await desk.post(MINE, json={"label": "x"}, cookie=cookie),
        await desk.post(f"{API}/begin", json={"username": "erin"}),
    ]

    assert [answer.outcome for answer in answers] == [(503, "unavailable")] * 4


async def test_a_directory_that_refuses_the_write_is_told_on_the_page_and_the_code_does_not_count(start_service, clock, own):
    as_bob = {"bind_dn": f"uid=bob,cn=users,cn=accounts,{SUFFIX}", "bind_password": "bobpw"}
    async with opened(start_service, clock, own.uri, "otp", "ipa", "passkey", passkey_rp_id="localhost", **as_bob) as desk:
        cookie = (await desk.login("alice", "alicepw")).cookie

        refused = await desk.post(MINE, json={"label": "My phone"}, cookie=cookie)
        form = hidden_fields(page := await desk.get("/account/codes", cookie=cookie, headers=HTML), "add-form")
        token = page.headers["Set-Cookie"].partition(";")[0] if "Set-Cookie" in page.headers else ""
        shown = await desk.post("/account/codes/add", data={**form, "label": "My phone"}, cookie=f"{cookie}; {token}", headers=HTML)
        passkeys = Passkeys(desk)
        key = SoftKey()
        kept = await passkeys.send(cookie, key.make(await passkeys.offer(cookie), desk.url))
        code_of_bob = await sign_in(desk, "bob", "bobpw", code(clock))

    assert refused.outcome == (409, "conflict")
    assert "does not let this service keep tokens" in refused.json["error_description"]
    assert "does not let this service keep tokens" in shown.text
    assert kept.outcome == (403, "forbidden")
    assert "does not let this service change passkeys" in kept.json["error_description"]
    assert code_of_bob.outcome == (503, "unavailable")
    assert "ipatoken" not in code_of_bob.text


# ---- Codes that FreeIPA checks


@pytest.mark.parametrize("features", [("otp", "ipa"), ("ipa", "otp"), ("ipa",)], ids="-".join)
async def test_a_bind_with_both_signs_in_and_freeipa_uses_the_code_up(start_service, freeipa, clock, features):
    """Whatever plugin comes first, and without the one that counts codes."""
    async with opened(start_service, clock, freeipa.uri, *features) as desk:
        answer = await sign_in(desk, "bob", "bobpw", code(clock))
        again = await sign_in(desk, "bob", "bobpw", code(clock))

    assert (answer.status, answer.json["amr"]) == (200, ["pwd", "otp", "mfa"])
    assert again.outcome == (401, "invalid_credentials")
    assert freeipa.binds == [(True, 0), (True, 49)], "one bind for each attempt"


async def test_the_code_behind_the_password_in_one_field_signs_in_too(beside, freeipa, clock):
    """As people of FreeIPA type it everywhere; of those who may use the password alone it is one factor, and FreeIPA takes that."""
    answer = await beside.login("bob", f"bobpw{code(clock)}")

    assert (answer.status, answer.json["amr"]) == (200, ["pwd", "otp", "mfa"])
    assert (await beside.login("bob", "bobpw")).outcome == (401, "invalid_credentials")
    assert freeipa.binds == [(True, 0), (True, 49)]


async def test_who_has_no_token_there_proves_no_code(beside, own, freeipa):
    own.replace("erin", "ipaUserAuthType", "password", "otp")

    assert (await sign_in(beside, "erin", "erinpw", "123456")).outcome == (401, "invalid_credentials")
    assert (await beside.login("erin", "erinpw")).status == 200
    assert freeipa.binds == [(True, 49), (False, 0)]


async def test_a_wrong_code_a_wrong_password_and_an_unknown_name_are_the_same_words(beside, clock):
    answers = [
        await sign_in(beside, "bob", "bobpw", "000000"),
        await sign_in(beside, "bob", "wrong", code(clock)),
        await sign_in(beside, "nobody", "bobpw", code(clock)),
    ]

    assert {(answer.status, answer.text) for answer in answers} == {(401, answers[0].text)}


async def test_two_steps_on_the_page_are_one_bind_with_both(start_service, freeipa, clock):
    """henry may use the password alone or with a code; he has tokens, so here he must."""
    async with opened(start_service, clock, freeipa.uri, "otp", "ipa") as desk:
        page = await desk.get("/ui/auth/login", headers=HTML)
        cookie = page.headers["Set-Cookie"].partition(";")[0]
        second = await desk.post(
            "/login", data={**hidden_fields(page), "username": "henry", "password": "henrypw"}, cookie=cookie, headers=HTML
        )
        assert "code-form" in second.text
        done = await desk.post(
            "/login", data={**hidden_fields(second), "code": pyotp.HOTP(b32encode(KEY).decode()).at(0)}, cookie=cookie, headers=HTML
        )

    assert done.status == 303, done.text
    assert freeipa.binds == [(False, 0), (True, 0)]


async def test_a_server_that_forgets_how_to_check_codes_lets_nobody_in(start_service, clock, freeipa, own):
    """Answered unavailableCriticalExtension (RFC 4511 s4.1.11): the password alone is not asked for instead."""
    async with opened(start_service, clock, freeipa.uri, "otp", "ipa") as desk:
        assert (await sign_in(desk, "bob", "bobpw", code(clock))).status == 200
        freeipa.checks = False
        answer = await sign_in(desk, "bob", "bobpw", code(clock, 1))

    assert answer.outcome == (503, "unavailable")
    assert freeipa.binds == [(True, 0)]


# ---- Passkeys


@pytest.fixture
def passkeys(desk):
    return Passkeys(desk)


def erins(value):
    """The authenticator of which a value of erin's entry is."""
    key = SoftKey(id=parsed(value, "x").id)
    key.key = load_pem_private_key(Path(DATA / "passkey_erin_es256.pem").read_bytes(), None)
    key.handle = parsed(value, "x").user_handle
    return key


async def values_of(desk, uid):
    (entry,) = await entries(desk, f"uid={uid},cn=users,cn=accounts", "ipapasskey")
    return sorted(entry.texts("ipapasskey"), key=lambda value: value.count(","))


async def test_idp_236_a_passkey_that_ipa_user_add_passkey_wrote_signs_its_person_in(desk, passkeys):
    without_handle, discoverable = await values_of(desk, "erin")

    by_name = await passkeys.sign_in(erins(without_handle), "erin")
    by_itself = await passkeys.sign_in(erins(discoverable))

    for answer in (by_name, by_itself):
        assert (answer.status, answer.json["sub"], answer.json["amr"]) == (200, f"erin@{REALM}", ["hwk", "user", "mfa"]), answer.text
    await passkeys.refused(erins(without_handle).answer(await passkeys.begin(), desk.url))  # nobody says whose it is
    listed = await passkeys.listed(by_name.cookie)
    assert {(one["source"], one["label"]) for one in listed} == {("ipa", "Passkey")}
    assert all(one["last_used_at"] for one in listed)


async def test_idp_236_a_passkey_that_is_registered_here_rests_in_the_directory_alone(desk, passkeys, own):
    cookie = (await desk.login("erin", "erinpw")).cookie
    key = SoftKey()

    made = await passkeys.register(cookie, key, "The key")

    (value,) = [one for one in await values_of(desk, "erin") if parsed(one, "x").id == key.id]
    assert parsed(value, "x").user_handle == key.handle
    assert await desk.rows(passkey_tables.credential) == []
    assert (await passkeys.sign_in(key)).status == 200
    named = next(one for one in await passkeys.listed(cookie) if one["id"] == made["id"])
    assert (named["label"], named["source"], named["transports"]) == ("The key", "ipa", ["internal"])
    await passkeys.send(cookie, key.make(await passkeys.offer(cookie), desk.url))
    assert len(await values_of(desk, "erin")) == 3, "an id is there once"
    assert (await desk.ask("DELETE", f"{API}s/{made['id']}", cookie=cookie)).status == 204
    await passkeys.refused(key.answer(await passkeys.begin(), desk.url))
    assert value not in await values_of(desk, "erin")


async def test_a_passkey_that_an_administrator_took_away_signs_nobody_in(desk, passkeys, own):
    without_handle, discoverable = await values_of(desk, "erin")
    key = erins(discoverable)
    assert (await passkeys.sign_in(key)).status == 200

    own.replace("erin", "ipapasskey", without_handle)

    await passkeys.refused(key.answer(await passkeys.begin(), desk.url))


async def test_s097_the_counter_of_a_passkey_of_the_directory_is_known_here(desk, passkeys):
    _, discoverable = await values_of(desk, "erin")
    key = erins(discoverable)
    key.counter = 7
    assert (await passkeys.sign_in(key)).status == 200
    key.counter = 3

    await passkeys.refused(key.answer(await passkeys.begin(), desk.url))


@pytest.mark.parametrize("types", [("passkey",), ("passkey", "password"), ("password",)])
async def test_the_types_of_the_directory_say_whether_a_passkey_is_enough(desk, passkeys, own, types):
    """Its format does not say whether a passkey is copied between devices: both kinds show the type."""
    _, discoverable = await values_of(desk, "erin")
    own.replace("erin", "ipaUserAuthType", *types)
    key = erins(discoverable)
    key.flags |= BE

    answer = await passkeys.sign_in(key)

    if "passkey" in types:
        assert (answer.status, answer.json["amr"]) == (200, ["swk", "user", "mfa"])
    else:
        assert (answer.outcome, answer.json["credentials"]) == ((403, "factor_required"), ["Password"])


async def test_a_passkey_of_the_directory_is_not_that_of_a_local_user_of_the_same_name(start_service, clock, own, tmp_path):
    """Who is erin in the users file is asked for first, so the erin of the directory is not she."""
    file = write_users(tmp_path / "users.toml", "correct horse battery", {"erin": {}})
    async with opened(start_service, clock, own.uri, "users-file", "ipa", "passkey", users=file, passkey_rp_id="localhost") as desk:
        _, discoverable = await values_of(desk, "erin")
        passkeys = Passkeys(desk)
        begun = await passkeys.begin()

        await passkeys.refused(erins(discoverable).answer(begun, desk.url))
        assert (await passkeys.begin("erin"))["publicKey"]["allowCredentials"] != []
