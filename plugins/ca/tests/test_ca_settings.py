"""Settings that are wrong are named with their cure, all in one report."""

from pathlib import Path

import pytest

from greatseal.api.problems import StartProblem
from greatseal.testing.service import Kernel, document


def report(folder: Path, **sections) -> tuple[str, ...]:
    with pytest.raises(StartProblem) as refused:
        Kernel(document(folder, ["ca"], **sections))
    return refused.value.messages


def one(folder: Path, **sections) -> str:
    (message,) = report(folder, **sections)
    return message


def test_the_defaults_start(tmp_path):
    Kernel(document(tmp_path, ["ca"]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"key_type": "ec:P-224"}, "[ca] key_type: 'ec:P-224' is none of ec:P-256, ec:P-384"),
        ({"hash_alg": "sha1"}, "[ca] hash_alg: invalid enum value 'sha1'"),
        ({"id": "ocsp"}, "[ca] id: 'ocsp' is a word in the paths of the service; choose another"),
        ({"id": "Upper Case"}, "[ca] id: expected a string matching regex"),
        ({"validity_days": 0}, "[ca] validity_days: expected an integer >= 1"),
        ({"key_file": "ca.key"}, "[ca] key_file is given without cert_file; give both, or neither"),
        ({"cert_file": "ca.pem"}, "[ca] cert_file is given without key_file; give both, or neither"),
        (
            {"key_file": "pkcs11:token=x", "cert_file": "ca.pem"},
            "[ca] default: key_file: no enabled plugin provides the key store 'pkcs11'; known: none",
        ),
        (
            {"key_file": "pkcs11:token=x", "cert_file": "ca.pem", "key_password_file": "pin"},
            "[ca] require_encrypted_key and key_password_file speak of a file; key_file names a key store",
        ),
        ({"require_encrypted_key": True}, "[ca] require_encrypted_key and key_password_file speak of key_file, which is not given"),
        ({"key_file": "a", "cert_file": "b", "require_encrypted_key": True}, "[ca] require_encrypted_key needs key_password_file"),
        ({"common_name": "\u00c4" * 30}, "[ca] common_name: longer than 59 bytes"),
        ({"crl_url": "ftp://x"}, "[ca] crl_url: expected a string matching regex"),
        ({"is_default": False}, "[ca] is_default: set it to true for one CA"),
        ({"keytype": "x"}, "[ca] keytype: unknown key; did you mean 'key_type'?"),
    ],
)
def test_wrong_values_of_a_ca_are_named(tmp_path, values, message):
    assert one(tmp_path, ca=values).startswith(message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"eku": ["serverauth"]}, "[profiles.p] eku: 'serverauth' is unknown; did you mean 'serverAuth'?"),
        ({"eku": ["nonsense"]}, "[profiles.p] eku: 'nonsense' is unknown; expected an object identifier or one of serverAuth"),
        ({"eku": ["OCSPSigning"]}, "[profiles.p] eku: OCSPSigning is for the CA itself"),
        ({"eku": ["1.3.6.1.5.5.7.3.9"]}, "[profiles.p] eku: 1.3.6.1.5.5.7.3.9 is for the CA itself"),
        ({"eku": ["2.5.29.37.0"]}, "[profiles.p] eku: 2.5.29.37.0 is for the CA itself"),
        ({"eku": ["9.9"]}, "[profiles.p] eku: '9.9' is unknown"),
        ({"allowed_identifier_patterns": ["ok", "(["]}, "[profiles.p] allowed_identifier_patterns: '([' is no regular expression"),
        ({"allowed_identifier_patterns": ["(?a)(?u)x"]}, "[profiles.p] allowed_identifier_patterns: '(?a)(?u)x' is no regular expression"),
        ({"auth_hook": "/nowhere/hook"}, "[profiles.p] auth_hook: /nowhere/hook is no file that can be executed"),
        ({"auth_hook": "/etc/passwd"}, "[profiles.p] auth_hook: /etc/passwd is no file that can be executed"),
        ({"auth_hook": "/"}, "[profiles.p] auth_hook: / is no file that can be executed"),
        ({"identifier_match": "some"}, "[profiles.p] identifier_match: invalid enum value 'some'"),
        ({"ca_ids": ["other"]}, "[profiles.p] ca_ids: 'other' is no [ca] id; there is default"),
        ({"issue_as": "root"}, "[profiles.p] issue_as: 'root' signs certificates of CAs alone; x509 is for all others"),
        ({"key_types": ["ec:p256"]}, "[profiles.p] key_types: 'ec:p256' is unknown; did you mean 'ec:P-256'?"),
        ({"key_types": ["rsa", "rsa"]}, "[profiles.p] key_types: 'rsa' is there twice"),
        (
            {"key_usage": ["nonRepudiation"]},
            "[profiles.p] key_usage: 'nonRepudiation' is unknown; expected one of digitalSignature, content",
        ),
        ({"key_usage": ["keyCertSign"]}, "[profiles.p] key_usage: 'keyCertSign' is unknown; "),
        ({"key_usage": []}, "[profiles.p] key_usage: give one at least; digitalSignature is right for TLS"),
        (
            {"key_types": ["rsa", "ed25519"], "key_usage": ["keyEncipherment"]},
            "[profiles.p] key_usage: keys of type ed25519 can have none of keyEncipherment; add one of contentCommitment, digitalSignature",
        ),
        ({"subject": "dn"}, "[profiles.p] subject: invalid enum value 'dn'"),
        ({"subject_country": "Germany"}, "[profiles.p] subject_country: expected a string matching regex"),
        ({"subject_organization": "x" * 65}, "[profiles.p] subject_organization: longer than 64 characters"),
        ({"policies": ["2.23.140.1.2.x"]}, "[profiles.p] policies: '2.23.140.1.2.x' is no object identifier; write it with dots"),
        ({"policies": ["2.5.29.32.0"]}, "[profiles.p] policies: 2.5.29.32.0 (anyPolicy) is for certificates of CAs"),
        ({"policies": ["1.2.3", "1.2.3"]}, "[profiles.p] policies: '1.2.3' is there twice"),
        ({"must_staple": "no"}, "[profiles.p] must_staple: invalid enum value 'no'"),
        ({"issue_as": "mtc"}, "[profiles.p] issue_as: no enabled plugin issues 'mtc'; enable the one that does"),
    ],
)
def test_wrong_values_of_a_profile_are_named(tmp_path, values, message):
    assert one(tmp_path, profiles={"p": values}).startswith(message)


