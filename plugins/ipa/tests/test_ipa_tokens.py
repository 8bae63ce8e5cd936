"""Tokens and passkeys by what servers answer: limits, refusals, answers that are lost; and binds with a code."""

from types import SimpleNamespace

import pytest
import structlog

from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, DirectoryUnavailable, User
from greatseal.api.identity import Authenticated, Denied, NotMine, Password, PasswordAndCode, PasswordExpired
from greatseal.api.otp import Holder, NewToken
from greatseal.api.passkeys import PasskeysReadOnly
from greatseal.api.problems import Conflict
from greatseal.testing import FakeClock
from greatseal.testing.logins import context_of
from greatseal.testing.passkeys import some_passkey
from greatseal_ipa.bind_with_code import BindWithCode, IpaPasswordAndCode
from greatseal_ipa.freeipa import FreeIpa
from greatseal_ipa.ldap3_link import CODE_REQUIRED
from greatseal_ipa.library import EXPIRED, MUST_CHANGE, Down, Entry, Found, Outcome
from greatseal_ipa.outcomes import heard
from greatseal_ipa.passkeys import IpaPasskeys, written
from greatseal_ipa.password import IpaPassword
from greatseal_ipa.reader import Person
from greatseal_ipa.tokens import IpaTokens, read

REALM = "EXAMPLE.COM"
DN = "uid=ann,cn=users,cn=accounts,dc=example,dc=com"
NEW = NewToken(label="x", key=b"k" * 20, algorithm="sha1", digits=6, period=30)
DONE, NO_RIGHT, BROKEN = Outcome(0), Outcome(50, "no"), Outcome(80, "odd")


class Directory:
    """A reader, its pool and a connection in one: ``found`` are the answers to searches, ``does`` those to changes, the last one again."""

    def __init__(self, *found, does=(DONE,), types=("otp",), bound=DONE, controls=(CODE_REQUIRED,), person=True, **state):
        user = User(username="ann", realm=REALM, source="ipa", authentication_types=types, state=AccountState(**state))
        self.known = Person(user, DN, f"ann@{REALM}") if person else None
        self.holder = Holder(subject=user.subject, user=user)
        self.schema = FreeIpa("dc=example,dc=com", REALM)
        self.pool = self
        self.controls = controls
        self._found, self._does, self._bound = list(found), list(does), bound
        self.said = []

    async def person(self, _name, *, fresh=False):
        return self.known

    async def named(self, _name):
        return self.known

    async def ask(self, then):
        if callable(then):
            return then(self)
        if then.base == "":
            self.said.append("root")
            return Found([Entry("", {"supportedcontrol": tuple(one.encode() for one in self.controls)})])
        return self.search(then)

    def search(self, _query):
        return self._found.pop(0) if len(self._found) > 1 else self._found[0] if self._found else Found([])

    def add(self, dn, _values):
        return self._done("add", dn)

    def modify(self, dn, changes):
        return self._done("modify", *changes)

    def delete(self, dn):
        return self._done("delete", dn)

    async def as_other(self, bind, then):
        return then(self, bind(self))

    async def as_user(self, dn, password, then):
        return then(self, self.bind(dn, password))

    def bind(self, _dn, password, *, with_code=False):
        self.said.append((password, with_code))
        return self._bound

    def _done(self, *words):
        self.said.append(words)
        return self._does.pop(0) if len(self._does) > 1 else self._does[0]


def token(id="t", *classes, **values):
    told = {"objectClass": classes or ("ipaToken", "ipatokenTOTP"), "ipatokenUniqueID": id, "ipatokenOTPdigits": "6", **values}
    texts = {name.lower(): value if isinstance(value, tuple) else (value,) for name, value in told.items()}
    return Entry(f"ipatokenuniqueid={id}", {name: tuple(one.encode() for one in some) for name, some in texts.items()})


class Told:
    """Audit events."""

    def __init__(self):
        self.clock, self.log, self.events = FakeClock(), structlog.get_logger(), []

    async def audit_log(self, event):
        self.events.append(event.event_type)


def store(directory):
    host = Told()
    return IpaTokens(host, directory, BindWithCode(directory, host.clock)), host.events


# ---- What a server says to a change


