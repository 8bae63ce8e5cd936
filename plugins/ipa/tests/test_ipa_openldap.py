"""The schema of OpenLDAP: states and names, without a server."""

import pytest

from greatseal.api.directory import AccountState
from greatseal_ipa.library import EXPIRED, LOCKED, MUST_CHANGE, Entry
from greatseal_ipa.openldap import DAY, OpenLdap
from greatseal_ipa.schema import Facts

SCHEMA = OpenLdap("dc=example,dc=com", "EXAMPLE.COM")
TODAY = 19_675
NOON = TODAY * DAY + DAY // 2


def entry(**values):
    return Entry("uid=ann", {name.lower(): (value.encode(),) for name, value in {"uid": "ann", **values}.items()})


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, AccountState()),
        ({"pwdEndTime": "20231114115959Z"}, AccountState(expired=True)),
        ({"pwdEndTime": "20231114120000Z"}, AccountState(expired=True)),
        ({"pwdEndTime": "20231114120001Z"}, AccountState()),
        ({"pwdEndTime": "never"}, AccountState()),
        ({"shadowExpire": str(TODAY)}, AccountState(expired=True)),
        ({"shadowExpire": str(TODAY + 1)}, AccountState()),
        ({"shadowExpire": "-1"}, AccountState()),
        ({"shadowExpire": str(TODAY), "pwdEndTime": "20231114120001Z"}, AccountState(expired=True)),
        ({"shadowLastChange": "0"}, AccountState(password_expired=True)),
        ({"shadowLastChange": str(TODAY - 90)}, AccountState()),
        ({"shadowMax": "90"}, AccountState()),
        ({"shadowLastChange": str(TODAY - 90), "shadowMax": "90"}, AccountState(password_expired=True)),
        ({"shadowLastChange": str(TODAY - 89), "shadowMax": "90"}, AccountState()),
        ({"shadowLastChange": str(TODAY - 89), "shadowMax": "-1"}, AccountState()),
        ({"pwdReset": "TRUE"}, AccountState(password_expired=True)),
        ({"pwdReset": "true"}, AccountState(password_expired=True)),
        ({"pwdReset": "FALSE"}, AccountState()),
        ({"pwdAccountLockedTime": "000001010000Z"}, AccountState(locked=True)),
        ({"pwdAccountLockedTime": "20231114115959Z"}, AccountState()),  # until the server's own time is over, which it says at a bind
    ],
)
def test_the_state_of_an_account(values, state):
    assert SCHEMA.read_user(entry(**values), Facts(now=NOON)).state == state


@pytest.mark.parametrize(
    ("policy", "reason"), [(EXPIRED, "expired"), (MUST_CHANGE, "expired"), (LOCKED, "locked"), (3, None), (None, None)]
)
def test_what_the_password_policy_says_of_a_bind(policy, reason):
    assert SCHEMA.refused_as(49, "", policy) == reason


def test_who_has_no_uid_in_the_name_may_be_a_group():
    names = ("uid=ann,ou=people,dc=x", "cn=ops,ou=groups,dc=x", "cn=bob+uid=bob,dc=x")
    group = Entry("cn=all", {"member": tuple(name.encode() for name in names), "memberuid": (b"carol",)})

    assert SCHEMA.own_members(group) == ("carol", "ann")
    assert SCHEMA.subgroups(group) == names[1:]


def test_the_languages_of_a_person_are_ranges_and_what_is_none_is_passed_over():
    for told, languages in {"de": ("de",), "fr-CA, de;q=0.8, *": ("fr-CA", "de"), "": (), "no language": ()}.items():
        assert SCHEMA.read_user(entry(preferredLanguage=told), Facts(now=0)).languages == languages