def test_files_in_a_folder_that_may_not_be_searched_are_told(forbidden):
    folder, key, cert = forbidden.parent.parent, str(forbidden), str(forbidden.with_name("ca.pem"))

    assert one(folder, profiles={"p": {"auth_hook": key}}) == f"[profiles.p] auth_hook: {key} is no file that can be executed"
    assert one(folder, ca={"key_file": key, "cert_file": cert}) == f"[ca] default: {key} cannot be read: Permission denied"


@pytest.mark.parametrize("wish", ["request", "always"])
@pytest.mark.parametrize(("ca", "own"), [("", {}), (None, {"ocsp_url": ""})])
def test_what_must_be_stapled_must_be_somewhere(tmp_path, wish, ca, own):
    urls = {} if ca is None else {"ocsp_url": ca}
    told = one(tmp_path, ca=urls, profiles={"p": {"must_staple": wish, **own}})

    assert told.startswith(
        "[profiles.p] must_staple: certificates of CA 'default' name no OCSP responder, so servers have nothing to staple"
    )
    elsewhere = {"must_staple": wish, "ocsp_url": "http://ocsp.example.org"}
    Kernel(document(tmp_path, ["ca"], ca=urls, profiles={"p": elsewhere, "q": {**own, "must_staple": "never"}}))


