"""People, groups and hosts of FreeIPA's schema in slapd."""

from base64 import b64encode

import pytest
from rig.directory import Parts
from rig.slapd import REALM, SUFFIX

from greatseal.api.directory import AccountState, DirectoryUnavailable, User
from greatseal.testing.logins import DirectoryContract
from greatseal.testing.subjects import ClaimsProviderContract
from greatseal_ipa import freeipa, reader
from greatseal_ipa.directory import IpaClaims, IpaDirectory

STRANGE = ("*", "a*)(uid=*", "alice)(uid=*", "alice\0", "\\", "alice\\2a", "al ice", "(", ")", "alice@EVIL.TEST", "é" * 200, "x" * 10_000)


@pytest.fixture
def parts(slapd):
    made = Parts(slapd.uri)
    yield made
    made.close()


@pytest.fixture
def directory(parts):
    return IpaDirectory(parts.reader)


class TestIpaDirectory(DirectoryContract):
    username = "alice"
    group = "ops"

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def directory(self):
        return IpaDirectory(self.parts.reader)


class TestIpaClaims(ClaimsProviderContract):
    subject = f"alice@{REALM}"

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def provider(self):
        return IpaClaims(self.parts.reader)


async def test_all_that_an_entry_says(directory):
    assert await directory.user("alice") == User(
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
        groups=("devs", "editors", "ipausers", "ops"),
        authentication_types=("password",),
    )


async def test_a_name_is_compared_as_the_directory_does(directory):
    assert (await directory.user("ALICE")).username == "alice"


def person_of(uid, number):
    name = b64encode(f"uid={uid},cn=users,cn=accounts,{SUFFIX}".encode()).decode()
    classes = "".join(f"objectClass: {one}\n" for one in ("inetOrgPerson", "posixAccount", "krbPrincipalAux"))
    numbers = f"uidNumber: {number}\ngidNumber: {number}\nhomeDirectory: /home/{number}\n"
    return f"dn:: {name}\nchangetype: add\n{classes}cn: {number}\nsn: {number}\n{numbers}", f"dn:: {name}\nchangetype: delete\n"


async def test_s086_two_people_who_differ_by_a_letter_are_never_taken_for_each_other(slapd):
    added, gone = zip(person_of("stra\u00dfe", 7001), person_of("strasse", 7002), strict=True)
    parts = Parts(slapd.uri, cache=60.0)
    try:
        slapd.modify("\n".join(added))
        directory = IpaDirectory(parts.reader)
        found = [(await directory.user(name)).uid_number for name in ("stra\u00dfe", "strasse", "stra\u00dfe", "STRASSE")]
    finally:
        parts.close()
        slapd.modify("\n".join(gone))

    assert found == [7001, 7002, 7001, 7002]


@pytest.mark.parametrize("name", ["al\u0130ce", "al\u034fice", "ali\ufe0fce", "\u00e0lice", "al\u0131ce"])
async def test_s086_a_name_that_only_the_server_takes_for_another_is_nobody(directory, name):
    assert await directory.user(name) is None


@pytest.mark.parametrize("uid", ["host/web1.chancery.test", f"alice@{REALM}", "alice\\5c"])
async def test_s086_an_entry_with_the_name_of_a_service_is_no_person(slapd, uid):
    added, gone = person_of(uid, 7003)
    slapd.modify(f"{added}krbPrincipalName: sly@{REALM}\n")
    parts = Parts(slapd.uri)
    try:
        assert [await IpaDirectory(parts.reader).user(name) for name in (uid, "sly")] == [None, None]
    finally:
        parts.close()
        slapd.modify(gone)


async def test_s086_an_alias_counts_to_the_letter(directory, slapd):
    slapd.replace("grace", "krbPrincipalName", f"grace@{REALM}", f"gracie@{REALM}", "gigi@OTHER.TEST")
    try:
        found = [await directory.user(name) for name in ("gracie", "GRACIE", "gigi")]
    finally:
        slapd.replace("grace", "krbPrincipalName", f"grace@{REALM}")

    assert [user and user.username for user in found] == ["grace", None, None]


