"""Configuration: exact messages, secrets that never show, keyed and repeated tables."""

from pathlib import Path

import msgspec
import pytest

from greatseal.api.declarations import Owns, Reads, Secret
from greatseal.api.problems import StartProblem
from greatseal.kernel.config import Binder, read_file
from greatseal.kernel.settings import Plugins, Server
from greatseal.kernel.urls import base_and_issuer


class Paint(msgspec.Struct, frozen=True, kw_only=True):
    """Test settings."""

    colour: str = "red"
    """The colour."""
    coats: int = 1
    key: Secret | None = None
    folder: Path | None = None


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size: int


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    refresh: int = 60


def bind(document, *declarations):
    binder = Binder()
    binder.declare("p", declarations)
    return binder.bind(document), binder.problems


def test_values_are_decoded_and_defaults_kept():
    bound, problems = bind({"paint": {"coats": 2, "folder": "/tmp"}}, Owns("paint", Paint))

    assert problems == []
    assert bound.tables[Paint] == Paint(coats=2, folder=Path("/tmp"))


def test_every_wrong_value_is_reported_with_its_key():
    _, problems = bind({"paint": {"coats": "two", "colour": 3, "folder": 4}}, Owns("paint", Paint))

    assert sorted(problems) == [
        "[paint] coats: expected an integer, got a string",
        "[paint] colour: expected a string, got an integer",
        "[paint] folder: expected a path, got an integer",
    ]


def test_missing_required_keys_are_all_named():
    _, problems = bind({"needs": {}}, Owns("needs", Needs))

    assert problems == ["[needs] name: must be given", "[needs] size: must be given"]


def test_an_absent_section_with_required_keys_is_a_feature_that_is_off():
    bound, problems = bind({}, Owns("needs", Needs))

    assert problems == []
    assert Needs not in bound.tables


def test_keyed_and_repeated_tables():
    document = {"shelf": {"refresh": 5, "a": {"colour": "blue"}, "b": {}}, "ca": [{"coats": 1}, {"coats": 2}]}

    class Keyed(Paint, frozen=True, kw_only=True):
        pass

    bound, problems = bind(document, Owns("shelf", Shelf), Owns("shelf.*", Keyed), Owns("ca[]", Paint))

    assert problems == []
    assert bound.tables[Shelf] == Shelf(refresh=5)
    assert {key: value.colour for key, value in bound.keyed[Keyed].items()} == {"a": "blue", "b": "red"}
    assert [item.coats for item in bound.repeated[Paint]] == [1, 2]


def test_an_unknown_key_of_a_keyed_table_is_named():
    _, problems = bind({"shelf": {"a": {"color": "blue"}}}, Owns("shelf", Shelf), Owns("shelf.*", Paint))

    assert problems == ["[shelf.a] color: unknown key; did you mean 'colour'?"]


def test_a_key_of_another_section_is_pointed_at():
    _, problems = bind({"shelf": {"coats": 3}}, Owns("shelf", Shelf), Owns("paint", Paint))

    assert problems == ["[shelf] coats: unknown key; there is [paint] coats"]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"server": {"gssapi": {"keytab_file": "x"}}}, "[server] gssapi: unknown key; write [gssapi]"),
        ({"server": {"listen_addr": "x"}}, "[server] listen_addr: unknown key; write [server] listen"),
        ({"server": {"tls": "self"}}, "[server] tls: planned, not built yet; leave it out"),
        ({"server": {"issuer_aliases": []}}, "[server] issuer_aliases: planned, not built yet; leave it out"),
        (
            {"server": {"http_validation_port": 5002}},
            "[server] http_validation_port: unknown key; it belongs to the plugin 'http-01', which is not enabled",
        ),
        ({"gssapi": {}}, "[gssapi]: unknown section; it belongs to the plugin 'gssapi', which is not enabled"),
        ({"mtc": {}}, "[mtc]: unknown section; it belongs to the plugin 'mtc', which is not enabled"),
        ({"pkcs11": {}}, "[pkcs11]: planned, not built yet (plugin 'pkcs11'); leave it out"),
        ({"acr": [{"value": "x"}]}, "[acr]: unknown section; it belongs to the plugin 'idp', which is not enabled"),
        ({"users": {"file": "x"}}, "[users]: unknown section; it belongs to the plugin 'users-file', which is not enabled"),
        ({"server": {"delegation_enabled": True}}, "[server] delegation_enabled: unknown key; no enabled plugin knows it"),
    ],
)
def test_a_key_that_nobody_declares_is_told_what_it_is(document, problem):
    _, problems = bind(document, Owns("server", Server))

    assert problems == [problem]


