"""Passkeys whose home is FreeIPA: the store over slapd."""

import asyncio
from base64 import b64encode

import pytest
import structlog
from rig.directory import Parts
from rig.slapd import REALM, SUFFIX

from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.passkeys import MOST_PASSKEYS, PasskeysReadOnly
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse
from greatseal.testing.passkeys import PasskeyStoreContract, some_passkey
from greatseal_ipa.library import Query, Scope
from greatseal_ipa.passkeys import IpaPasskeys, written

ALICE, ERIN = f"alice@{REALM}", f"erin@{REALM}"
ID = b"an id of sixteen"


class Ran:
    """A database whose transactions have nothing. ``notes`` are those that ran."""

    def __init__(self):
        self.notes = 0

    async def write(self, fn):
        try:
            fn(None)
        except Refuse as refused:
            raise refused.problem from None
        self.notes += 1


def note(_tx):
    """What commits with a passkey."""


class Home:
    """The store of a directory."""

    def __init__(self, server, **bind):
        self.server = server
        self.parts = Parts(server.uri, **bind)
        self.db = Ran()
        self.store = IpaPasskeys(self.parts.reader, self.db, structlog.get_logger())

    async def entry(self, uid="alice"):
        query = Query(base=f"uid={uid},cn=users,cn=accounts,{SUFFIX}", attributes=("objectClass", "ipapasskey"), scope=Scope.BASE)
        return (await self.parts.pool.search(query)).entries[0]

    def give(self, uid, *values):
        """As ``ipa user-add-passkey`` does."""
        lines = "".join(f"ipapasskey: {value}\n" for value in values)
        self.server.modify(
            f"dn: uid={uid},cn=users,cn=accounts,{SUFFIX}\nchangetype: modify\nadd: objectClass\nobjectClass: ipaPasskeyUser\n-\n"
            f"add: ipapasskey\n{lines}-\n"
        )

    def restore(self, *uids):
        for uid in uids or ("alice", "bob"):
            self.server.replace(uid, "ipapasskey")
            if "ipaPasskeyUser" in asyncio.run(self.entry(uid)).texts("objectClass"):
                dn = f"uid={uid},cn=users,cn=accounts,{SUFFIX}"
                self.server.modify(f"dn: {dn}\nchangetype: modify\ndelete: objectClass\nobjectClass: ipaPasskeyUser\n-\n")


@pytest.fixture
def home(slapd):
    made = Home(slapd)
    yield made
    made.restore()
    made.parts.close()


class TestIpaPasskeys(PasskeyStoreContract):
    subject, source = ALICE, "ipa"

    @pytest.fixture(autouse=True)
    def _home(self, home):
        self.home = home

    async def store(self):
        return self.home.store


async def test_the_passkeys_of_the_seed(home):
    discoverable, other = sorted(await home.store.of(ERIN), key=lambda one: one.user_handle is None)

    assert (len(discoverable.user_handle), other.user_handle) == (32, None)
    assert discoverable.public_key == other.public_key
    assert await home.store.find(other.id) == other
    assert (await home.store.find(discoverable.id)).subject == ERIN


async def test_idp_236_a_passkey_is_a_value_of_the_entry_and_marks_it(home):
    passkey, other = some_passkey(ALICE), some_passkey(ALICE, b"x" * 64, user_handle=None)

    await home.store.add(passkey, note)
    await home.store.add(other, note)

    entry = await home.entry()
    assert set(entry.texts("ipapasskey")) == {written(passkey), written(other)}
    assert entry.texts("objectClass").count("ipaPasskeyUser") == 1
    assert home.db.notes == 2
    assert await home.store.remove(ALICE, passkey.id, note)
    assert not await home.store.remove(ALICE, passkey.id, note)
    assert (await home.entry()).texts("ipapasskey") == (written(other),)


async def test_values_of_another_kind_are_left_alone(home):
    home.give("alice", "x509:not for us", "passkey:broken")
    passkey = some_passkey(ALICE)

    await home.store.add(passkey, note)

    assert await home.store.of(ALICE) == [passkey]
    assert await home.store.remove(ALICE, passkey.id, note)
    assert set((await home.entry()).texts("ipapasskey")) == {"x509:not for us", "passkey:broken"}


