"""``greatseal ipa setup`` in this process: who looks, at what, and what of it cannot be read."""

import pytest
from click.testing import CliRunner
from rig.slapd import MANAGER, MANAGER_PASSWORD, REALM, SERVICE, SERVICE_PASSWORD, SUFFIX

from greatseal_ipa.command import ipa
from greatseal_ipa.library import Refused, Unusable
from greatseal_ipa.setup import Setup

CONFIG = """\
[plugins]
enabled = {enabled}
[server]
issuer = "https://idp.chancery.test"
realm = "{realm}"
[database]
url = "sqlite:///{folder}/greatseal.db"
[ipa]
ldap_uri = "{uri}"
base_dn = "{base}"
start_tls = false
bind_dn = "{dn}"
bind_password = "{password}"
schema = "{schema}"
{more}
"""


@pytest.fixture
def setup(slapd, tmp_path):
    def run(password=MANAGER_PASSWORD, schema="freeipa", uri=slapd.uri, enabled='["idp", "ipa"]', more=""):
        path = tmp_path / "greatseal.toml"
        names = {"realm": REALM, "folder": tmp_path, "uri": uri, "base": SUFFIX, "dn": SERVICE, "password": SERVICE_PASSWORD}
        path.write_text(CONFIG.format(schema=schema, enabled=enabled, more=more, **names))
        path.chmod(0o600)
        return CliRunner().invoke(ipa, ["setup", "-c", str(path), "--admin-dn", MANAGER], input=f"{password}\n")

    return run


def test_what_is_missing_is_counted(setup):
    done = setup()

    assert done.exit_code == 2, done.stderr
    assert f"{done.stdout.count('missing  ')} missing: do what is said above, or run this with --apply" in done.stderr


@pytest.mark.parametrize(
    ("enabled", "more", "codes", "passkeys"),
    [
        ('["idp", "ipa"]', "", False, False),
        ('["idp", "ipa", "otp"]', "", True, False),
        ('["idp", "ipa", "passkey"]', "", False, False),
        ('["idp", "ipa", "passkey"]', 'passkey_rp_id = "chancery.test"', False, True),
        ('["idp", "ipa", "passkey"]', '[passkey]\nrp_id = "chancery.test"', False, True),
    ],
)
def test_what_is_not_used_is_not_asked_for(setup, enabled, more, codes, passkeys):
    """Nobody gets to read the keys of tokens who does not count with them."""
    done = setup(enabled=enabled, more=more)

    assert ("Greatseal - Read OTP tokens" in done.stdout, "Greatseal - Change OTP tokens" in done.stdout) == (codes, codes)
    assert ("System: Manage Passkey Mappings" in done.stdout) == passkeys


def test_who_is_not_taken_sees_nothing(setup):
    done = setup(password="wrong")

    assert done.exit_code == 2
    assert (done.stdout, "the directory does not take who you are" in done.stderr) == ("", True)


def test_s089_an_empty_password_is_nobodys(setup):
    done = setup(password="")

    assert (done.exit_code, done.stdout) == (2, "")
    assert "the password is empty" in done.stderr


def test_s090_a_directory_in_clear_elsewhere_gets_no_password(setup):
    done = setup(uri="ldap://ipa.example.com")

    assert (done.exit_code, done.stdout) == (2, "")
    assert "not of this machine" in done.stderr


def test_another_kind_of_directory_is_refused(setup):
    done = setup(schema="openldap")

    assert (done.exit_code, done.stdout) == (2, "")
    assert 'this is for a FreeIPA server, and [ipa] schema is "openldap"' in done.stderr


@pytest.mark.parametrize("wrong", [Refused(50, "no rights"), Unusable("a referral")])
def test_what_cannot_be_looked_at_is_told_in_one_line(setup, monkeypatch, wrong):
    def steps(_):
        raise wrong

    monkeypatch.setattr(Setup, "steps", steps)
    done = setup()

    assert done.exit_code == 2
    assert f"the directory cannot be looked at: {wrong}" in done.stderr