@pytest.mark.parametrize("code", [51, 52])
def test_a_server_that_is_busy_did_not_look(code):
    with pytest.raises(Down):
        heard(Outcome(code, "later"))
    assert heard(NO_RIGHT) == NO_RIGHT


@pytest.mark.parametrize("code", [16, 19, 20, 53, 65])
async def test_s102_whoever_comes_later_looks_again_and_gives_up(code):
    directory = Directory(Found([token()]), does=[Outcome(code)])
    kept, _ = store(directory)

    assert not await kept.advance(directory.holder, SimpleNamespace(token_id="t"), 7)
    assert len(directory.said) == 5


async def test_s102_a_change_that_was_lost_to_an_older_one_is_made_again():
    directory = Directory(Found([token()]), Found([token(ipatokenTOTPwatermark="6")]), does=[Outcome(20), Outcome(0)])
    kept, _ = store(directory)

    assert await kept.advance(directory.holder, SimpleNamespace(token_id="t"), 7)
    assert [(one.how, *one.values) for one in directory.said[-1][1:]] == [("delete", "6"), ("add", "8")]


@pytest.mark.parametrize("outcome", [NO_RIGHT, BROKEN])
async def test_a_use_that_cannot_be_noted_does_not_count(outcome):
    directory = Directory(Found([token()]), does=[outcome])

    with pytest.raises(DirectoryUnavailable) as refused:
        await store(directory)[0].advance(directory.holder, SimpleNamespace(token_id="t"), 7)
    assert str(outcome.code) in refused.value.cause


@pytest.mark.parametrize(("outcome", "problem"), [(NO_RIGHT, Conflict), (Outcome(32), Conflict), (BROKEN, DirectoryUnavailable)])
async def test_a_token_that_is_not_taken_is_told(outcome, problem):
    directory = Directory(Found([]), does=[outcome])
    kept, events = store(directory)

    with pytest.raises(problem):
        await kept.add(directory.holder, NEW)
    assert events == []


async def test_a_token_whose_answer_was_lost_is_there_and_one_that_is_not_seen_is_no_answer():
    directory = Directory(Found([]), does=[Outcome(68)])
    kept, events = store(directory)

    with pytest.raises(DirectoryUnavailable, match="does not show the new token yet"):
        await kept.add(directory.holder, NEW)
    assert events == ["otp_token_created"]


@pytest.mark.parametrize(("outcome", "problem"), [(NO_RIGHT, Conflict), (BROKEN, DirectoryUnavailable)])
async def test_a_token_that_stays_is_told(outcome, problem):
    directory = Directory(Found([token(managedBy=DN)]), does=[outcome], types=("password",))
    kept, events = store(directory)

    with pytest.raises(problem):
        await kept.remove(directory.holder, "t")
    assert events == []


@pytest.mark.parametrize("types", [("password",), ("passkey",), (), ("password", "otp")])
async def test_who_needs_no_code_deletes_the_last_token(types):
    directory = Directory(Found([token(managedBy=DN)]), types=types)

    assert await store(directory)[0].remove(directory.holder, "t")


async def test_a_token_that_somebody_else_deleted_is_gone():
    directory = Directory(Found([token(managedBy=DN)]), does=[Outcome(32)], types=("password",))
    kept, events = store(directory)

    assert await kept.remove(directory.holder, "t")
    assert events == ["otp_token_deleted"]


@pytest.mark.parametrize("ask", ["tokens", "keys"])
async def test_a_list_that_is_not_whole_is_no_answer(ask):
    """A token that is not seen would not be asked for."""
    directory = Directory(Found([token()], complete=False))

    with pytest.raises(DirectoryUnavailable):
        await getattr(store(directory)[0], ask)(directory.holder)


async def test_a_token_that_cannot_be_swept_is_told_to_the_log_alone():
    old = token(ipatokenVendor="greatseal", ipatokenDisabled="TRUE", ipatokenNotAfter="20000101000000Z")
    directory = Directory(Found([old, token("other")]), does=[NO_RIGHT])

    await store(directory)[0].sweep()

    assert directory.said == [("delete", "ipatokenuniqueid=t")]