async def test_s087_a_name_is_never_more_than_a_name(directory):
    for name in STRANGE:
        assert await directory.user(name) is None, name
        assert await directory.group(name) is None, name
        assert await directory.hostgroups_of(name) is None, name
        assert list(await directory.users(name, 10)) == [], name
        assert list(await directory.groups(name, 10)) == [], name
        assert list(await directory.hostgroups(name, 10)) == [], name
        assert await directory.managed_by(f"host/{name}@{REALM}") is None, name


async def test_s088_a_dn_in_a_filter_and_a_host_name_are_values(directory):
    for name in ("web1,cn=computers", "web1+fqdn=web2", "#77656231", " web1.chancery.test", "web1.chancery.test,cn=computers"):
        assert await directory.hostgroups_of(name) is None, name


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("alice", AccountState()),
        ("carol", AccountState(password_expired=True)),
        ("frank", AccountState(disabled=True)),
    ],
)
async def test_the_state_of_an_account(directory, name, state):
    assert (await directory.user(name)).state == state


async def test_an_account_expires_and_a_password_has_its_day(directory, slapd):
    slapd.replace("grace", "krbPrincipalExpiration", "20200101000000Z")
    slapd.replace("grace", "krbLastPwdChange", "20240229120001Z")
    try:
        user = await directory.user("grace")
    finally:
        slapd.replace("grace", "krbPrincipalExpiration")
        slapd.replace("grace", "krbLastPwdChange")

    assert user.state == AccountState(expired=True)
    assert user.password_changed_at == 1_709_208_001_000_000


@pytest.mark.parametrize(
    ("name", "types"),
    [("alice", ("password",)), ("bob", ("otp",)), ("dave", ("idp",)), ("erin", ("passkey", "password")), ("grace", ("radius",))],
)
async def test_authentication_types_are_the_users_own_else_the_password(directory, name, types):
    assert (await directory.user(name)).authentication_types == types


async def test_authentication_types_of_the_configuration(slapd):
    config = f"dn: cn=ipaConfig,cn=etc,{SUFFIX}\n"
    classes = "objectClass: nsContainer\nobjectClass: ipaUserAuthTypeClass\ncn: ipaConfig\n"
    for given, alice, bob in (
        (("password", "otp"), ("password", "otp"), ("otp",)),
        (("disabled", "hardened"), ("hardened",), ("hardened",)),
    ):
        slapd.modify(f"{config}changetype: add\n{classes}" + "".join(f"ipaUserAuthType: {kind}\n" for kind in given))
        parts = Parts(slapd.uri)
        try:
            directory = IpaDirectory(parts.reader)
            assert set((await directory.user("alice")).authentication_types) == set(alice)
            assert (await directory.user("bob")).authentication_types == bob
        finally:
            parts.close()
            slapd.modify(f"{config}changetype: delete\n")


async def test_a_group_has_the_members_of_groups_in_it(directory):
    group = await directory.group("OPS")

    assert (group.name, group.display_name, group.gid_number) == ("ops", "group ops", 200003)
    assert (group.members, group.whole) == (("alice", "bob", "dave", "henry"), True)


async def test_a_group_whose_members_are_cut_says_so(directory, monkeypatch):
    monkeypatch.setattr(reader, "MOST_MEMBERS", 3)

    group = await directory.group("ops")

    assert (len(group.members), group.whole) == (3, False)


async def test_r93_a_cut_answer_gives_no_names(directory, monkeypatch):
    monkeypatch.setattr(reader, "MOST_MEMBERS", 2)

    with pytest.raises(DirectoryUnavailable):
        await directory.managed_by(f"host/bastion.chancery.test@{REALM}")


async def test_a_cut_list_of_providers_is_none(parts, monkeypatch):
    """Their ids are made of all names: half of them may have those of others."""
    monkeypatch.setattr(freeipa, "PROVIDERS", 1)

    with pytest.raises(DirectoryUnavailable):
        await parts.reader.providers()