async def test_s099_an_id_that_two_people_have_is_nobodys(home):
    """Whoever may change their own entry writes what they want there."""
    passkey = some_passkey(ALICE)
    await home.store.add(passkey, note)
    mallory = f"passkey:{b64encode(passkey.id).decode()},{b64encode(some_passkey('x').public_key).decode()}"
    home.give("bob", mallory)

    assert await home.store.find(passkey.id) is None
    assert [one.subject for one in await home.store.of(ALICE)] == [ALICE]


async def test_s099_of_two_people_who_register_one_id_at_once_at_most_one_has_it(home):
    bob = f"bob@{REALM}"
    done = await asyncio.gather(*(home.store.add(some_passkey(subject, ID), note) for subject in (ALICE, bob)), return_exceptions=True)

    left = [*await home.store.of(ALICE), *await home.store.of(bob)]
    assert len(left) == sum(one is None for one in done) <= 1
    assert all(one is None or isinstance(one, Conflict) for one in done)


async def test_several_of_one_person_at_once_are_all_there(home):
    passkeys = [some_passkey(ALICE, bytes([number]) * 16) for number in range(8)]

    await asyncio.gather(*(home.store.add(one, note) for one in passkeys))

    assert {one.id for one in await home.store.of(ALICE)} == {one.id for one in passkeys}


async def test_a_note_that_is_refused_leaves_nothing_in_the_directory(home):
    def refuse(_tx):
        raise Refuse(Conflict("it was used before"))

    with pytest.raises(Conflict, match="it was used before"):
        await home.store.add(some_passkey(ALICE), refuse)

    assert await home.store.of(ALICE) == []


async def test_a_person_has_so_many(home):
    home.give("alice", *(written(some_passkey(ALICE, bytes([number]) * 16)) for number in range(MOST_PASSKEYS + 1)))

    assert len(await home.store.of(ALICE)) == MOST_PASSKEYS
    with pytest.raises(Conflict, match="20 passkeys"):
        await home.store.add(some_passkey(ALICE, b"another one of 16"), note)


async def test_a_write_that_the_directory_refuses_is_told_and_nothing_is_noted(slapd):
    home = Home(slapd, bind=lambda link: link.bind(f"uid=bob,cn=users,cn=accounts,{SUFFIX}", "bobpw"))
    try:
        with pytest.raises(PasskeysReadOnly, match="does not let this service change passkeys") as refused:
            await home.store.add(some_passkey(ALICE), note)
        assert "greatseal ipa setup" in refused.value.cause
        with pytest.raises(PasskeysReadOnly):
            await home.store.remove(ERIN, (await home.store.of(ERIN))[0].id, note)
        assert home.db.notes == 0
        assert len(await home.store.of(ERIN)) == 2
    finally:
        home.parts.close()


async def test_somebody_whose_entry_is_gone_gets_none(home):
    with pytest.raises(DirectoryUnavailable, match="does not know this person"):
        await home.store.add(some_passkey(f"nobody@{REALM}"), note)


@pytest.mark.parametrize("subject", ["alice@OTHER.TEST", "alice", f"*@{REALM}", f"a*)(uid=*@{REALM}", f"ali ce@{REALM}", f"@{REALM}"])
async def test_s089_other_names_have_none(home, subject):
    await home.store.add(some_passkey(ALICE), note)

    assert await home.store.of(subject) == []
    assert not await home.store.remove(subject, ID, note)


async def test_a_name_that_no_person_may_have_has_no_passkeys(home):
    """With the realm it would be the principal of a service."""
    name = b64encode(f"uid=http/x,cn=users,cn=accounts,{SUFFIX}".encode()).decode()
    classes = "".join(f"objectClass: {one}\n" for one in ("inetOrgPerson", "posixAccount", "ipaPasskeyUser"))
    passkey = some_passkey(f"http/x@{REALM}")
    home.server.modify(
        f"dn:: {name}\nchangetype: add\n{classes}cn: x\nsn: x\nuidNumber: 7\ngidNumber: 7\nhomeDirectory: /\n"
        f"ipapasskey: {written(passkey)}\n"
    )
    try:
        assert await home.store.find(passkey.id) is None
        assert await home.store.of(f"http/x@{REALM}") == []
    finally:
        home.server.modify(f"dn:: {name}\nchangetype: delete\n")


async def test_an_outage_is_no_answer(make_slapd):
    with make_slapd() as own:
        home = Home(own)
        own.stop()
        for asked in (
            home.store.of(ALICE),
            home.store.find(ID),
            home.store.add(some_passkey(ALICE), note),
            home.store.remove(ALICE, ID, note),
        ):
            with pytest.raises(DirectoryUnavailable):
                await asked
        home.parts.close()