async def test_who_is_not_in_the_directory_any_more_has_no_tokens_and_gets_none():
    directory = Directory(Found([token()]), person=False)
    kept, _ = store(directory)

    assert (await kept.tokens(directory.holder), await kept.keys(directory.holder)) == ([], [])
    assert not await kept.advance(directory.holder, SimpleNamespace(token_id="t"), 7)
    assert not await kept.remove(directory.holder, "t")
    with pytest.raises(DirectoryUnavailable, match="does not know this person"):
        await kept.add(directory.holder, NEW)


@pytest.mark.parametrize(
    "entry", [token("t", "ipaToken"), token("t", "top", "ipatokenRadiusConfiguration"), Entry("x", {"objectclass": (b"ipatokenTOTP",)})]
)
def test_another_entry_is_no_token(entry):
    assert read(entry) is None


@pytest.mark.parametrize(
    ("values", "used", "period", "digits"),
    [
        ({}, None, 30, 6),
        ({"ipatokenTOTPwatermark": "0"}, -1, 30, 6),
        ({"ipatokenTOTPwatermark": "8"}, 7, 30, 6),
        ({"ipatokenTOTPwatermark": "many"}, None, 30, 6),
        ({"ipatokenTOTPtimeStep": "4"}, None, 30, 6),
        ({"ipatokenTOTPtimeStep": "5"}, None, 5, 6),
        ({"ipatokenOTPdigits": "8"}, None, 30, 8),
        ({"ipatokenOTPdigits": ""}, None, 30, 0),
    ],
)
def test_numbers_of_a_token_are_those_that_freeipa_takes(values, used, period, digits):
    held = read(token(**values))

    assert (held.used, held.period, held.digits, held.is_whole) == (used, period, digits, digits in {6, 8})


# ---- Passkeys


def person(*values):
    texts = {"uid": ("ann",), "objectclass": ("ipaPasskeyUser",), "ipapasskey": values}
    return Entry(DN, {name: tuple(one.encode() for one in some) for name, some in texts.items()})


def passkeys(directory):
    notes = []

    class Ran:
        async def write(self, fn):
            notes.append(fn(None))

    return IpaPasskeys(directory, Ran(), structlog.get_logger()), notes


@pytest.mark.parametrize(
    ("outcome", "problem"), [(NO_RIGHT, PasskeysReadOnly), (BROKEN, DirectoryUnavailable), (Outcome(20), DirectoryUnavailable)]
)
async def test_a_passkey_that_is_not_taken_is_told_and_not_noted(outcome, problem):
    kept, notes = passkeys(Directory(Found([person()]), does=[outcome]))

    with pytest.raises(problem):
        await kept.add(some_passkey(f"ann@{REALM}"), lambda _tx: "noted")
    assert notes == []


async def test_s099_an_id_that_somebody_else_took_at_the_same_time_is_taken_away_again():
    passkey, other = some_passkey(f"ann@{REALM}"), some_passkey(f"ann@{REALM}")
    directory = Directory(Found([person()]), Found([]), Found([person()]), Found([person(written(passkey)), person(written(other))]))
    kept, notes = passkeys(directory)

    with pytest.raises(Conflict, match="registered already"):
        await kept.add(passkey, lambda _tx: "noted")
    assert [(one.how, *one.values) for one in directory.said[-1][1:]] == [("delete", written(passkey))]
    assert notes == []


async def test_a_passkey_whose_answer_was_lost_is_there():
    """Asked again, the directory has the very value."""
    passkey = some_passkey(f"ann@{REALM}")
    directory = Directory(Found([person()]), Found([]), Found([person(written(passkey))]))
    kept, notes = passkeys(directory)

    await kept.add(passkey, lambda _tx: "noted")
    assert (directory.said, notes) == ([], ["noted"])


@pytest.mark.parametrize(("outcome", "problem"), [(NO_RIGHT, PasskeysReadOnly), (BROKEN, DirectoryUnavailable)])
async def test_a_passkey_that_stays_is_told_and_not_noted(outcome, problem):
    passkey = some_passkey(f"ann@{REALM}")
    kept, notes = passkeys(Directory(Found([person(written(passkey))]), does=[outcome]))

    with pytest.raises(problem):
        await kept.remove(passkey.subject, passkey.id, lambda _tx: "noted")
    assert notes == []


async def test_a_passkey_that_somebody_else_took_away_is_gone():
    passkey = some_passkey(f"ann@{REALM}")
    kept, notes = passkeys(Directory(Found([person(written(passkey))]), does=[Outcome(16)]))

    assert await kept.remove(passkey.subject, passkey.id, lambda _tx: "noted")
    assert notes == ["noted"]


