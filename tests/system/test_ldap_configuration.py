"""`[ipa]`: what is refused before the start, what is said about it, and what doctor sees."""

import pytest
from rig.slapd import REALM, SERVICE, SERVICE_PASSWORD, SUFFIX

from greatseal.api.directory import Directory
from greatseal.api.problems import StartProblem

BOUND = {"bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD}


@pytest.mark.parametrize(
    ("ipa", "said"),
    [
        ({"ldap_uri": "http://x", **BOUND}, "begins with none of"),
        ({"ldap_uri": ["ldap://localhost", "ldaps://"], **BOUND}, "[ipa] ldap_uri: 'ldaps://'"),
        ({"ldap_uri": "ldap://ipa.example.com", "start_tls": False, **BOUND}, "ldap://ipa.example.com is not of this machine"),
        ({"ldap_uri": "ldap://localhost", "base_dn": "nonsense", **BOUND}, "[ipa] base_dn"),
        ({"ldap_uri": "ldap://localhost", "bind_dn": SERVICE}, "bind_password is missing"),
        ({"ldap_uri": "ldap://localhost", "bind_dn": SERVICE, "bind_password": ""}, "[ipa] bind_password: expected"),
        ({"ldap_uri": "ldap://localhost"}, "bind_dn is missing"),
        ({"ldap_uri": "ldap://localhost", "password": "kinit", **BOUND}, "needs the feature gssapi"),
        ({"ldap_uri": "ldap://localhost", "password": "maybe", **BOUND}, "password"),
        ({"ldap_uri": "ldap://localhost", "ca_cert_file": "/nowhere/ca.pem", **BOUND}, "/nowhere/ca.pem is not there"),
        (BOUND, "ldap_uri is missing"),
    ],
)
async def test_what_cannot_work_is_refused_before_the_start_with_the_key(start_service, ipa, said):
    with pytest.raises(StartProblem) as problem:
        await start_service("idp", "ipa", ipa=ipa)

    assert said in "\n".join(problem.value.messages)


async def test_tls_from_the_first_octet_needs_no_starttls(start_service):
    assert await start_service("idp", "ipa", ipa={"ldap_uri": "ldaps://ipa.example.com", "start_tls": False, **BOUND})


async def test_servers_of_dns_need_the_resolver_alone(start_service):
    assert await start_service("idp", "resolver", "ipa", ipa=BOUND)


@pytest.mark.parametrize("ipa", [{}, {"gssapi": False}])
async def test_without_a_key_of_the_directory_there_is_none(start_service, ipa):
    service = await start_service("idp", "ipa", ipa=ipa)

    assert "ipa" not in service.host("ipa").components(Directory)
    assert any("names no directory" in note for note in service.kernel.notes)


async def looked(start_service, slapd, *features, **more):
    ipa = {"ldap_uri": slapd.uri, "base_dn": SUFFIX, "start_tls": False, "timeout_secs": 1, **BOUND, **more}
    service = await start_service("idp", "ipa", *features, server={"realm": REALM}, ipa=ipa)
    (check,) = service.kernel.hooks.instances["ipa"].checks(service.host("ipa"))
    return await check.run()


async def test_doctor_says_that_all_is_well_and_what_it_does_not_see(start_service, slapd):
    found = await looked(start_service, slapd)

    assert (found.ok, found.detail) == (True, "directory: 1 server")
    assert found.cause.endswith("of 9 people none shows krbLastPwdChange")


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ((SERVICE, SERVICE_PASSWORD), "krbLastPwdChange"),
        ((f"uid=bob,cn=users,cn=accounts,{SUFFIX}", "bobpw"), "of 2 one-time code tokens none shows its key"),
        ((f"uid=alice,cn=users,cn=accounts,{SUFFIX}", "alicepw"), "no one-time code token is seen"),
    ],
)
async def test_doctor_says_what_it_does_not_see_of_tokens(start_service, slapd, who, said):
    dn, password = who
    found = await looked(start_service, slapd, "otp", bind_dn=dn, bind_password=password)

    assert found.ok
    assert said in found.cause
    assert ("one-time code" in found.cause) == (dn != SERVICE)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bind_password": "wrong"}, "refuses the bind of this service"),
        ({"base_dn": "dc=elsewhere,dc=test"}, "dc=elsewhere,dc=test is not there"),
        ({"base_dn": f"cn=etc,{SUFFIX}"}, "sees no people"),
        ({"ldap_uri": "ldap://127.0.0.1:9"}, "refused"),
    ],
)
async def test_doctor_says_what_is_wrong(start_service, slapd, more, said):
    found = await looked(start_service, slapd, **more)

    assert not found.ok
    assert said in found.cause
    assert "; " not in found.cause  # each is told once, and what follows from it is not
    assert "localhost" not in found.detail
