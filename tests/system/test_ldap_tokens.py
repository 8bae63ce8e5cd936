"""One-time codes whose tokens are FreeIPA's entries: the store over slapd, and a service whose people have them."""

import asyncio
from base64 import b32encode
from types import SimpleNamespace

import pyotp
import pytest
import structlog
from rig.directory import Parts
from rig.slapd import REALM, SUFFIX

from greatseal.api.directory import DirectoryUnavailable, User
from greatseal.api.otp import Holder, NewToken
from greatseal.api.problems import Conflict
from greatseal.clock import SystemClock
from greatseal.testing import FakeClock
from greatseal.testing.otp import KEY, CodeStoreContract
from greatseal_ipa import tokens as t
from greatseal_ipa.library import Query, Scope
from greatseal_ipa.tokens import IpaTokens
from greatseal_otp.arithmetic import matching

NOW = SystemClock().now()
STEP = 30
BOB, HENRY = "bob", "henry"
PHONE, GENERATOR = "00000000-0000-4000-8000-000000000801", "00000000-0000-4000-8000-000000000805"
BASE = f"cn=otp,{SUFFIX}"


class FakeHost:
    """What the store asks of its host."""

    def __init__(self, clock):
        self.clock = clock
        self.log = structlog.get_logger()
        self.events = []

    async def audit_log(self, event):
        self.events.append((event.event_type, event.sub, event.principal))


class Place:
    """The store of a directory, and the entries in it."""

    def __init__(self, server, **bind):
        self.server = server
        self.clock = FakeClock(NOW)
        self.parts = Parts(server.uri, clock=self.clock, **bind)
        self.host = FakeHost(self.clock)
        self.store = IpaTokens(self.host, self.parts.reader, None)

    async def holder(self, name):
        user = (await self.parts.reader.person(name)).user
        return Holder(subject=user.subject, user=user)

    async def entry(self, token_id):
        query = Query(base=f"ipatokenuniqueid={token_id},{BASE}", attributes=(*t.SHOWN, "ipatokenOwner", t.KEY), scope=Scope.BASE)
        return next(iter((await self.parts.pool.search(query)).entries), None)

    def change(self, token_id, *lines):
        self.server.modify(f"dn: ipatokenuniqueid={token_id},{BASE}\nchangetype: modify\n" + "\n".join(lines) + "\n")

    def restore(self):
        """Away with what a test made; the tokens of the seed are unused again."""
        search = self.parts.pool.search(Query(base=BASE, filter=t.TOKENS, attributes=t.SHOWN, scope=Scope.ONE, limit=400))
        for entry in asyncio.run(search).entries:
            if entry.text("ipatokenUniqueID").startswith("00000000-0000-4000-8000-0000000008"):
                lines = [f"replace: {name}\n-" for name in (t.WATERMARK, "ipatokenNotBefore") if entry.text(name)]
                lines += [f"replace: {t.COUNTER}\n{t.COUNTER}: 0\n-"] if entry.text(t.COUNTER) not in {None, "0"} else []
                if lines:
                    self.change(entry.text("ipatokenUniqueID"), *lines)
            else:
                self.server.modify(f"dn: {entry.dn}\nchangetype: delete\n")


@pytest.fixture
def place(slapd):
    made = Place(slapd)
    yield made
    made.restore()
    made.parts.close()


def totp(secret):
    return pyotp.TOTP(b32encode(secret).decode())


