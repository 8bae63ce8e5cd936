"""FreeIPA's schema: providers, states and names, without a server."""

import msgspec
import pytest
import structlog

from greatseal.api.declarations import Secret
from greatseal.api.directory import AccountState, DirectoryUnavailable, User
from greatseal_ipa.freeipa import FreeIpa
from greatseal_ipa.library import Entry
from greatseal_ipa.schema import Facts, moment, spelt, whole
from greatseal_ipa.upstreams import Upstreams

SCHEMA = FreeIpa("dc=example,dc=com", "EXAMPLE.COM")
NOW = 1_700_000_000_000_000


def entry(dn="uid=ann,cn=users,cn=accounts,dc=example,dc=com", **values):
    values = {"uid": "ann", **values}
    given = {name.lower(): (value,) if isinstance(value, str) else value for name, value in values.items()}
    return Entry(dn, {name: tuple(one.encode() for one in some) for name, some in given.items()})


def provider(name, dn="", **values):
    dn = dn or f"cn={name},cn=idp,dc=example,dc=com"
    return entry(dn, cn=name, ipaIdpClientId="us", ipaIdpIssuerURL="https://idp.example", **values)


def test_idp_097_an_id_is_a_slug_and_no_two_are_the_same():
    names = ["GitHub Corp", "github.corp", "Github  CORP!", "***", "Zürich"]
    found = SCHEMA.read_providers([provider(name, f"cn={at},cn=idp,dc=example,dc=com") for at, name in enumerate(names)])

    assert [one.id for one in found] == ["ipa-github-corp", "ipa-github-corp-2", "ipa-github-corp-3", "ipa-provider", "ipa-z-rich"]
    again = SCHEMA.read_providers([provider(name, f"CN={at},cn=idp,dc=example,dc=com") for at, name in reversed(list(enumerate(names)))])
    assert [one.id for one in again] == [one.id for one in found]


def test_an_entry_without_its_name_is_no_group():
    assert SCHEMA.read_group(Entry("cn=ops")) is None
    assert SCHEMA.read_group(entry("cn=ops", cn="ops", gidNumber="-1")).gid_number is None


def test_a_provider_without_name_or_client_id_is_none():
    assert SCHEMA.read_providers([entry(cn="x"), entry(ipaIdpClientId="x")]) == ()


@pytest.mark.parametrize(
    ("values", "usable"),
    [
        ({"ipaIdpIssuerURL": "https://idp.example"}, True),
        ({"ipaIdpAuthEndpoint": "idp.example/a", "ipaIdpTokenEndpoint": "idp.example/t", "ipaIdpUserInfoEndpoint": "idp.example/u"}, True),
        ({"ipaIdpAuthEndpoint": "https://idp.example/a", "ipaIdpTokenEndpoint": "https://idp.example/t"}, False),
        ({"ipaIdpIssuerURL": "http://idp.example"}, False),
        ({}, False),
    ],
)
def test_a_provider_is_usable_by_discovery_or_with_all_endpoints(values, usable):
    (found,) = SCHEMA.read_providers([entry(cn="x", ipaIdpClientId="us", **values)])

    assert found.usable is usable


def test_a_bare_host_is_one_with_https():
    (found,) = SCHEMA.read_providers([entry(cn="x", ipaIdpClientId="us", ipaIdpTokenEndpoint="idp.example/token")])

    assert found.token_endpoint == "https://idp.example/token"


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, AccountState()),
        ({"nsAccountLock": "TRUE"}, AccountState(disabled=True)),
        ({"nsAccountLock": "true"}, AccountState(disabled=True)),
        ({"nsAccountLock": "FALSE"}, AccountState()),
        ({"krbPrincipalExpiration": "20231114221319Z"}, AccountState(expired=True)),
        ({"krbPrincipalExpiration": "20231114221320Z"}, AccountState(expired=True)),
        ({"krbPrincipalExpiration": "20231114221321Z"}, AccountState()),
        ({"krbPasswordExpiration": "20231114221319.9Z"}, AccountState(password_expired=True)),
        ({"krbPasswordExpiration": "20380119031407Z"}, AccountState()),
        ({"krbPasswordExpiration": "never"}, AccountState()),
    ],
)
def test_the_state_of_an_account(values, state):
    assert SCHEMA.read_user(entry(**values), Facts(now=NOW)).state == state


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "Z",
        "20231114",
        "20231114221320Z".translate({0x30 + digit: 0x660 + digit for digit in range(10)}),
        "20231114221320",
        "20231114221320+01000",
        "20231314221320Z",
        "20231114221320+9900",
        "x" * 20,
    ],
)
def test_what_is_no_moment_is_none(text):
    assert moment(text) is None


@pytest.mark.parametrize(
    "text", ["20231114221320Z", "20231114221320,75Z", "20231114231320+0100", "20231114171320-05", "20231115081320.5+1000"]
)
def test_a_moment_in_each_spelling_of_rfc_4517(text):
    assert moment(text) == NOW


def test_minutes_and_seconds_may_be_left_out():
    assert (moment("202311142213Z"), moment("2023111422Z")) == (NOW - 20_000_000, NOW - 800_000_000)
    assert spelt(NOW + 999_999) == "20231114221320Z"


def test_a_moment_and_a_number():
    assert moment("20231114221320.5Z") == NOW
    assert [whole(text) for text in ("0", "12", None, "", "-1", "1" * 16, "²", "a")] == [0, 12, None, None, None, None, None, None]