def test_who_would_take_a_plugin_out_of_a_set_is_told_how():
    _, problems = bind({"plugins": {"disabled": ["dpop"]}}, Owns("plugins", Plugins))

    assert problems == ["[plugins] disabled: unknown key; write the features to run in [plugins] enabled, without the set"]


def test_a_repeated_section_whose_keys_are_required_may_be_left_out():
    class Rung(msgspec.Struct, frozen=True, kw_only=True):
        value: str

    bound, problems = bind({}, Owns("acr[]", Rung), Owns("ca[]", Paint))
    _, lacking = bind({"acr": [{}]}, Owns("acr[]", Rung))

    assert (problems, bound.repeated[Rung], len(bound.repeated[Paint])) == ([], [], 1)
    assert "value: must be given" in lacking[0]


def test_names_of_the_reference_for_nested_tables_are_told_too():
    document = {"profiles": {"web": {"allowed_identifiers": []}}, "mtc": {"signing_key": {"key_type": "ed25519"}}}

    class Mtc(msgspec.Struct, frozen=True, kw_only=True):
        pass

    _, problems = bind(document, Owns("profiles.*", Paint), Owns("mtc", Mtc))

    assert problems == [
        "[profiles.web] allowed_identifiers: unknown key; write allowed_identifier_patterns",
        "[mtc] signing_key: unknown key; it belongs to the plugin 'mtc', which is not enabled",
    ]


@pytest.mark.parametrize("value", ["hush", {"file": "{folder}/secret"}, {"env": "GREATSEAL_TEST_SECRET"}])
def test_secrets_come_from_text_file_or_environment_and_never_show(value, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("hush\n")
    monkeypatch.setenv("GREATSEAL_TEST_SECRET", "hush")
    if isinstance(value, dict):
        value = {key: text.format(folder=tmp_path) for key, text in value.items()}

    bound, problems = bind({"paint": {"key": value}}, Owns("paint", Paint))

    assert problems == []
    assert bound.tables[Paint].key.value == "hush"
    assert "hush" not in repr(bound.tables[Paint])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"file": "/nowhere/secret"}, "cannot be read"),
        ({"env": "GREATSEAL_UNSET"}, "is not set"),
        ({"file": "a", "env": "b"}, "expected a string"),
        (3, "expected a string"),
    ],
)
def test_a_secret_that_cannot_be_had_is_reported(value, reason):
    _, problems = bind({"paint": {"key": value}}, Owns("paint", Paint))

    assert len(problems) == 1
    assert problems[0].startswith("[paint] key: ")
    assert reason in problems[0]


def test_a_wrong_value_read_by_two_is_told_once():
    _, problems = bind({"paint": {"coats": "x"}}, Owns("paint", Paint), Reads("paint", Paint))

    assert len(problems) == 1


def test_a_file_that_is_no_toml_is_named_with_its_line(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text("[server\n")

    with pytest.raises(StartProblem, match=r"not valid TOML.*line 1"):
        read_file(path)
    with pytest.raises(StartProblem, match="no such configuration file"):
        read_file(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://ca.example/", "final slash"),
        ("http://ca.example", "plain http is for loopback"),
        ("ftp://ca.example", "expected http"),
        ("https://user@ca.example", "expected http"),
        ("https://ca.example?x=1", "no query"),
        ("https://CA.example", "lower-case"),
        ("https://ca.example:x", "not a URL"),
    ],
)
def test_base_urls_that_are_refused(url, reason):
    *_, problems = base_and_issuer(Server(base_url=url))

    assert len(problems) == 1
    assert reason in problems[0]


@pytest.mark.parametrize(
    "url",
    [
        *("https://ca.example", "https://ca.example/pki", "http://localhost:8080", "http://127.0.0.1:1", "http://[::1]:1"),
        *("http://a.localhost", "https://h_1.lan:8443/a/b.c~d-e_f", "https://192.0.2.1", "https://[2001:db8::1]:1/A"),
    ],
)
def test_base_urls_that_are_accepted_and_name_the_issuer_too(url):
    assert base_and_issuer(Server(base_url=url)) == (url, url, [])
    assert base_and_issuer(Server(issuer=url)) == (url, url, [])