@pytest.mark.parametrize(("source", "serves"), [("ipa", True), ("users-file", False), (None, False)])
def test_people_of_the_directory_have_theirs_there(source, serves):
    assert passkeys(Directory())[0].serves(f"ann@{REALM}", source) is serves


# ---- Password and code as one


def both(directory):
    return IpaPasswordAndCode(directory, BindWithCode(directory, FakeClock()))


async def attempt(directory, password="right", code="123456"):
    return await both(directory).attempt(PasswordAndCode(username="ann", password=Secret(password), code=Secret(code)), context_of())


async def test_password_and_code_are_one_bind():
    directory = Directory()

    assert await attempt(directory) == Authenticated(username="ann", realm=REALM, amr=("pwd", "otp", "mfa"))
    assert directory.said == ["root", ("right123456", True)]


@pytest.mark.parametrize(
    "directory",
    [Directory(types=("password",)), Directory(types=()), Directory(controls=()), Directory(controls=("1.2.3",)), Directory(person=False)],
)
async def test_others_are_left_to_whoever_counts_codes(directory):
    assert await attempt(directory) == NotMine()
    assert [one for one in directory.said if one != "root"] == []


async def test_a_person_of_another_home_is_not_asked_about():
    directory = Directory()
    directory.known = Person(User(username="ann", realm=REALM, source="users-file", authentication_types=("otp",)), DN, "x")

    assert await attempt(directory) == NotMine()
    assert directory.said == []


@pytest.mark.parametrize(("password", "code"), [("", "123456"), ("right", ""), ("right\0", "123456"), ("right", "12\x003456")])
async def test_s089_half_of_both_is_sent_to_nobody(password, code):
    directory = Directory()

    with pytest.raises(Denied):
        await attempt(directory, password, code)
    assert directory.said == ["root"]


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [(Outcome(49), Denied), (Outcome(53), Denied), (Outcome(12), DirectoryUnavailable), (BROKEN, DirectoryUnavailable)],
)
async def test_what_a_bind_with_both_says(outcome, problem):
    directory = Directory(bound=outcome)

    with pytest.raises(problem):
        await attempt(directory)
    assert directory.said == ["root", ("right123456", True)], "nothing is asked again without the code"


async def test_an_expired_password_is_changed_after_its_code_too():
    for directory in (
        Directory(password_expired=True),
        Directory(bound=Outcome(0, policy=EXPIRED)),
        Directory(bound=Outcome(0, policy=MUST_CHANGE)),
    ):
        assert await attempt(directory) == PasswordExpired(username="ann", realm=REALM, changer="ipa")


@pytest.mark.parametrize(
    ("types", "how", "with_code"),
    [
        (("otp",), "bind", True),
        (("otp", "hardened"), "bind", True),
        (("otp", "password"), "bind", False),
        (("password",), "bind", False),
        (("otp", "radius"), "kinit", True),
    ],
)
async def test_a_password_that_is_not_taken_alone_has_its_code_behind_it(types, how, with_code):
    directory = Directory(types=types)
    authenticator = IpaPassword(directory, how, None, BindWithCode(directory, FakeClock()))

    found = await authenticator.attempt(Password(username="ann", password=Secret("right123456")), context_of())

    assert found.amr == (("pwd", "otp", "mfa") if with_code else ("pwd",))
    assert directory.said[-1] == ("right123456", with_code)


async def test_keys_that_may_not_be_read_are_none_where_freeipa_counts_itself():
    """Then nobody proves a code alone here, and an application that wants one does not stop for it."""
    directory = Directory(Found([token()]))

    assert await store(directory)[0].keys(directory.holder) == []
    with pytest.raises(DirectoryUnavailable):
        await IpaTokens(Told(), directory, None).keys(directory.holder)


async def test_the_store_says_whose_codes_are_taken_with_the_password():
    directory = Directory()
    kept, _ = store(directory)

    assert await kept.takes_both(directory.holder)
    assert not await kept.takes_both(Holder(subject="x", user=None))
    assert not await IpaTokens(Told(), directory, None).takes_both(directory.holder)
    assert directory.said == ["root"], "asked once a minute"
