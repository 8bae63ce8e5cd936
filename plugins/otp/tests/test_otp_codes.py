"""Whose tokens rest where: stores that other plugins bring."""

from base64 import b32encode
from types import SimpleNamespace

import msgspec
import pyotp
import pytest

from greatseal.api.authorization import LoginRequired
from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.identity import AccountRefused, SessionView
from greatseal.api.otp import CodeStore, Holder, Token, TokenKey
from greatseal.api.problems import BadRequest, Conflict
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.directories import FakeDirectories
from greatseal_otp.codes import RECENT, Codes, shown
from greatseal_otp.factor import OwnCode
from greatseal_otp.policy import OwnToken
from greatseal_otp.routes import CodesAdmin
from greatseal_otp.settings import Look, OtpSettings

KEY = b"12345678901234567890"
ANN = User(username="ann", realm="EXAMPLE", source="ipa")
BEN = User(username="ben", realm="EXAMPLE", source="file")


class Local(CodeStore):
    """Everybody's."""

    name = "local"

    def __init__(self):
        self.used = -1
        self.asked = []

    def keeps(self, holder):
        return True

    async def tokens(self, holder):
        self.asked.append(holder.subject)
        return [Token(token_id="t1", label="x", type="totp", algorithm="sha1", digits=6, period=30, confirmed=True)]

    async def keys(self, holder):
        return [TokenKey(token_id="t1", type="totp", key=KEY, algorithm="sha1", digits=6)]

    async def advance(self, holder, key, to):
        return self.used < to and not setattr(self, "used", to)

    async def check(self, holder, password, code):
        raise AssertionError("who has keys is not asked")


class YesOrNo(CodeStore):
    """Of the people of ipa; it alone knows."""

    name = "radius"
    manages = False
    recovery = False

    def keeps(self, holder):
        return holder.user is not None and holder.user.source == "ipa"

    async def tokens(self, holder):
        return ()

    async def check(self, holder, password, code):
        return (password.value, code.value) == ("secret", "123456")


class Recovery:
    def __init__(self):
        self.codes = {"1" * 20}

    async def use(self, subject, digits):
        return digits in self.codes and not self.codes.remove(digits)

    async def forget(self, subject):
        self.codes.clear()


class Devices:
    """None are remembered."""

    async def forget(self, subject):
        pass


class Wrong:
    """Wrong codes in a row."""

    def __init__(self):
        self.failures = 0

    async def are_too_many(self, subject):
        return self.failures >= 3

    async def note(self, subject):
        self.failures += 1

    async def clear(self, subject):
        self.failures = 0


def codes_of(*stores):
    local = Local()
    settings = {OtpSettings: OtpSettings(), Look: Look()}
    registry = {one.name: one for one in (local, *stores)}
    host = SimpleNamespace(
        settings=settings.__getitem__, issuer="https://id.example/x", components=lambda _: registry, clock=FakeClock(60 * 1_000_000)
    )
    return Codes(host, FakeDirectories(ANN, BEN), local=local, recovery=Recovery(), devices=Devices(), wrong=Wrong())


def session_of(codes, username="ann", ago=0):
    at = codes._host.clock.now() - ago
    return SessionView(
        id="s1",
        subject=f"{username}@EXAMPLE",
        username=username,
        realm="EXAMPLE",
        groups=(),
        amr=("pwd",),
        acr=None,
        auth_time=at,
        signed_in_at=at,
        expires_at=2**62,
    )


async def test_a_store_that_another_plugin_brings_is_asked_before_the_tables():
    codes = codes_of(YesOrNo())

    assert codes.store(await codes.holder("ann@EXAMPLE")).name == "radius"
    assert codes.store(await codes.holder("ben@EXAMPLE")).name == "local"
    assert codes.store(Holder(subject="gone@EXAMPLE", user=None)).name == "local"


async def test_who_says_yes_or_no_is_asked_with_password_and_code():
    codes = codes_of(YesOrNo())
    ann = await codes.holder("ann@EXAMPLE")

    assert await codes.use(ann, Secret("secret"), Secret("123456"))
    assert not await codes.use(ann, Secret("other"), Secret("123456"))
    assert not await codes.use(ann, Secret("secret"), Secret("000000"))


async def test_after_too_many_wrong_codes_in_a_row_a_recovery_code_alone_is_good():
    codes = codes_of()
    ben = await codes.holder("ben@EXAMPLE")
    good = Secret(pyotp.TOTP(b32encode(KEY).decode()).at(60))
    for code in ("000000", "000001", "1" * 19):
        assert not await codes.use(ben, Secret(""), Secret(code))

    with pytest.raises(AccountRefused):
        await codes.use(ben, Secret(""), good)
    assert await codes.use(ben, Secret(""), Secret("1" * 20))
    assert await codes.use(ben, Secret(""), good)


