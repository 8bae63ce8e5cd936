"""The store of the plugin by its contract, its tables, and what holds without a service."""

from types import SimpleNamespace
from uuid import uuid4

import msgspec
import pytest

from greatseal.api.directory import User
from greatseal.api.identity import Authenticated, Upstream
from greatseal.api.otp import CodeStore, Holder, NewToken
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.otp import CodeStoreContract
from greatseal.testing.schema import schema_matches
from greatseal.testing.store import open_test_database
from greatseal_otp import recovery
from greatseal_otp.enough import is_enough
from greatseal_otp.policy import OwnToken
from greatseal_otp.recovery import Recovery
from greatseal_otp.settings import OtpSettings
from greatseal_otp.tables import SCHEMA
from greatseal_otp.tokens import LocalTokens


class Keys:
    """Seals by turning bytes around, bound to the place."""

    def seal(self, secret, *, table, row, field):
        return f"{table}/{row}/{field}/".encode() + secret[::-1]

    def open(self, sealed, *, table, row, field):
        return sealed.removeprefix(f"{table}/{row}/{field}/".encode())[::-1]


class Handles:
    """Of one node."""

    def new_id(self):
        return str(uuid4())

    def owner_of_key(self, key):
        return "n1"


@pytest.fixture
async def store(database_url):
    async with open_test_database(database_url, SCHEMA) as db:
        host = SimpleNamespace(db=db, optional_service=lambda _: None, keys=Keys(), handles=Handles(), clock=FakeClock())
        yield LocalTokens(host, Recovery(host))


class TestLocalTokens(CodeStoreContract):
    def holder(self):
        return Holder(subject="alice@EXAMPLE", user=None)


def test_the_migrations_make_the_tables(database_url):
    assert schema_matches(SCHEMA, database_url) == []


ALICE = Authenticated(username="alice", realm="EXAMPLE", amr=("pwd",))


@pytest.mark.parametrize(
    ("amr", "enough"),
    [
        (("pwd",), False),
        (("kerberos",), False),
        (("hwk",), False),
        (("user",), False),
        (("pwd", "otp", "mfa"), True),
        (("hwk", "user", "mfa"), True),
        (("hwk", "user"), True),
        (("kerberos", "otp"), True),
        (("kerberos", "sc"), True),
        ((), False),
    ],
)
def test_what_is_as_much_as_a_code(amr, enough):
    assert is_enough(msgspec.structs.replace(ALICE, amr=amr)) is enough


def test_another_provider_has_its_own_rules():
    assert is_enough(msgspec.structs.replace(ALICE, amr=("fed",), upstream=Upstream(id="other", subject="a")))


async def test_the_subject_of_the_directory_is_the_one_that_counts():
    asked = []

    class Store(CodeStore):
        name = "other"

        def keeps(self, holder):
            return True

        async def tokens(self, holder):
            return ()

        async def has_token(self, holder):
            asked.append(holder.subject)
            return holder.subject[0] == "A"

    async def remembered(_call, _holder, _tokens):
        return False

    host = SimpleNamespace(settings=lambda _: OtpSettings(), components=lambda _: {})
    devices = SimpleNamespace(is_remembered=remembered)
    policy = OwnToken(host, SimpleNamespace(has_token=Store().has_token, tokens=Store().tokens, devices=devices))
    user = User(username="Alice", realm="EXAMPLE", source="people")

    assert await policy.missing(ALICE, user, FakeCall("POST")) == ("PasswordAndCode",)
    assert await policy.missing(ALICE, None, FakeCall("POST")) == ()
    assert asked == ["Alice@EXAMPLE", "alice@EXAMPLE"]


@pytest.mark.parametrize("typed", ["12345678901234567890", "1234-5678-9012-3456-7890", " 1234 5678 9012 3456 7890 "])
def test_a_recovery_code_is_read_in_whatever_way_it_is_typed(typed):
    assert recovery.read(typed) == "12345678901234567890"


@pytest.mark.parametrize("typed", ["", "1234567890123456789", "123456789012345678901", "1234567890123456789a", "\u0661" * 20])
def test_what_is_no_recovery_code_is_none(typed):
    assert recovery.read(typed) is None


def test_a_recovery_code_of_one_person_is_none_of_another():
    assert recovery.digest_of("a@X", "1" * 20) != recovery.digest_of("b@X", "1" * 20)


async def test_what_was_used_up_meanwhile_or_is_of_somebody_else_is_refused(store):
    alice, bob = (Holder(subject=f"{name}@EXAMPLE", user=None) for name in ("alice", "bob"))
    token = await store.add(alice, NewToken(label="x", key=b"k" * 20, algorithm="sha1", digits=6, period=30))
    (key,) = await store.keys(alice)

    assert not await store.advance(bob, key, 7)
    assert [await store.advance(alice, key, step) for step in (7, 7, 6)] == [True, False, False]
    assert not await store.remove(bob, token.token_id)


@pytest.mark.parametrize(("manages", "page"), [(True, "/login/enrol/codes"), (False, None)])
async def test_who_must_have_a_token_gets_one_where_it_is_made_here(manages, page):
    async def no_token(_holder):
        return False

    host = SimpleNamespace(settings=lambda _: OtpSettings(required_groups=("staff",)), components=lambda _: {})
    policy = OwnToken(host, SimpleNamespace(has_token=no_token, store=lambda _: SimpleNamespace(manages=manages)))
    user = User(username="alice", realm="EXAMPLE", source="people", groups=("staff",))

    assert await policy.enrolment(ALICE, user) == page
    assert await policy.enrolment(ALICE, None) is None
    assert await policy.missing(ALICE, user, FakeCall("POST")) == ("PasswordAndCode",)
