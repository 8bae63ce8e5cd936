"""Active Directory, by a domain controller of Samba: people, groups, machines, the state of accounts, and passwords."""

import pytest
from rig.directory import Parts
from rig.samba import REALM, SERVICE, SERVICE_PASSWORD, STRIKES, SUFFIX

from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, DirectoryUnavailable, User
from greatseal.api.identity import Authenticated, ChangeRefused, Denied, NotMine, Password, PasswordExpired
from greatseal.testing.desk import Desk, forgetful
from greatseal.testing.logins import AuthenticatorContract, DirectoryContract, PasswordChangerContract, context_of
from greatseal.testing.subjects import ClaimsProviderContract
from greatseal_ipa.active_directory import ActiveDirectory
from greatseal_ipa.directory import IpaClaims, IpaDirectory
from greatseal_ipa.library import Query
from greatseal_ipa.password import UNTOLD, IpaChanger, IpaPassword

STRANGE = ("*", "a*)(sAMAccountName=*", "alice)(cn=*", "alice\0", "\\", "alice\\2a", "(", ")", "alice@EVIL.TEST", "é" * 200, "x" * 10_000)


@pytest.fixture
def parts(samba):
    made = Parts(
        samba.uri,
        schema=lambda _base, _realm: ActiveDirectory(SUFFIX, REALM),
        bind=lambda link: link.bind(SERVICE, SERVICE_PASSWORD),
        ca_cert_file=samba.certificate,
    )
    yield made
    made.close()


@pytest.fixture
def directory(parts):
    return IpaDirectory(parts.reader)


class TestDirectory(DirectoryContract):
    username, group = "alice", "ops"

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def directory(self):
        return IpaDirectory(self.parts.reader)


class TestClaims(ClaimsProviderContract):
    subject = f"alice@{REALM}"

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def provider(self):
        return IpaClaims(self.parts.reader)


class TestPassword(AuthenticatorContract):
    username, password, realm = "alice", "alicepw", REALM

    @pytest.fixture(autouse=True)
    def _parts(self, parts, samba):
        self.parts = parts
        yield
        samba.modify("dn: CN=Alice Anderson,CN=Users,@SUFFIX@\nchangetype: modify\nreplace: lockoutTime\nlockoutTime: 0\n-\n")

    def authenticator(self):
        return IpaPassword(self.parts.reader, "bind", None)


class TestChanger(PasswordChangerContract):
    username, old = "dora", "dorapw"

    @pytest.fixture(autouse=True)
    def _parts(self, parts, samba):
        self.parts = parts
        dn = "dn: CN=Dora,CN=Users,@SUFFIX@\n"
        account = "objectClass: user\nsAMAccountName: dora\nuserAccountControl: 512\nunicodePwd:: @PASSWORD:dorapw@\npwdLastSet: 0\n"
        samba.modify(f"{dn}changetype: add\n{account}")
        yield
        samba.modify(f"{dn}changetype: delete\n")

    def changer(self):
        return IpaChanger(self.parts.reader)


async def test_all_that_an_entry_says(directory):
    user = await directory.user("ALICE")

    assert user.password_changed_at is not None
    assert user == User(
        username="alice",
        realm=REALM,
        source="ipa",
        display_name="Alice Anderson",
        given_name="Alice",
        family_name="Anderson",
        email="alice@chancery.test",
        uid_number=100001,
        gid_number=100001,
        home_directory="/home/alice",
        login_shell="/bin/sh",
        groups=("devs", "ops", "round"),
        password_changed_at=user.password_changed_at,
    )


async def test_groups_that_have_each_other_end(directory):
    assert (await directory.user("henry")).groups == ("devs", "ops", "round")
    assert (await directory.group("DEVS")).members == ("Bob", "alice", "henry")
    assert (await directory.group("devs")).gid_number == 200001


