"""How keys come and go: by configuration, by operators, derived for principals."""

import asyncio
from typing import Any

import pytest

from greatseal.api.declarations import Secret
from greatseal.api.problems import Conflict, NotFound
from greatseal.db.tables import Sealed
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.testing.schema import schema_matches
from greatseal_eab import tables as t
from greatseal_eab.derivation import derive
from greatseal_eab.keys import NewKey, OldKey
from greatseal_eab.settings import EabServer, canonical_key, kid_problem

SECRET = KEY = bytes(range(32))
ALICE = "alice@EXAMPLE.COM"
KID, HMAC_KEY = "6Q6MBMjWXeS9qGmjo8Nr6g", "lr8OoH2IrwP-y-7tW-ZdIPyHjYAI9wSw4lPo8r1qTHw"


def test_the_migrations_make_the_declared_tables(database_url: str) -> None:
    assert schema_matches(t.SCHEMA, database_url) == []


# ---- derived


def test_ca_076_ca_077_ca_078_ca_079_ca_273_the_credentials_of_a_principal() -> None:
    found = derive(SECRET, ALICE)

    assert (found.kid, found.hmac_key) == (KID, HMAC_KEY)
    assert derive(SECRET, ALICE) == found
    assert derive(SECRET, "bob@EXAMPLE.COM").kid != found.kid
    assert derive(SECRET[::-1], ALICE).hmac_key != found.hmac_key


async def obtained(desk: Any, name: str = ALICE) -> Any:
    return await desk.db.write(desk.keys.obtain, desk.keys.principal(name))


async def test_ca_015_ca_075_ca_101_ca_188_a_principal_gets_credentials_until_they_are_used(open_desk: Any, database_url: str) -> None:
    desk = await open_desk(database=database_url, eab_master_secret=b64url_encode(SECRET))
    assert desk.keys.derives

    first = await asyncio.gather(*(obtained(desk) for _ in range(10)))
    stored = await desk.db.read(desk.keys.find, KID)
    bound = await desk.bind(desk.sent(KID, b64url_decode(first[0].hmac_key)))
    with pytest.raises(Conflict):
        await obtained(desk)
    await desk.db.write(desk.keys.delete, OldKey(kid=KID, by="ann"))

    assert {(one.kid, one.hmac_key) for one in first} == {(KID, HMAC_KEY)}
    assert (stored.bound_principal, stored.profile_grants) == (ALICE, None)
    assert (bound.kerberos_principal, bound.profile_grants) == (ALICE, None)
    assert (await obtained(desk)).kid == KID
    assert (await desk.bind(desk.sent(KID, b64url_decode(HMAC_KEY)))).kerberos_principal == ALICE


async def test_ca_075_without_the_secret_nothing_is_derived(open_desk: Any) -> None:
    assert not (await open_desk()).keys.derives


# ---- by configuration


def settings(**given: Any) -> list[str]:
    """What check-config says of these keys."""
    try:
        EabServer(**given)
    except ValueError as error:
        return str(error).split("; eab")
    return []


@pytest.mark.parametrize("secret", ["", "x", "AAAA", b64url_encode(bytes(31)), "A" * 43 + "!"])
def test_ca_080_r96_a_master_secret_that_is_too_short_or_none_is_one_line(secret: str) -> None:
    (problem,) = settings(eab_master_secret=Secret(secret))

    assert problem.startswith("eab_master_secret: ")
    assert len(secret) < 5 or secret not in problem


def test_a_good_master_secret() -> None:
    assert settings(eab_master_secret=Secret(b64url_encode(bytes(32)))) == []
    assert EabServer(eab_master_secret=Secret(b64url_encode(SECRET))).master_secret == SECRET
    assert EabServer().master_secret is None