@pytest.mark.parametrize("confirmed", [True, False])
async def test_who_has_a_token_proves_it_before_the_tokens_change(confirmed):
    codes = codes_of()
    session = session_of(codes, "ben")
    token = (await codes.local.tokens(await codes.holder("ben@EXAMPLE")))[0]

    async def tokens(_holder):
        return [msgspec.structs.replace(token, confirmed=confirmed, created_at=session.signed_in_at + 1)]

    codes.local.tokens = tokens

    assert await codes.is_proven(session) is not confirmed
    assert await codes.is_proven(msgspec.structs.replace(session, amr=("pwd", "otp", "mfa")))


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_session_lacks_the_code_that_its_person_could_have_given(enabled):
    codes = codes_of()
    weak = msgspec.structs.replace(session_of(codes, "ben"), amr=("pwd",))
    token = (await codes.local.tokens(await codes.holder("ben@EXAMPLE")))[0]

    async def tokens(_holder):
        return [msgspec.structs.replace(token, enabled=enabled)]

    codes.local.tokens = tokens
    policy = OwnToken(SimpleNamespace(settings=lambda _: OtpSettings()), codes)

    assert await policy.lacks(weak) is enabled
    assert not await policy.lacks(msgspec.structs.replace(weak, amr=("pwd", "otp", "mfa")))


async def test_a_code_alone_is_no_answer_to_who_wants_the_password_too():
    codes = codes_of(YesOrNo())
    factor, ann, ben = OwnCode(codes), await codes.holder("ann@EXAMPLE"), await codes.holder("ben@EXAMPLE")

    assert not await codes.use(ann, None, Secret("123456"))
    assert [await factor.held(one.subject, one.user) for one in (ann, ben)] == [False, True]
    assert not await factor.prove(ben.subject, ben.user, Secret("000000"))


async def test_recovery_codes_of_this_service_are_for_stores_that_want_them():
    codes = codes_of(YesOrNo())

    assert not await codes.use(await codes.holder("ann@EXAMPLE"), Secret("secret"), Secret("1" * 20))
    assert codes.recovery.codes
    ben = await codes.holder("ben@EXAMPLE")
    assert [await codes.use(ben, Secret("secret"), Secret("1111-" * 5)) for _ in range(2)] == [True, False]


async def test_a_code_of_a_key_is_good_until_the_store_says_it_was_used():
    codes = codes_of()
    ben = await codes.holder("ben@EXAMPLE")
    code = Secret(pyotp.TOTP(b32encode(KEY).decode()).at(60))

    assert [await codes.use(ben, Secret(""), code) for _ in range(2)] == [True, False]
    assert not await codes.use(ben, Secret(""), Secret("000000"))
    assert not await codes.confirm(ben, "t2", code.value)
    assert not await codes.confirm(ben, "t1", "000000")


async def test_tokens_that_are_kept_elsewhere_are_made_and_deleted_there():
    codes = codes_of(YesOrNo())
    session = session_of(codes)

    with pytest.raises(Conflict):
        await codes.make(session, "Phone")
    assert not await codes.remove(session, "t1")
    with pytest.raises(Conflict):
        await codes.new_recovery_codes(session)
    assert await codes.remove_all(await codes.holder("ann@EXAMPLE"), by="root") == 0


async def test_an_administrator_is_told_where_tokens_are_kept():
    codes = codes_of(YesOrNo())
    call = FakeCall("DELETE")
    call.path = {"username": "ann", "token_id": "t1"}

    with pytest.raises(Conflict, match="radius"):
        await CodesAdmin(codes, codes._directories).delete(call)


@pytest.mark.parametrize(("ago", "recent"), [(0, True), (RECENT, True), (RECENT + 1, False), (-1, False)])
async def test_a_sign_in_is_recent_for_a_quarter_of_an_hour(ago, recent):
    codes = codes_of()
    session = session_of(codes, "ben", ago)

    assert codes.is_recent(session) is recent
    if not recent:
        for refused in (codes.make(session, "x"), codes.remove(session, "t1"), codes.new_recovery_codes(session)):
            with pytest.raises(LoginRequired):
                await refused


@pytest.mark.parametrize("label", ["", " \t", "x" * 65, "a\x00", "a\u202e"])
async def test_a_label_is_a_short_word(label):
    codes = codes_of()

    with pytest.raises(BadRequest):
        await codes.make(session_of(codes, "ben"), label)


def test_what_a_store_does_not_know_is_null():
    token = Token(token_id="t1", label="", type="hotp", algorithm="sha1", digits=6, period=None, confirmed=True)

    assert (shown(token, "ipa")["created_at"], shown(token, "ipa")["last_used_at"], shown(token, "ipa")["period"]) == (None, None, None)