async def test_a_group_for_mail_alone_is_none(directory, samba):
    dn = "dn: CN=news,CN=Users,@SUFFIX@\n"
    members = "member: CN=Alice Anderson,CN=Users,@SUFFIX@\n"
    samba.modify(f"{dn}changetype: add\nobjectClass: group\nsAMAccountName: news\ngroupType: 2\n{members}")
    try:
        assert (await directory.user("alice")).groups == ("devs", "ops", "round")
        assert await directory.group("news") is None
    finally:
        samba.modify(f"{dn}changetype: delete\n")


async def test_a_name_of_the_realm_is_an_alias(directory):
    assert (await directory.user("robert.brown")).username == "Bob"
    assert (await directory.user("bob")).subject == f"Bob@{REALM}"


@pytest.mark.parametrize("name", ["WEB1$", "krbtgt", "Administrators", "chancery "])
async def test_machines_and_groups_are_no_people(directory, name):
    user = await directory.user(name)

    assert user is None or user.state.disabled


async def test_s087_a_name_is_never_more_than_a_name(directory):
    for name in STRANGE:
        assert await directory.user(name) is None, name
        assert await directory.group(name) is None, name
        assert await directory.hostgroups_of(name) is None, name
        assert list(await directory.users(name, 10)) == [], name
        assert await directory.managed_by(f"host/{name}@{REALM}") is None, name


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("alice", AccountState()),
        ("henry", AccountState()),
        ("carol", AccountState(password_expired=True)),
        ("erin", AccountState(disabled=True)),
        ("frank", AccountState(locked=True)),
        ("gina", AccountState(expired=True)),
    ],
)
async def test_the_state_of_an_account(directory, name, state):
    assert (await directory.user(name)).state == state


async def test_what_a_server_does_not_compute_is_computed_here(parts, samba):
    schema = ActiveDirectory(SUFFIX, REALM)
    query = Query(base=SUFFIX, filter="(sAMAccountType=805306368)", attributes=("sAMAccountName", "lockoutTime", "pwdLastSet"))
    entries = {entry.text("sAMAccountName"): entry for entry in (await parts.pool.search(query)).entries}
    facts = await parts.reader._facts()

    assert schema.read_user(entries["frank"], facts).state.locked
    assert schema.read_user(entries["carol"], facts).state.password_expired
    assert schema.read_user(entries["alice"], facts).state == AccountState()


async def test_lists_are_by_prefix_and_name(directory):
    assert [user.username for user in await directory.users("", 3)] == ["Administrator", "Bob", "Guest"]
    assert [(user.username, user.email) for user in await directory.users("al", 10)] == [("alice", "alice@chancery.test")]
    assert [group.name for group in await directory.groups("dev", 10)] == ["devs"]
    assert await directory.hostgroups("web", 10) == ["webservers"]


async def test_machines_have_the_groups_that_they_are_in(directory):
    for name in ("web1", "WEB1.ad.chancery.test", "web1.ad.chancery.test."):
        assert await directory.hostgroups_of(name) == {"webservers", "production"}, name
    assert await directory.hostgroups_of("bastion") == frozenset()
    assert await directory.hostgroups_of("nowhere") is None


async def test_what_a_machine_manages(directory):
    assert await directory.managed_by(f"host/bastion.ad.chancery.test@{REALM}") == {"web1.ad.chancery.test"}
    assert await directory.managed_by(f"HTTP/www.ad.chancery.test@{REALM}") == frozenset()
    assert await directory.managed_by(f"host/nowhere.ad.chancery.test@{REALM}") is None


@pytest.mark.parametrize(
    ("username", "password", "outcome"),
    [
        ("alice", "alicepw", Authenticated),
        ("robert.brown", "bobpw", Authenticated),
        ("alice", "bobpw", Denied),
        ("nobody", "alicepw", NotMine()),
        ("carol", "carolpw", PasswordExpired(username="carol", realm=REALM, changer="ipa")),
        ("carol", "wrong", Denied),
        ("erin", "erinpw", Denied),
        ("frank", "frankpw", Denied),
        ("gina", "ginapw", Denied),
    ],
)
async def test_a_cell_of_the_table_by_bind(parts, username, password, outcome):
    authenticator = IpaPassword(parts.reader, "bind", None)
    asked = Password(username=username, password=Secret(password)), context_of()
    if outcome is Denied:
        with pytest.raises(Denied):
            await authenticator.attempt(*asked)
    elif outcome is Authenticated:
        assert (await authenticator.attempt(*asked)).amr == ("pwd",)
    else:
        assert await authenticator.attempt(*asked) == outcome