async def test_groups_of_a_user_have_their_numbers(directory):
    alice = await directory.user("alice")

    assert next((group.name, group.gid_number) for group in await directory.groups_of(alice)) == ("devs", 200002)


async def test_lists_are_by_prefix_and_name(directory):
    assert [user.username for user in await directory.users("", 3)] == ["admin", "alice", "bob"]
    assert [user.username for user in await directory.users("", 2, "bob")] == ["carol", "dave"]
    assert [(user.username, user.display_name) for user in await directory.users("al", 10)] == [("alice", "Alice Anderson")]
    assert [group.name for group in await directory.groups("", 10)] == ["admins", "devs", "editors", "ipausers", "ops"]
    assert [group.name for group in await directory.groups("d", 10)] == ["devs"]


async def test_host_groups(directory):
    assert await directory.hostgroups("", 10) == ["production", "webservers"]
    assert await directory.hostgroups("web", 10) == ["webservers"]
    assert await directory.hostgroups("", 1) == ["production"]


@pytest.mark.parametrize("name", ["web1.chancery.test", "WEB1.Chancery.Test", "web1.chancery.test.", "web1"])
async def test_host_groups_of_a_machine_are_nested_ones_too(directory, name):
    assert await directory.hostgroups_of(name) == {"webservers", "production"}


async def test_a_machine_without_groups_is_not_one_that_is_unknown(directory):
    assert await directory.hostgroups_of("bastion.chancery.test") == frozenset()
    assert await directory.hostgroups_of("nowhere.chancery.test") is None


@pytest.mark.parametrize(
    ("principal", "hosts"),
    [
        ("host/bastion.chancery.test", {f"{one}.chancery.test" for one in ("bastion", "web1", "web2", "www", "db1")}),
        ("host/web1.chancery.test", {"web1.chancery.test", "www.chancery.test", "alias.chancery.test"}),
        ("HTTP/web1.chancery.test", set()),
        ("host/nowhere.chancery.test", None),
        ("alice", None),
        ("host/web1.chancery.test@EVIL.TEST", None),
    ],
)
async def test_idp_326_what_a_principal_manages(directory, principal, hosts):
    found = await directory.managed_by(principal if "@" in principal else f"{principal}@{REALM}")

    assert found == hosts


async def test_idp_010_idp_096_the_identity_providers_of_the_directory(parts):
    github, keycloak = await parts.reader.providers()

    assert (github.id, github.display_name, github.issuer, github.usable) == ("ipa-github-corp", "GitHub Corp", None, True)
    assert (keycloak.id, keycloak.client_id, keycloak.issuer) == ("ipa-keycloak", "ipa-client", "https://kc.example/realms/test")
    assert (keycloak.scopes, keycloak.subject_claim) == (("openid", "email"), "email")
    assert "kc-secret" not in repr((github, keycloak))


async def test_people_who_are_staged_or_preserved_are_not_there(directory, slapd):
    base = f"cn=provisioning,{SUFFIX}"
    slapd.modify(f"dn: {base}\nchangetype: add\nobjectClass: nsContainer\ncn: provisioning\n")
    person = "objectClass: inetOrgPerson\nobjectClass: posixAccount\nuid: peter\ncn: P\nsn: P\nuidNumber: 9\ngidNumber: 9\nhomeDirectory: /"
    slapd.modify(f"dn: uid=peter,{base}\nchangetype: add\n{person}\n")
    try:
        assert await directory.user("peter") is None
    finally:
        slapd.modify(f"dn: uid=peter,{base}\nchangetype: delete\n\ndn: {base}\nchangetype: delete\n")


async def test_an_outage_is_no_answer(parts, make_slapd):
    with make_slapd() as other:
        uri = other.uri
    gone = Parts(uri)
    directory = IpaDirectory(gone.reader)
    try:
        for ask in (directory.user("alice"), directory.group("ops"), directory.users("", 1), directory.hostgroups_of("web1")):
            with pytest.raises(DirectoryUnavailable) as problem:
                await ask
            assert "localhost" not in problem.value.detail
            assert "refused" in problem.value.cause
    finally:
        gone.close()
