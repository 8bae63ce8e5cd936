"""Names and values that stay what they are, and lists in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.directory import DirectoryUnavailable
from greatseal_ipa import listing
from greatseal_ipa.library import Entry, Found, Query
from greatseal_ipa.listing import Kind, Listing
from greatseal_ipa.names import child_of, filter_value, first_value, folded, is_askable, is_under, is_username, parse, rdn_value, same

BASE = "cn=groups,cn=accounts,dc=example,dc=com"
PLAIN = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\\")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("alice", "alice"),
        ("*", "\\2a"),
        ("a)(uid=*", "a\\29\\28uid\\3d\\2a"),
        ("\\", "\\5c"),
        ("\0", "\\00"),
        ("ü", "\\c3\\bc"),
        ("²", "\\c2\\b2"),
        ("host/web1@R.COM", "host\\2fweb1\\40R\\2eCOM"),
    ],
)
def test_s087_a_value_in_a_filter_has_letters_and_digits_alone(text, written):
    assert filter_value(text) == written


@given(st.text())
def test_s087_no_value_says_anything_in_a_filter(text):
    assert set(filter_value(text)) <= PLAIN


@given(st.text(min_size=1))
def test_s088_no_value_says_anything_in_a_dn(text):
    dn = f"cn={rdn_value(text)},{BASE}"

    assert len(parse(dn)) == 5
    assert first_value(dn, "cn") == text


@pytest.mark.parametrize("text", [",", "+", "#a", " a", "a ", '"', "a,dc=x", "\\", "a=b", "<>;", "\n"])
def test_s088_what_is_special_in_a_dn_is_escaped(text):
    dn = f"cn={rdn_value(text)},{BASE}"

    assert first_value(dn, "cn") == text
    assert parse(dn)[1:] == parse(BASE)


@pytest.mark.parametrize(
    "dn",
    [
        "CN=Devs,CN=Groups,cn=accounts,DC=example,DC=com",
        "cn=devs , cn=groups,cn=accounts,dc=example,dc=com",
        "cn=d\\65vs,cn=groups,cn=accounts,dc=example,dc=com",
    ],
)
def test_dns_are_compared_without_case_spaces_and_escapes(dn):
    assert parse(dn) == parse(f"cn=devs,{BASE}")
    assert folded(dn) == f"cn=devs,{BASE}"
    assert is_under(dn, BASE)
    assert is_under(dn, dn)


def test_an_rdn_of_two_values_has_no_order():
    assert parse("cn=a+uid=b,dc=x") == parse("uid=B+cn=A,dc=x")
    assert first_value("cn=a+uid=b,dc=x", "uid") is None
    assert child_of(f"cn=a+uid=b,{BASE}", BASE) is None


def test_a_first_value_is_of_its_type():
    assert first_value("uid=a,dc=x", "uid") == "a"
    assert first_value("uid=a,dc=x", "cn") is None


def test_the_root_has_no_name_and_all_are_under_it():
    assert parse("") == parse("  ") == ()
    assert is_under("", "")
    assert is_under(BASE, "")
    assert not is_under("", BASE)
    assert not is_under("dc=com", BASE)
    assert child_of("", "") is None


@pytest.mark.parametrize("dn", ["cn=a,cn=x,cn=groups,cn=accounts,dc=example,dc=com", BASE, "cn=a,dc=com", "", "no dn"])
def test_only_what_is_right_below_is_a_child(dn):
    assert child_of(dn, BASE) is None


def test_a_child_has_its_name_as_written():
    assert child_of(f"CN=Domain \\+ Admins,{BASE}", BASE) == "Domain + Admins"


@pytest.mark.parametrize("dn", ["cn=a,dc=com", "cn=x,cn=groupsx,cn=accounts,dc=example,dc=com", "no dn", "evil\\,cn=groups"])
def test_what_is_elsewhere_is_not_under_it(dn):
    assert not is_under(dn, BASE)


def test_what_is_no_dn_is_nowhere():
    assert not is_under(f"cn=a,{BASE}", "no dn")
    assert folded("no dn") == "no dn"
    assert first_value("no dn", "cn") is None
    for text in ("no dn", "=a", "cn=a,,dc=b"):
        with pytest.raises(ValueError, match="type=value"):
            parse(text)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0", "a\nb", " a", "a ", "\u202ea"])
def test_nobody_has_such_a_name(name):
    assert not is_askable(name)


def test_names_that_people_have():
    assert all(map(is_askable, ("alice", "a b", "ünï", "x" * 255)))


class People:
    """A server with these names and a limit of its own."""

    def __init__(self, *names, limit=2_000):
        self.names = names
        self.limit = limit
        self.queries = []

    @property
    def questions(self):
        return len(self.queries)

    async def ask(self, query):
        self.queries.append(query)
        kind, _, rest = query.filter.lower().partition(":")
        found = [name for name in self.names if (name.lower() == rest if kind == "is" else name.lower().startswith(rest))]
        limit = min(query.limit, self.limit)
        return Found([Entry(name, {"uid": (name.encode(),)}) for name in found[::-1][:limit]], len(found) <= limit)


KIND = Kind(
    lambda prefix: Query(base="", filter=f"begins:{prefix}", attributes=("uid",)),
    lambda names: Query(base="", filter=f"is:{names[0]}", attributes=("uid",)),
    lambda entry: entry.text("uid"),
)


async def listed(people, prefix, limit, after=""):
    return await Listing(people.ask, KIND, limit=limit, after=after).of(prefix)


async def test_few_names_are_read_at_once_and_sorted_by_code_points():
    people = People("bob", "Alice", "_z", "zoe", "über")

    assert await listed(people, "", 10) == ["Alice", "_z", "bob", "zoe", "über"]
    assert await listed(people, "", 2, "_z") == ["bob", "zoe"]
    assert people.questions == 2


async def test_many_names_are_found_letter_by_letter():
    names = sorted([f"user{number:05}" for number in range(5_000)] + ["user0", "user", "admin", "user-x", "u$"])
    people = People(*names)

    assert await listed(people, "", 3) == names[:3]
    assert await listed(people, "", 10, "user00123") == names[names.index("user00123") + 1 :][:10]
    assert await listed(people, "user0", 5) == [name for name in names if name.startswith("user0")][:5]
    walked = []
    while page := await listed(people, "user", 500, walked[-1] if walked else ""):
        walked += page
    assert walked == [name for name in names if name.startswith("user")]


async def test_a_server_with_a_small_limit_is_asked_more_often():
    names = sorted(f"user{number:03}" for number in range(300))

    assert await listed(People(*names, limit=50), "", 100) == names[:100]


async def test_who_has_enough_asks_no_more():
    names = sorted(f"{letter}{number:03}" for letter in "abc" for number in range(1_000))
    people = People(*names)

    assert await listed(people, "", 10) == names[:10]
    asked = [query.filter for query in people.queries]
    assert not any(filter.startswith(("begins:b", "begins:c")) for filter in asked)


async def test_a_list_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(listing, "QUESTIONS", 20)
    names = [f"{'a' * 40}{number:04}" for number in range(2_000)]

    with pytest.raises(DirectoryUnavailable):
        await listed(People(*names), "", 10)


async def test_a_name_is_no_more_than_its_prefix_says():
    class Lying(People):
        async def ask(self, query):
            return Found([Entry("x", {"uid": (b"mallory",)}), Entry("y", {"uid": (b"alice",)}), Entry("z")])

    assert await listed(Lying(), "al", 10) == ["alice"]


def test_names_of_people_are_no_names_of_services():
    assert all(map(is_username, ("alice", "a b", "ünï")))
    assert not any(map(is_username, ("host/web1", "alice@R", "a\\b", "", " a", "a\0")))


def test_names_that_differ_by_case_or_width_alone_are_the_same():
    assert same("al\uff49ce", "ALICE")
    assert not same("alice", "alicia")
    assert not same("stra\u00dfe", "strasse")