@pytest.fixture
def eve(samba):
    """Somebody whose password must be changed."""
    dn = "dn: CN=Eve,CN=Users,@SUFFIX@\n"
    account = "objectClass: user\nsAMAccountName: eve\nuserAccountControl: 512\nunicodePwd:: @PASSWORD:evepw@\npwdLastSet: 0\n"
    samba.modify(f"{dn}changetype: add\n{account}")
    yield "eve"
    samba.modify(f"{dn}changetype: delete\n")


async def test_a_password_that_must_be_changed_is_changed_by_who_has_it(parts, eve):
    changer, authenticator = IpaChanger(parts.reader), IpaPassword(parts.reader, "bind", None)

    with pytest.raises(Denied):
        await changer.change(eve, Secret("wrong"), Secret("new-evepw"), context_of())
    assert isinstance(await changer.change(eve, Secret("evepw"), Secret("new-ëvepw"), context_of()), Authenticated)
    assert (await parts.reader.person(eve, fresh=True)).user.state == AccountState()
    attempt = await authenticator.attempt(Password(username=eve, password=Secret("new-ëvepw")), context_of())
    assert attempt.username == eve


async def test_what_the_policy_refuses_is_told_in_words(parts, samba, eve):
    policy = "dn: @SUFFIX@\nchangetype: modify\nreplace: minPwdLength\nminPwdLength: {}\n-\n"
    samba.modify(policy.format(12))
    try:
        refused = await IpaChanger(parts.reader).change(eve, Secret("evepw"), Secret("short"), context_of())
    finally:
        samba.modify(policy.format(1))

    assert refused == ChangeRefused(messages=(UNTOLD,))


async def test_wrong_passwords_lock_an_account_there_and_the_right_one_does_not_help(parts, eve, samba):
    samba.modify("dn: CN=Eve,CN=Users,@SUFFIX@\nchangetype: modify\nreplace: pwdLastSet\npwdLastSet: -1\n-\n")
    authenticator = IpaPassword(parts.reader, "bind", None)
    for password in ["wrong"] * STRIKES + ["evepw"]:
        with pytest.raises(Denied):
            await authenticator.attempt(Password(username=eve, password=Secret(password)), context_of())

    assert (await parts.reader.person(eve, fresh=True)).user.state == AccountState(locked=True)


@pytest.mark.parametrize(("start_tls", "answers"), [(True, True), (False, False)])
async def test_a_controller_wants_tls(samba, start_tls, answers):
    parts = Parts(
        samba.plain_uri,
        schema=lambda _base, _realm: ActiveDirectory(SUFFIX, REALM),
        bind=lambda link: link.bind(SERVICE, SERVICE_PASSWORD),
        ca_cert_file=samba.certificate,
        start_tls=start_tls,
    )
    try:
        if answers:
            assert (await parts.reader.person("alice")).user.username == "alice"
        else:
            with pytest.raises(DirectoryUnavailable) as problem:
                await parts.reader.person("alice")
            assert "(8)" in problem.value.cause
    finally:
        parts.close()


async def test_somebody_of_active_directory_signs_in(samba, start_service):
    section = {"ldap_uri": samba.uri, "schema": "active-directory", "ca_cert_file": str(samba.certificate)}
    section |= {"bind_dn": f"chancery@{REALM}", "bind_password": SERVICE_PASSWORD}
    service = await start_service("idp", "ipa", server={"realm": REALM}, ipa=section)
    async with forgetful() as http:
        desk = Desk(service, http)
        answer = await desk.login("alice", "alicepw")
        assert answer.status == 200
        profile = await desk.get("/api/auth/profile", cookie=answer.cookie)
        assert profile.json["groups"] == ["devs", "ops", "round"]
        for name in ("erin", "frank", "gina"):
            assert (await desk.login(name, f"{name}pw")).status == 401, name
