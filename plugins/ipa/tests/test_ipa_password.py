"""Sign-in and change of password, by what servers answer: codes, policies, and entries that change meanwhile."""

from types import SimpleNamespace

import pytest

from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, DirectoryUnavailable, User
from greatseal.api.identity import Authenticated, ChangeRefused, Denied, Password, PasswordExpired
from greatseal.api.kerberos import PasswordVerdict
from greatseal.api.messages import Message
from greatseal.testing.logins import context_of
from greatseal.testing.negotiate import FakeTickets
from greatseal_ipa.active_directory import ActiveDirectory
from greatseal_ipa.library import EXPIRED, MUST_CHANGE, Outcome
from greatseal_ipa.openldap import OpenLdap
from greatseal_ipa.password import IpaChanger, IpaPassword
from greatseal_ipa.reader import Person

REALM = "EXAMPLE.COM"
GONE = PasswordExpired(username="ann", realm=REALM, changer="ipa")
DONE = Outcome(0)
IN = Authenticated(username="ann", realm=REALM, amr=("pwd",))


def person(**state):
    return Person(User(username="ann", realm=REALM, source="ipa", state=AccountState(**state)), "uid=ann", f"ann@{REALM}")


class Directory:
    """A reader and its pool: ``entries`` are what is read first and last, ``bound`` what a bind gives, ``changed`` what a change does."""

    def __init__(self, *entries, bound=DONE, changed=DONE, schema=OpenLdap):
        self.entries = list(entries) or [person()]
        self.bound, self.changed = bound, changed
        self.schema = schema("dc=example,dc=com", REALM)
        self.pool = self
        self.said = []

    async def named(self, _name):
        return self.entries[0]

    async def person(self, _name, *, fresh):
        assert fresh
        return self.entries[-1]

    def forget(self, name):
        self.said.append(("forget", name))

    async def as_user(self, dn, password, then):
        self.said.append(("bind", password))
        return then(SimpleNamespace(change_password=self._change), self.bound)

    async def as_itself(self, then):
        return then(SimpleNamespace(modify=self._change))

    def _change(self, *words):
        self.said.append(("change", *words))
        return self.changed


async def attempt(directory, password="right", verdict=None):
    tickets = verdict and FakeTickets(verdicts={f"ann@{REALM}": verdict})
    authenticator = IpaPassword(directory, "kinit" if tickets else "bind", tickets)
    return await authenticator.attempt(Password(username="ann", password=Secret(password)), context_of())


async def change(directory, old="right", new="another"):
    return await IpaChanger(directory).change("ann", Secret(old), Secret(new), context_of())


REASON = Message("the directory refused the new password: %(reason)s", {"reason": "too short"})


@pytest.mark.parametrize("password", ["", "right\0", "\0"])
@pytest.mark.parametrize("verdict", [None, PasswordVerdict.RIGHT])
async def test_s089_a_password_that_proves_nothing_is_sent_to_nobody(password, verdict):
    directory = Directory()

    with pytest.raises(Denied):
        await attempt(directory, password, verdict)
    with pytest.raises(Denied):
        await change(directory, old=password)
    assert directory.said == []


@pytest.mark.parametrize(
    ("bound", "outcome"),
    [
        (Outcome(0), IN),
        (Outcome(0, policy=MUST_CHANGE), GONE),
        (Outcome(0, policy=EXPIRED), GONE),  # one of the binds that are left to change it
        (Outcome(49, policy=EXPIRED), GONE),
        (Outcome(49), Denied),
        (Outcome(53), Denied),
        (Outcome(48), Denied),
        (Outcome(19), Denied),
        (Outcome(32), Denied),
        (Outcome(1), DirectoryUnavailable),
        (Outcome(8), DirectoryUnavailable),
        (Outcome(80), DirectoryUnavailable),
    ],
)
async def test_what_a_bind_says(bound, outcome):
    if isinstance(outcome, type):
        with pytest.raises(outcome):
            await attempt(Directory(bound=bound))
    else:
        assert await attempt(Directory(bound=bound)) == outcome