@pytest.mark.parametrize("text", ["-_-_" * 6, "+/+/" * 6, "AAAA" * 5 + "AAA=", "AAAA" * 5 + "AA==", "AAAA" * 5 + "AA", f" {'AAAA' * 6}\n"])
def test_ca_011_r80_any_base64_is_taken_and_stored_in_one_form(text: str) -> None:
    found = canonical_key(text)

    assert canonical_key(found) == found
    assert "=" not in found
    assert not set("+/ ") & set(found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not base64url"), ("=", "not base64url"), ("A", "not base64url"), ("AAAA!", "not base64url"), ("ä" * 30, "not base64url"),
        (b64url_encode(bytes(15)), "15 bytes; 16 to 512"), (b64url_encode(bytes(513)), "513 bytes"), ("AA=AA" * 6, "not base64url"),
    ],
)  # fmt: skip
def test_r80_what_is_no_key_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        canonical_key(text)
    (problem,) = settings(eab_keys={"kid-1": Secret(text)})
    assert problem.startswith("eab_keys: 'kid-1': ")
    assert len(text) < 8 or text not in problem


@pytest.mark.parametrize("kid", ["", " a", "a\n", "a\0b", "x" * 256])
def test_a_kid_that_nobody_can_type_is_refused(kid: str) -> None:
    assert kid_problem(kid)
    assert len(settings(eab_keys={kid: Secret(b64url_encode(KEY))})) == 1
    assert kid_problem("ä b/c") is None


async def test_ca_011_configured_keys_are_stored_once_and_never_come_back(open_desk: Any, database_url: str) -> None:
    keys = {"kid-1": b64url_encode(KEY), "kid 2": b64url_encode(KEY)}

    async def again(**server: Any) -> Any:
        return await open_desk(database=database_url, **server)

    desk = await again(eab_keys=keys)
    made = await desk.db.read(desk.keys.listed, None, 10, 0)
    await desk.bind(desk.sent("kid-1"))
    await desk.service.stop()
    desk = await again(eab_keys=keys)
    same = await desk.db.read(desk.keys.listed, None, 10, 0)
    await desk.db.write(desk.keys.delete, OldKey(kid="kid-1", by="ann"))
    await desk.db.write(desk.keys.delete, OldKey(kid="kid 2", by="ann"))
    await desk.service.stop()
    desk = await again(eab_keys=keys)
    left = await desk.db.read(desk.keys.listed, None, 10, 0)

    assert sorted(one.kid for one in made) == sorted(one.kid for one in same) == ["kid 2", "kid-1"]
    assert {(one.kid, one.created_at) for one in made} == {(one.kid, one.created_at) for one in same}
    assert [one.kid for one in left] == ["kid 2"], "a key that was used came back"
    await desk.give("kid-1")
    assert await desk.bind(desk.sent("kid-1")), "an operator may make one of that kid"


# ---- by operators


async def test_ca_010_ca_101_ca_205_a_kid_is_there_once(shared: Any) -> None:
    answers = await asyncio.gather(*(shared.give("kid-2") for _ in range(10)), return_exceptions=True)
    assert [type(one) for one in answers if one is not None] == [Conflict] * 9

    await shared.bind(shared.sent())
    with pytest.raises(Conflict):
        await shared.give("kid-1")
    await shared.db.write(shared.keys.delete, OldKey(kid="kid-1", by="ann"))
    with pytest.raises(NotFound):
        await shared.db.write(shared.keys.delete, OldKey(kid="kid-1", by="ann"))
    await shared.give("kid-1")
    assert await shared.bind(shared.sent())


async def test_the_secret_rests_sealed(desk: Any) -> None:
    assert isinstance(t.key.c.hmac_key_b64u.type, Sealed)
    (row,) = await desk.db.read(lambda tx: tx.all(t.key.select()))

    assert KEY not in row.hmac_key_b64u
    assert b64url_encode(KEY).encode() not in row.hmac_key_b64u
    assert await desk.db.read(desk.keys.secret, "kid-1") == b64url_encode(KEY)


async def test_a_new_key_has_no_grants_where_the_list_is_empty(desk: Any) -> None:
    made = await desk.db.write(desk.keys.create, NewKey(kid="kid-2", hmac_key_b64u=b64url_encode(KEY), by="ann", profile_grants=()))

    assert made.profile_grants is None
