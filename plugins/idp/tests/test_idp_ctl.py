"""The commands of ``greatseal ctl`` against an admin API that notes what it is asked."""

import json
import shlex

import pytest

from greatseal.testing.ctl import Ctl, quiet
from greatseal.testing.distributions import install

DESK = """
from greatseal.api.http import Reply
from greatseal.api.problems import BadRequest
from greatseal.testing.ctl import AdminDesk

CLIENT = {"client_id": "c1", "client_name": "A\\u001b[31mB\\u202eC", "scopes": ["a", "b"], "jwks_uri": None, "created_at": 1_800_000_000}
FIELDS = {
    *CLIENT, "backchannel_logout_uri", "client_secret", "consent", "default_max_age", "jwks", "kerberos_principal",
    "kerberos_principal_pattern", "logo_uri", "redirect_uris",
    "source", "tls_client_certificate", "token_endpoint_auth_method",
}  # fmt: skip


class Plugin(AdminDesk):
    async def answer(self, call, path, body):
        if call.method == "DELETE":
            return Reply.empty()
        if path == "clients" and call.method == "GET":
            return Reply.json([CLIENT])
        if path.startswith("clients"):  # unknown members are ignored unless Prefer says otherwise, a secret is shown by POST alone
            wrong = {name: f"no {name} here" for name in (body or {}) if name not in FIELDS or name == "source"}
            if wrong and call.headers.get("Prefer") == "handling=strict":
                raise BadRequest("there are members that cannot be set, see fields", members={"fields": wrong})
            body = {name: value for name, value in (body or {}).items() if name != "client_secret" or call.method == "POST"}
            known = FIELDS - {"client_secret"} | body.keys() & FIELDS
            return Reply.json({name: {**CLIENT, **body}.get(name) for name in sorted(known)})
        return Reply.json({**CLIENT, **(body or {})})
"""


@pytest.fixture
async def ctl(start_service, tmp_path, monkeypatch):
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    with quiet():
        service = await start_service(install(folder, "greatseal-desk", DESK))
        yield Ctl(service.url, tmp_path, service.kernel.hooks.instances["desk"].seen)


async def test_fields_of_a_client_become_the_body(ctl):
    await ctl.login()
    secret = ctl.folder / "secret"
    secret.write_text("s3cret\nmore\n")

    result = await ctl.run(
        *("clients", "create", "--name", "App", "--redirect-uri", "https://a/cb", "--redirect-uri", "https://b/cb"),
        *("--scope", "openid", "--method", "client_secret_post", "--secret-file", str(secret)),
        *("--set", 'consent="implicit"', "--set", "default_max_age=5", "--clear", "logo_uri"),
    )

    assert result.exit_code == 0, result.output
    assert ctl.seen[-1] == (
        "POST",
        "clients",
        {
            "client_name": "App",
            "redirect_uris": ["https://a/cb", "https://b/cb"],
            "scopes": ["openid"],
            "token_endpoint_auth_method": "client_secret_post",
            "client_secret": "s3cret",
            "consent": "implicit",
            "default_max_age": 5,
            "logo_uri": None,
        },
    )


async def test_a_method_with_a_secret_gets_a_random_one_that_is_shown(ctl):
    await ctl.login()

    result = await ctl.run("clients", "create", "--method", "client_secret_basic", "--json")

    secret = ctl.seen[-1][2]["client_secret"]
    assert len(secret) == 43
    assert json.loads(result.stdout)["client_secret"] == secret


async def test_a_principal_or_a_pattern_makes_a_kerberos_client(ctl):
    await ctl.login()

    for text, member in (("host/a@R", "kerberos_principal"), ("host/*@R", "kerberos_principal_pattern")):
        result = await ctl.run("clients", "create", "--principal", text)
        assert result.exit_code == 0, result.output
        assert ctl.seen[-1][2] == {member: text, "token_endpoint_auth_method": "kerberos_client_auth"}


async def test_an_update_sends_what_was_named_and_nothing_else(ctl):
    await ctl.login()

    await ctl.run("clients", "update", "c1", "--name", "New")
    assert ctl.seen[-1] == ("PUT", "clients/c1", {"client_name": "New"})
    nothing = await ctl.run("clients", "update", "c1")
    assert (nothing.exit_code, len(ctl.seen)) == (2, 1)


