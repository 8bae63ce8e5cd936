"""The schema of Active Directory: states, times and names, without a server."""

import pytest

from greatseal.api.directory import AccountState
from greatseal_ipa.active_directory import EPOCH, NEVER_EXPIRES, TICKS, ActiveDirectory
from greatseal_ipa.library import Entry
from greatseal_ipa.schema import Facts

SCHEMA = ActiveDirectory("dc=example,dc=com", "EXAMPLE.COM")
NOW = 1_700_000_000_000_000
NORMAL = "512"


def filetime(moment):
    return str((moment - EPOCH) * TICKS)


def user(now=NOW, **values):
    given = {"sAMAccountName": "ann", "userAccountControl": NORMAL, **values}
    return SCHEMA.read_user(Entry("cn=ann", {name.lower(): (value.encode(),) for name, value in given.items()}), Facts(now=now))


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, AccountState()),
        ({"userAccountControl": "514"}, AccountState(disabled=True)),
        ({"accountExpires": "0"}, AccountState()),
        ({"accountExpires": "9223372036854775807"}, AccountState()),
        ({"accountExpires": filetime(NOW - 1)}, AccountState(expired=True)),
        ({"accountExpires": filetime(NOW)}, AccountState(expired=True)),
        ({"accountExpires": filetime(NOW + 1)}, AccountState()),
        ({"accountExpires": "-1"}, AccountState(expired=True)),
        ({"accountExpires": "never"}, AccountState()),
        ({"accountExpires": "²"}, AccountState()),
        ({"accountExpires": "1" * 20}, AccountState()),
        ({"lockoutTime": "0"}, AccountState()),
        ({"lockoutTime": filetime(NOW)}, AccountState(locked=True)),
        ({"pwdLastSet": "0"}, AccountState(password_expired=True)),
        ({"pwdLastSet": "0", "userAccountControl": str(512 | NEVER_EXPIRES)}, AccountState()),
        ({"msDS-User-Account-Control-Computed": str(0x10)}, AccountState(locked=True)),
        ({"msDS-User-Account-Control-Computed": str(0x800000)}, AccountState(password_expired=True)),
        ({"msDS-User-Account-Control-Computed": "0", "lockoutTime": filetime(NOW), "pwdLastSet": "0"}, AccountState()),
        ({"msDS-User-Account-Control-Computed": str(0x2)}, AccountState()),  # what is off is said by the attribute alone
    ],
)
def test_the_state_of_an_account(values, state):
    assert user(**values).state == state


@pytest.mark.parametrize("text", ["0", "-5", "never", "²", "1" * 20])
def test_a_password_that_was_never_set_has_no_day(text):
    assert user(pwdLastSet=text).password_changed_at is None
    assert user().password_changed_at is None


def test_a_password_has_its_day():
    assert user(pwdLastSet=filetime(NOW)).password_changed_at == NOW


def test_s087_what_is_no_principal_is_asked_of_nobody():
    assert SCHEMA.principal("@") is None
    assert SCHEMA.principal("host/web1@EXAMPLE.COM").filter == "(&(objectClass=user)(servicePrincipalName=host\\2fweb1))"


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (49, "80090308: LdapErr: DSID-0C090334, comment: AcceptSecurityContext error, data 532, vece", "expired"),
        (49, "data 773, v1", "expired"),
        (49, "data 533, v1", "disabled"),
        (49, "data 701, v1", "disabled"),
        (49, "data 775, v1", "locked"),
        (49, "data 52e, v1", None),
        (49, "data 5320, v1", None),
        (49, "", None),
        (53, "data 532, v1", None),
    ],
)
def test_why_a_bind_was_refused(code, message, reason):
    assert SCHEMA.refused_as(code, message, None) == reason


def test_the_languages_of_a_person_are_ranges_and_what_is_none_is_passed_over():
    for told, languages in {"de": ("de",), "fr-CA, de;q=0.8, *": ("fr-CA", "de"), "": (), "no language": ()}.items():
        assert user(preferredLanguage=told).languages == languages