@pytest.mark.parametrize(
    ("verdict", "bound", "outcome"),
    [
        (PasswordVerdict.RIGHT, Outcome(49), IN),
        (PasswordVerdict.WRONG, Outcome(0), Denied),
        (PasswordVerdict.REVOKED, Outcome(0), Denied),
        (PasswordVerdict.EXPIRED, Outcome(0), GONE),
        (PasswordVerdict.EXPIRED, Outcome(49, policy=EXPIRED), GONE),
        (PasswordVerdict.EXPIRED, Outcome(49), Denied),
        (PasswordVerdict.EXPIRED, Outcome(80), DirectoryUnavailable),
    ],
)
async def test_what_the_kdc_says(verdict, bound, outcome):
    if isinstance(outcome, type):
        with pytest.raises(outcome):
            await attempt(Directory(bound=bound), verdict=verdict)
    else:
        assert await attempt(Directory(bound=bound), verdict=verdict) == outcome


@pytest.mark.parametrize("against", ["disabled", "locked", "expired", "password_expired"])
async def test_what_speaks_against_a_person_is_read_again(against):
    assert await attempt(Directory(person(**{against: True}), person())) == IN
    with pytest.raises(Denied):
        await attempt(Directory(person(**{against: True}), None))


@pytest.mark.parametrize("against", ["disabled", "locked", "expired"])
async def test_who_may_not_sign_in_is_asked_for_no_new_password(against):
    state = {against: True, "password_expired": True}

    assert await attempt(Directory(person(**state))) == IN  # the state of the account is refused at the sign-in
    assert await attempt(Directory(person(password_expired=True))) == GONE


@pytest.mark.parametrize(
    ("bound", "changed", "outcome"),
    [
        (Outcome(0), Outcome(0), IN),
        (
            Outcome(0),
            Outcome(19, "too short"),
            ChangeRefused(messages=(REASON,)),
        ),
        (Outcome(0), Outcome(19, "another is too short"), ChangeRefused(messages=(Message("the directory refused the new password"),))),
        (Outcome(0), Outcome(49), Denied),
        (Outcome(49), Outcome(0), Denied),
        (Outcome(80), Outcome(0), DirectoryUnavailable),
    ],
)
async def test_a_change_is_made_by_who_has_the_old_password(bound, changed, outcome):
    directory = Directory(bound=bound, changed=changed)
    if isinstance(outcome, type):
        with pytest.raises(outcome):
            await change(directory)
    else:
        assert await change(directory) == outcome
        assert ("change", "uid=ann", "right", "another") in directory.said
        assert ("forget", "ann") in directory.said
    assert bound.ok or not any(said[0] == "change" for said in directory.said)


async def test_a_server_that_lets_nobody_in_to_change_it_is_told_from_a_wrong_password():
    answer = await change(Directory(bound=Outcome(49, policy=EXPIRED)))

    assert "ask an administrator" in str(answer.messages[0])


@pytest.mark.parametrize("new", ["", "a\0b"])
async def test_a_new_password_that_is_none_is_refused_before_it_is_sent(new):
    directory = Directory()

    assert isinstance(await change(directory, new=new), ChangeRefused)
    assert directory.said == []


async def test_nobody_changes_no_password():
    with pytest.raises(Denied):
        await change(Directory(None))


@pytest.mark.parametrize(
    ("bound", "outcome"),
    [
        (Outcome(0), IN),
        (Outcome(49, "data 532, v1"), IN),
        (Outcome(49, "data 52e, v1"), Denied),
        (Outcome(49, "data 533, v1"), Denied),
        (Outcome(49, "data 775, v1"), Denied),
    ],
)
async def test_a_change_by_value_needs_the_old_password(bound, outcome):
    directory = Directory(bound=bound, schema=ActiveDirectory)
    if outcome is Denied:
        with pytest.raises(Denied):
            await change(directory)
        assert directory.said == [("bind", "right")]
    else:
        assert await change(directory) == outcome
        (_, dn, changes) = next(said for said in directory.said if said[0] == "change")
        assert dn == "uid=ann"
        assert [(one.how, one.name) for one in changes] == [("delete", "unicodePwd"), ("add", "unicodePwd")]
        assert [one.values[0].decode("utf-16-le") for one in changes] == ['"right"', '"another"']