@pytest.mark.parametrize("wrong", [["--set", "consent"], ["--set", "consent=implicit"], ["--secret-file", "-", "--generate-secret"]])
async def test_bad_usage_is_exit_code_2_and_nothing_is_sent(ctl, wrong):
    await ctl.login()

    result = await ctl.run("clients", "create", *wrong)

    assert (result.exit_code, ctl.seen) == (2, [])


@pytest.mark.parametrize(
    ("given", "example"),
    [
        ("consent=implicit", "'consent=\"implicit\"'"),  # what a shell leaves of consent="implicit"
        ("consent", "'consent=\"text\"'"),
        ("client_name=it's", "'client_name=\"it'\"'\"'s\"'"),
    ],
)
async def test_a_value_that_is_no_json_is_shown_as_the_shell_needs_it(ctl, given, example):
    await ctl.login()

    result = await ctl.run("clients", "create", "--set", given)

    assert result.stderr == f"greatseal: --set {given}: expected FIELD=JSON, for example --set {example}\n"
    (_, taken) = shlex.split(f"--set {example}")
    assert json.loads(taken.partition("=")[2])


@pytest.mark.parametrize("command", [["create", "--name", "New"], ["update", "c1", "--name", "New"]])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--set", 'consnet="implicit"'], "--set consnet: no consnet here"),
        (["--clear", "backchanel_logout_uri"], "--clear backchanel_logout_uri: no backchanel_logout_uri here"),
        (["--set", "=1"], "--set : no  here"),
        (["--clear", "a", "--set", 'source="x"', "--clear", "consent"], "--set source: no source here; --clear a: no a here"),
    ],
)
async def test_a_field_that_no_client_has_is_exit_code_2_and_nothing_is_done(ctl, command, wrong, words):
    await ctl.login()

    result = await ctl.run("clients", *command, *wrong)

    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"greatseal: {words}\n")
    assert len(ctl.seen) == 1


async def test_fields_that_a_client_has_are_set_and_cleared(ctl):
    await ctl.login()

    result = await ctl.run(
        *("clients", "update", "c1", "--set", 'consent="implicit"', "--set", 'tls_client_certificate="PEM"', "--clear", "logo_uri"),
        *("--clear", "client_secret"),
    )

    assert result.exit_code == 0, result.output
    body = {"consent": "implicit", "tls_client_certificate": "PEM", "logo_uri": None, "client_secret": None}
    assert ctl.seen[-1] == ("PUT", "clients/c1", body)


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ([], "client_secret_basic"),
        (["--jwks-uri", "https://app.example/jwks"], "private_key_jwt"),
        (["--set", 'jwks={"keys":[]}'], "private_key_jwt"),
        (["--method", "none"], "none"),
        (["--set", 'token_endpoint_auth_method="none"'], "none"),
    ],
)
async def test_the_method_that_most_want_is_the_default(ctl, options, method):
    await ctl.login()

    result = await ctl.run("clients", "create", *options)

    assert result.exit_code == 0, result.output
    assert ctl.seen[-1][2]["token_endpoint_auth_method"] == method
    assert ("client_secret" in ctl.seen[-1][2]) == (method == "client_secret_basic")


async def test_names_are_encoded_into_the_path(ctl):
    await ctl.login()

    result = await ctl.run("scopes", "set", "pay:read ?#%", "--claim", "a", "--description", "d")

    assert result.exit_code == 0, result.output
    assert ctl.seen[-1] == ("PUT", "scopes/pay%3Aread%20%3F%23%25", {"claims": ["a"], "description": "d"})


async def test_a_deletion_by_a_program_asks_nothing(ctl):
    await ctl.login()

    result = await ctl.run("clients", "delete", "c1")

    assert (result.exit_code, result.stdout, ctl.seen[-1]) == (0, "client c1 is deleted\n", ("DELETE", "clients/c1", None))


async def test_an_unknown_command_or_option_is_exit_code_2(ctl):
    for command in (["frobnicate"], ["clients", "list", "--frobnicate"], ["audit", "--limit", "0"], ["clients", "show"]):
        assert (await ctl.run(*command)).exit_code == 2


async def test_a_kid_may_begin_with_a_dash(ctl):
    result = await ctl.run("keys", "revoke", "-VGhkmd", "--yes")

    assert (result.exit_code, "No such option" in result.output) == (1, False)  # not signed in: the kid was read