def test_several_mistakes_give_one_report(tmp_path):
    messages = report(
        tmp_path,
        ca={"key_type": "dsa", "hash_alg": "md5", "validity_days": -1},
        profiles={"p": {"eku": ["x"], "allowed_identifier_patterns": ["("]}, "provider": "dogtag"},
    )
    text = "\n".join(messages)

    assert all(name in text for name in ("hash_alg", "validity_days", "eku: 'x'", "'('", "provider"))


def test_several_cas_need_one_default_and_ids_of_their_own(tmp_path):
    assert "is_default" in one(tmp_path, ca=[{"id": "one"}, {"id": "two"}])
    assert "is_default" in one(tmp_path, ca=[{"id": "one", "is_default": True}, {"id": "two", "is_default": True}])
    assert "'one' is there twice" in one(tmp_path, ca=[{"id": "one", "is_default": True}, {"id": "one"}])
    Kernel(document(tmp_path, ["ca"], ca=[{"id": "one", "is_default": True}, {"id": "two"}]))


def test_two_cas_with_the_files_of_one_are_named(tmp_path):
    files = {"key_file": f"{tmp_path}/ca.key", "cert_file": f"{tmp_path}/ca.pem"}
    messages = report(tmp_path, ca=[{"id": "one", "is_default": True, **files}, {"id": "two", **files}])

    assert messages[0] == f"[ca] two: {tmp_path}/ca.key is that of CA 'one'; each CA has a key and a certificate of its own"


def test_settings_that_do_not_go_together_are_told_together(tmp_path):
    messages = report(tmp_path, ca=[{"id": "one"}, {"id": "two"}], profiles={"p": {"ca_ids": ["x"], "issue_as": "y"}})

    assert [message.split(":")[0] for message in messages] == ["[ca] is_default", "[profiles.p] ca_ids"]
    assert "is_default" in one(tmp_path, ca=[])


def test_a_ca_without_a_profile_is_named(tmp_path):
    cas = [{"id": "one", "is_default": True}, {"id": "two"}]

    assert "[ca] two: no profile is for this CA" in one(tmp_path, ca=cas, profiles={"p": {"ca_ids": ["one"]}})


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"ca": {"validity_days": 3651}},
            "[ca] validity_days: 3651 days are more than the 3650 that CA 'default' lives; certificates end with their CA, so give 3650",
        ),
        ({"ca": {"ca_validity_years": 1}, "profiles": {"p": {"validity_days": 366}}}, "[profiles.p] validity_days: 366 days are more than"),
    ],
)
def test_certificates_that_could_never_live_as_long_as_they_should_are_named(tmp_path, sections, message):
    assert one(tmp_path, **sections).startswith(message)


def test_certificates_that_live_as_long_as_their_ca_or_are_cut_anyway_are_right(tmp_path):
    Kernel(document(tmp_path, ["ca"], ca={"ca_validity_years": 1, "validity_days": 365}))
    Kernel(document(tmp_path, ["ca"], ca={"ca_validity_years": 1, "validity_days": 366, "enforce_validity_cap": True}))


def test_files_of_a_ca_that_cannot_be_made_are_named_and_no_folder_is_made(tmp_path):
    (tmp_path / "file").touch()

    wrong = one(tmp_path, ca={"key_file": f"{tmp_path}/file/ca.key", "cert_file": f"{tmp_path}/new/ca.pem"})

    assert wrong == f"[ca] default: {tmp_path}/file/ca.key and {tmp_path}/new/ca.pem cannot be made: {tmp_path}/file is no folder"
    assert not (tmp_path / "new").exists()


def test_what_hangs_on_a_value_that_is_wrong_is_not_told(tmp_path):
    """Nobody knows how the second CA is called, nor which is the default."""
    cas = [{"id": "one", "is_default": "yes"}, {"id": 2}]

    assert report(tmp_path, ca=cas, profiles={"p": {"ca_ids": ["two"]}}) == (
        "[[ca]] #1 is_default: expected true or false, got a string",
        "[[ca]] #2 id: expected a string, got an integer",
    )