def code(secret, steps=0):
    """What an app shows now, or some steps away."""
    return totp(secret).generate_otp(NOW // 1_000_000 // STEP + steps)


def new(label="My phone"):
    return NewToken(label=label, key=KEY, algorithm="sha1", digits=6, period=30)


class TestIpaTokens(CodeStoreContract):
    @pytest.fixture
    def store(self, place):
        return place.store

    def holder(self):
        return Holder(subject=f"alice@{REALM}", user=User(username="alice", realm=REALM, source="ipa"))


async def test_the_tokens_of_the_seed(place):
    bob = await place.store.tokens(await place.holder(BOB))
    henry = await place.store.tokens(await place.holder(HENRY))

    assert [(one.label, one.type, one.digits, one.period, one.confirmed, one.enabled) for one in bob] == [
        ("bob phone", "totp", 6, 30, True, True),
        ("bob disabled", "totp", 6, 30, True, False),
    ]
    assert [(one.label, one.algorithm, one.type, one.digits, one.period, one.enabled) for one in henry] == [
        ("henry sha256 8 digits", "sha256", "totp", 8, 30, True),
        ("henry expired", "sha1", "totp", 6, 30, False),
        ("", "sha1", "hotp", 6, None, True),
    ]
    assert [key.token_id for key in await place.store.keys(await place.holder(BOB))] == [PHONE]


async def test_idp_110_the_list_asks_for_no_key(place):
    assert t.KEY not in t.SHOWN
    assert "12345678901234567890" not in repr(await place.store.keys(await place.holder(BOB)))


async def test_a_code_is_used_up_where_freeipa_looks_for_it(place):
    bob = await place.holder(BOB)
    (key,) = await place.store.keys(bob)
    at = matching(key, code(key.key), NOW)

    assert at == NOW // 30_000_000
    assert await place.store.advance(bob, key, at)
    assert (await place.entry(PHONE)).text(t.WATERMARK) == str(at + 1), "the first step that is good yet"
    (again,) = await place.store.keys(bob)
    assert matching(again, code(key.key), NOW) is None
    assert matching(again, code(key.key, 1), NOW) == at + 1
    assert place.host.events == [], "it was confirmed before"
    assert [one.last_used_at for one in await place.store.tokens(bob)] == [at * 30_000_000, None]


async def test_a_watermark_of_freeipa_counts(place):
    step = NOW // 30_000_000
    place.change(PHONE, f"add: {t.WATERMARK}", f"{t.WATERMARK}: {step + 1}")
    bob = await place.holder(BOB)
    (key,) = await place.store.keys(bob)

    assert key.used == step
    assert matching(key, code(key.key), NOW) is None
    assert not await place.store.advance(bob, key, step)
    assert await place.store.advance(bob, key, step + 1)


async def test_a_hotp_token_counts_on_from_its_counter(place):
    henry = await place.holder(HENRY)
    hotp = next(one for one in await place.store.keys(henry) if one.type == "hotp")
    counted = pyotp.HOTP(totp(hotp.key).secret)

    assert matching(hotp, counted.at(4), NOW) == 4
    assert await place.store.advance(henry, hotp, 4)
    assert not await place.store.advance(henry, hotp, 3)
    assert (await place.entry(GENERATOR)).text(t.COUNTER) == "5"
    after = next(one for one in await place.store.keys(henry) if one.type == "hotp")
    assert after.counter == 5
    assert [matching(after, counted.at(count), NOW) for count in (4, 5, 14, 15)] == [None, 5, 14, None]


@pytest.mark.parametrize("token_id", [PHONE, GENERATOR])
async def test_s102_of_fifty_uses_of_one_code_one_succeeds(place, token_id):
    holder = await place.holder(BOB if token_id == PHONE else HENRY)
    key = next(one for one in await place.store.keys(holder) if one.token_id == token_id)

    used = await asyncio.gather(*(place.store.advance(holder, key, 3) for _ in range(50)))

    assert sum(used) == 1
    assert (await place.entry(token_id)).text(t.WATERMARK if token_id == PHONE else t.COUNTER) == "4"


async def test_of_different_codes_at_once_the_newer_one_always_counts(place):
    bob = await place.holder(BOB)
    (key,) = await place.store.keys(bob)

    used = await asyncio.gather(*(place.store.advance(bob, key, step) for step in (5, 6, 7, 8)))

    assert used[3], "who lost to an older one looked again"
    assert (await place.entry(PHONE)).text(t.WATERMARK) == "9"


@pytest.mark.parametrize(
    ("seconds", "usable"),
    [((-10, None), True), ((10, None), False), ((None, 10), True), ((None, -10), False), ((-10, 10), True), ((0, 0), True)],
)
async def test_a_token_counts_within_its_time_alone(place, seconds, usable):
    holder = await place.holder("alice")
    made = await place.store.add(holder, new())
    (key,) = await place.store.keys(holder)
    assert await place.store.advance(holder, key, 1)
    for name, moved in zip(("ipatokenNotBefore", "ipatokenNotAfter"), seconds, strict=True):
        if moved is not None:
            place.change(made.token_id, f"replace: {name}", f"{name}: {t.spelt(NOW + moved * 1_000_000)}")

    assert [one.enabled for one in await place.store.tokens(holder)] == [usable]
    assert len(await place.store.keys(holder)) == usable
    assert await place.store.advance(holder, key, 2) is usable


async def test_a_token_waits_disabled_for_its_first_code(place):
    """FreeIPA takes no code of it before, so an app that nobody has signs nobody in."""
    holder = await place.holder("alice")

    made = await place.store.add(holder, new())

    entry = await place.entry(made.token_id)
    assert (made.confirmed, made.enabled) == (False, True)
    assert (entry.text("ipatokenDisabled"), entry.text("ipatokenNotAfter")) == ("TRUE", t.spelt(NOW + t.WAITING))
    assert (entry.text("ipatokenVendor"), entry.text("ipatokenOwner"), entry.values["ipatokenotpkey"]) == (
        "Greatseal", f"uid=alice,cn=users,cn=accounts,{SUFFIX}", (KEY,),
    )  # fmt: skip
    (key,) = await place.store.keys(holder)
    assert await place.store.advance(holder, key, NOW // 30_000_000)
    entry = await place.entry(made.token_id)
    assert (entry.text("ipatokenDisabled"), entry.text("ipatokenNotAfter")) == ("FALSE", None)
    assert [event for event, *_ in place.host.events] == ["otp_token_created", "otp_token_confirmed"]


async def test_a_token_that_an_administrator_disabled_stays_so(place):
    holder = await place.holder("alice")
    made = await place.store.add(holder, new())
    (key,) = await place.store.keys(holder)
    assert await place.store.advance(holder, key, 1)
    place.change(made.token_id, "replace: ipatokenDisabled", "ipatokenDisabled: TRUE")

    assert not await place.store.advance(holder, key, 2)
    assert [(one.confirmed, one.enabled) for one in await place.store.tokens(holder)] == [(True, False)]
    assert await place.store.keys(holder) == []


async def test_a_token_that_an_administrator_enabled_needs_no_first_code(place):
    holder = await place.holder("alice")
    made = await place.store.add(holder, new())

    place.change(made.token_id, "replace: ipatokenDisabled", "ipatokenDisabled: FALSE")

    assert [(one.confirmed, one.enabled) for one in await place.store.tokens(holder)] == [(True, True)]


async def test_a_token_without_a_first_code_is_left_out_and_swept(place):
    holder = await place.holder("alice")
    made, other = await place.store.add(holder, new()), await place.store.add(holder, new("Tablet"))
    (key,) = (one for one in await place.store.keys(holder) if one.token_id == made.token_id)
    assert await place.store.advance(holder, key, 1)

    place.clock.step(t.WAITING // 1_000_000)
    assert len(await place.store.tokens(holder)) == 2
    place.clock.step(1)
    assert [one.token_id for one in await place.store.tokens(holder)] == [made.token_id]
    await place.store.sweep()

    assert await place.entry(other.token_id) is None
    assert await place.entry(made.token_id) is not None


async def test_there_are_so_many_tokens_and_what_was_left_makes_room(place):
    holder = await place.holder("alice")
    for number in range(t.MOST):
        await place.store.add(holder, new(str(number)))
    with pytest.raises(Conflict, match="10 tokens already"):
        await place.store.add(holder, new())

    place.clock.step(t.WAITING // 1_000_000 + 1)
    assert (await place.store.add(holder, new("again"))).label == "again"
    assert len(await place.store.tokens(holder)) == 1


async def test_a_token_of_freeipa_counts_where_freeipa_has_it_used(place):
    """alice has no authentication type but the password: FreeIPA takes no code of hers."""
    place.change(PHONE, "replace: ipatokenOwner", f"ipatokenOwner: uid=alice,cn=users,cn=accounts,{SUFFIX}")
    try:
        alice = await place.holder("alice")
        assert [(one.confirmed, one.enabled) for one in await place.store.tokens(alice)] == [(True, False)]
        assert await place.store.keys(alice) == []
    finally:
        place.change(PHONE, "replace: ipatokenOwner", f"ipatokenOwner: uid=bob,cn=users,cn=accounts,{SUFFIX}")


async def test_who_could_not_sign_in_without_it_keeps_the_last_token(place):
    bob = await place.holder(BOB)

    with pytest.raises(Conflict, match="make another one first"):
        await place.store.remove(bob, PHONE)

    made = await place.store.add(bob, new())
    with pytest.raises(Conflict, match="make another one first"):
        await place.store.remove(bob, PHONE)  # no code of the other one was given yet
    key = next(one for one in await place.store.keys(bob) if one.token_id == made.token_id)
    assert await place.store.advance(bob, key, 1)
    assert await place.store.remove(bob, made.token_id)
    assert place.host.events[-1] == ("otp_token_deleted", f"bob@{REALM}", None)


async def test_a_token_that_is_not_managed_by_its_person_is_deleted_by_an_administrator_alone(place):
    henry = await place.holder(HENRY)

    with pytest.raises(Conflict, match="given to you by an administrator"):
        await place.store.remove(henry, GENERATOR)
    entry = await place.entry(GENERATOR)
    assert await place.store.remove(henry, GENERATOR, by="root@EXAMPLE")

    assert place.host.events == [("otp_token_deleted", f"henry@{REALM}", "root@EXAMPLE")]
    values = {"objectClass": ("top", "ipaToken", "ipatokenHOTP"), "ipatokenOwner": (f"uid=henry,cn=users,cn=accounts,{SUFFIX}",)}
    values |= {"ipatokenOTPkey": (b"12345678901234567890",), "ipatokenOTPalgorithm": ("sha1",), "ipatokenOTPdigits": ("6",)}
    assert (await place.parts.pool.ask(lambda link: link.add(entry.dn, {**values, t.COUNTER: ("0",)}))).ok


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("ipatokenOTPdigits: 7", False),
        ("ipatokenOTPalgorithm: md5", False),
        ("ipatokenOTPalgorithm: SHA512", True),
        ("ipatokenTOTPtimeStep: 3", True),
        ("ipatokenTOTPclockOffset: -45", True),
    ],
)
async def test_a_token_with_which_nobody_can_count_is_asked_for_all_the_same(place, line, whole):
    """FreeIPA lets nobody in with such a token: neither do we, and not by the password alone."""
    name = line.partition(":")[0]
    before = (await place.entry(PHONE)).text(name)
    place.change(PHONE, f"replace: {name}", line)
    try:
        bob = await place.holder(BOB)
        (first, _) = await place.store.tokens(bob)
        assert (first.confirmed, first.enabled) == (True, True)
        keys = await place.store.keys(bob)
        assert len(keys) == whole
        if whole:
            assert (keys[0].period, keys[0].offset) == (30, -45 if "Offset" in line else 0)
    finally:
        place.change(PHONE, f"replace: {name}", f"{name}: {before}")


async def test_without_the_right_to_read_keys_nobody_is_let_in_on_no_code(slapd):
    made = Place(slapd, bind=lambda link: link.bind(f"uid=bob,cn=users,cn=accounts,{SUFFIX}", "bobpw"))
    store = made.store
    bob = await made.holder(BOB)
    try:
        assert [one.enabled for one in await store.tokens(bob)] == [True, False]
        with pytest.raises(DirectoryUnavailable) as refused:
            await store.keys(bob)
        assert "may not read ipatokenOTPkey" in refused.value.cause
        with pytest.raises(DirectoryUnavailable, match="did not take it"):
            await store.advance(bob, SimpleNamespace(token_id=PHONE), 1)
        with pytest.raises(Conflict, match="does not let this service keep tokens") as kept:
            await store.add(bob, new())
        assert "greatseal ipa setup" in kept.value.cause
        with pytest.raises(Conflict, match="does not let this service keep tokens"):
            await store.remove(bob, PHONE, by="root@EXAMPLE")
    finally:
        made.parts.close()


async def test_an_outage_is_no_answer(make_slapd):
    with make_slapd() as own:
        place = Place(own)
        bob = await place.holder(BOB)
        (key,) = await place.store.keys(bob)
        own.stop()
        for asked in (place.store.tokens(bob), place.store.keys(bob), place.store.advance(bob, key, 1), place.store.add(bob, new())):
            with pytest.raises(DirectoryUnavailable):
                await asked
        place.parts.close()


async def test_people_of_elsewhere_have_nothing_here(place):
    for user in (None, User(username="bob", realm=REALM, source="users-file")):
        holder = Holder(subject=f"bob@{REALM}", user=user)
        assert not place.store.keeps(holder)
        assert (await place.store.tokens(holder), await place.store.keys(holder)) == ([], [])