@pytest.mark.parametrize(
    ("own", "facts", "types"),
    [
        ((), Facts(now=NOW), ()),
        ((), Facts(now=NOW, default_types=("password",)), ("password",)),
        (("OTP", "unknown"), Facts(now=NOW, default_types=("password",)), ("otp",)),
        (("otp",), Facts(now=NOW, default_types=("password",), types_fixed=True), ("password",)),
    ],
)
def test_types_are_the_own_else_those_of_everybody(own, facts, types):
    assert SCHEMA.read_user(entry(ipaUserAuthType=own), facts).authentication_types == types


@pytest.mark.parametrize(
    ("types", "link", "upstream"),
    [
        ("idp", "CN=Other, cn=idp,dc=example,dc=com", "ipa-other"),
        ("idp", "cn=gone,cn=idp,dc=example,dc=com", None),
        ("password", "cn=other,cn=idp,dc=example,dc=com", None),
    ],
)
def test_a_provider_is_that_of_a_user_of_its_type(types, link, upstream):
    facts = Facts(now=NOW, upstreams={"cn=other,cn=idp,dc=example,dc=com": "ipa-other"})

    assert SCHEMA.read_user(entry(ipaUserAuthType=types, ipaIdpConfigLink=link), facts).upstream == upstream


@pytest.mark.parametrize(
    ("code", "message", "said"), [(53, "Account inactivated. Contact system administrator.", "disabled"), (53, "", None), (49, "", None)]
)
def test_389_ds_says_that_an_account_is_off(code, message, said):
    assert SCHEMA.refused_as(code, message, None) == said


@pytest.mark.parametrize(("host", "asked"), [("web1", "web1.example.com"), ("Web1.Example.COM.", "web1.example.com")])
def test_a_short_host_is_of_the_domain_of_the_realm(host, asked):
    assert asked.replace(".", "\\2e") in SCHEMA.host(host).filter


class Source:
    """A reader of providers."""

    def __init__(self):
        self.upstreams = {}
        self.found = SCHEMA.read_providers([provider("Other")])
        self.down = False

    async def linked(self, _dn, _value):
        return self.person

    async def providers(self):
        if self.down:
            raise DirectoryUnavailable("down")
        return self.found


async def test_an_outage_leaves_the_providers_that_were_read():
    source = Source()
    upstreams = Upstreams(source, structlog.get_logger())
    await upstreams.refresh()
    source.down = True
    await upstreams.refresh()

    assert [one.id for one in upstreams.providers] == ["ipa-other"]
    assert source.upstreams == {"cn=other,cn=idp,dc=example,dc=com": "ipa-other"}
    source.down, source.found = False, ()
    await upstreams.refresh()
    assert source.upstreams == {}


async def test_a_provider_is_the_same_until_the_directory_changes_it():
    source = Source()
    upstreams = Upstreams(source, structlog.get_logger())
    await upstreams.refresh()
    (first,) = upstreams.upstreams()
    source.found = [msgspec.structs.replace(source.found[0])]
    await upstreams.refresh()
    assert upstreams.upstreams()[0] is first
    for changed in ({"client_secret": Secret("new")}, {"client_id": "another"}):
        source.found = [msgspec.structs.replace(source.found[0], **changed)]
        await upstreams.refresh()
        (second,) = upstreams.upstreams()
        assert second is not first
        first = second


async def test_a_person_of_a_provider_is_one_whom_it_signs_in_still():
    source = Source()
    upstreams = Upstreams(source, structlog.get_logger())
    await upstreams.refresh()
    ann = User(username="ann", realm="EXAMPLE.COM", source="ipa", upstream="ipa-other")

    for user, found in ((ann, ann), (None, None), (msgspec.structs.replace(ann, upstream=None), None)):
        source.person = user
        assert await upstreams.person("ipa-other", "7") is found
    assert await upstreams.person("ipa-nobody", "7") is None


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        (("HTTP/Web1.example.com@EXAMPLE.COM", "HTTP/www.example.com@EXAMPLE.COM"), {"web1.example.com", "www.example.com"}),
        (("HTTP/web1.example.com@EVIL.COM", "HTTP/web2@", "no principal", "ann@EXAMPLE.COM"), set()),
    ],
)
def test_hosts_of_a_service_are_those_of_its_names_in_the_realm(names, hosts):
    assert SCHEMA.read_hosts(entry(krbPrincipalName=names)) == hosts


@pytest.mark.parametrize(
    ("values", "principal"),
    [
        ({"krbCanonicalName": "ann@EXAMPLE.COM", "krbPrincipalName": ("al@EXAMPLE.COM", "ann@EXAMPLE.COM")}, "ann@EXAMPLE.COM"),
        ({"krbPrincipalName": "anna@EXAMPLE.COM"}, "anna@EXAMPLE.COM"),
        ({"krbCanonicalName": "eve@EVIL.TEST"}, "ann@EXAMPLE.COM"),
        ({"krbCanonicalName": "eve@EVIL.TEST", "krbPrincipalName": ("eve@EVIL.TEST", "anna@EXAMPLE.COM")}, "anna@EXAMPLE.COM"),
        ({"krbCanonicalName": "no principal"}, "ann@EXAMPLE.COM"),
        ({}, "ann@EXAMPLE.COM"),
    ],
)
def test_s086_the_kdc_of_another_realm_is_never_asked_for_a_password(values, principal):
    assert SCHEMA.principal_of(entry(**values)) == principal


def test_the_languages_of_a_person_are_ranges_and_what_is_none_is_passed_over():
    for told, languages in {"de": ("de",), "fr-CA, de;q=0.8, *": ("fr-CA", "de"), "": (), "no language": ()}.items():
        assert SCHEMA.read_user(entry(preferredLanguage=told), Facts(now=NOW)).languages == languages
