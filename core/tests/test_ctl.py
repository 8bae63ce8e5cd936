"""``greatseal ctl`` against a service whose admin API is that of a small plugin: sessions, tables, JSON, refusals, exit codes."""

import asyncio
import json
import shlex
import stat

import msgspec
import pytest
import structlog
from click.testing import CliRunner

from greatseal.cli import main
from greatseal.ctl.client import CtlProblem, Server, SessionFile, StoredSession
from greatseal.ctl.tables import as_table, cell, printable
from greatseal.testing.distributions import install

DESK = """
from typing import Any

from greatseal import hookimpl
from greatseal.api.http import Call, Reply, Route
from greatseal.api.problems import BadRequest, Forbidden, NotFound, Unauthenticated

SEEN = []
EVENTS = [{"id": number, "event_type": "logout", "sub": f"user{number}", "created_at": 1_800_000_000} for number in range(250, 0, -1)]
CLIENT = {"client_id": "c1", "client_name": "A\\u001b[31mB\\u202eC", "scopes": ["a", "b"], "jwks_uri": None, "created_at": 1_800_000_000}
FIELDS = {
    *CLIENT, "backchannel_logout_uri", "client_secret", "consent", "default_max_age", "jwks", "logo_uri", "redirect_uris", "source",
    "tls_client_certificate", "token_endpoint_auth_method",
}  # fmt: skip


async def login(call):
    given = await call.body(dict[str, Any])
    if given["password"] != "right":
        raise Unauthenticated("the name or the password is wrong")
    cookie = ("Set-Cookie", "__Host-greatseal_session=v1; Path=/; HttpOnly; Secure")
    return Reply.json({"sub": f"{given['username']}@X"}).with_headers(("Set-Cookie", "other=1"), cookie)


def session(call):
    if call.headers.get("Cookie") != "__Host-greatseal_session=v1":
        raise Unauthenticated("there is no session; sign in first")


async def answer(call):
    session(call)
    body = await call.body(Any) if await call.raw() else None
    SEEN.append((call.http.method, call.url.partition("/api/admin/")[2], body))
    path = call.path["path"]
    if path == "audit":  # at most 100 at once, the next ones by their key
        limit, offset, after = min(int(call.query["limit"]), 100), int(call.query.get("offset", "0")), int(call.query.get("after", "1000"))
        rest = [event for event in EVENTS if event["id"] < after][offset:]
        page = Reply.json(rest[:limit])
        link = f'<https://elsewhere.example/other?limit={limit}&after={rest[limit - 1]["id"]}>; rel="next"' if len(rest) > limit else ""
        return page.with_headers(("Link", '<https://x.example/?a=1>; rel="prev"'), ("Link", link)) if link else page
    if path == "scopes" and call.http.method == "GET":  # a server that leads in a circle
        return Reply.json([{"name": "a"}]).with_headers(("Link", '</?after=a>; rel="next"'))
    if path.startswith("keys"):
        raise Forbidden("no role of yours grants this", members={"required_permission": "keys:read"})
    if path == "nodes":
        return Reply.json([])
    if path == "groups":
        return Reply(status=200, body=b"<html>", content_type="text/html")
    if call.http.method == "DELETE":
        return Reply.empty()
    if path == "clients" and call.http.method == "GET":
        return Reply.json([CLIENT])
    if path.startswith("clients"):  # unknown members are ignored unless Prefer says otherwise, a secret is shown by POST alone
        wrong = {name: f"no {name} here" for name in (body or {}) if name not in FIELDS or name == "source"}
        if wrong and call.headers.get("Prefer") == "handling=strict":
            raise BadRequest("there are members that cannot be set, see fields", members={"fields": wrong})
        body = {name: value for name, value in (body or {}).items() if name != "client_secret" or call.http.method == "POST"}
        known = FIELDS - {"client_secret"} | body.keys() & FIELDS
        return Reply.json({name: {**CLIENT, **body}.get(name) for name in sorted(known)})
    return Reply.json({**CLIENT, **(body or {})})


async def logout(call):
    session(call)
    SEEN.append(("logout", "", None))
    return Reply.empty()


class Plugin:
    @hookimpl
    def routes(self, host):
        everything = [Route(method, "/api/admin/{path*}", answer) for method in ("GET", "POST", "PUT", "DELETE")]
        return [Route("POST", "/api/auth/login", login), Route("POST", "/api/auth/logout", logout), *everything]
"""


class Ctl:
    """Runs commands beside the service. ``session`` is the file of the session."""

    def __init__(self, url, folder, seen):
        self.url = url
        self.session = folder / "config" / "session.json"
        self.folder = folder
        self.seen = seen

    async def run(self, *arguments, given=None, server=None, **environment):
        wanted = {"GREATSEAL_SESSION": str(self.session), "GREATSEAL_SERVER": server or self.url, **environment}
        return await asyncio.to_thread(CliRunner(env=wanted).invoke, main, ["ctl", *arguments], input=given)

    async def login(self):
        result = await self.run("login", "alice", "--password-file", "-", given="right\n")
        assert result.exit_code == 0, result.output


@pytest.fixture(autouse=True)
def quiet():
    """The log of the service is not what a command prints."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


@pytest.fixture
async def ctl(start_service, tmp_path, monkeypatch):
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    feature = install(folder, "greatseal-desk", DESK)
    service = await start_service(feature)
    import greatseal_desk

    return Ctl(service.url, tmp_path, greatseal_desk.SEEN)


async def test_login_keeps_the_session_readable_by_its_owner_alone(ctl):
    result = await ctl.run("login", "alice", "--password-file", "-", given="right\n")

    assert (result.exit_code, result.stdout) == (0, f"signed in to {ctl.url} as alice@X\n")
    assert stat.S_IMODE(ctl.session.stat().st_mode) == 0o600
    assert stat.S_IMODE(ctl.session.parent.stat().st_mode) == 0o700
    assert json.loads(ctl.session.read_text()) == {"server": ctl.url, "cookie": "__Host-greatseal_session=v1", "username": "alice"}


async def test_login_asks_for_name_and_password_and_shows_no_password(ctl):
    result = await ctl.run("login", given="alice\nright\n")

    assert result.exit_code == 0
    assert "right" not in result.output


async def test_a_wrong_password_is_one_line_and_exit_code_1(ctl):
    file = ctl.folder / "password"
    file.write_text("wrong\n")

    result = await ctl.run("login", "alice", "--password-file", str(file))

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"greatseal: {ctl.url}: the name or the password is wrong (unauthenticated)")
    assert not ctl.session.exists()


@pytest.mark.parametrize("content", ["", "\n", None, b"\xff\xfe"])
async def test_a_password_file_without_a_password_is_exit_code_2(ctl, content):
    file = ctl.folder / "password"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    result = await ctl.run("login", "alice", "--password-file", str(file))

    assert (result.exit_code, str(file) in result.stderr) == (2, True)


async def test_without_a_session_every_command_names_the_cure(ctl):
    for command in (["nodes"], ["clients", "list"], ["whoami"], ["logout"]):
        result = await ctl.run(*command)
        assert (result.exit_code, result.stderr) == (1, f"greatseal: not signed in to {ctl.url}; sign in with: greatseal ctl login\n")


async def test_the_cookie_goes_to_the_server_that_gave_it_alone(ctl):
    await ctl.login()

    result = await ctl.run("clients", "list", server="http://127.0.0.1:1")

    assert (result.exit_code, "not signed in to http://127.0.0.1:1" in result.stderr) == (1, True)


async def test_the_server_is_remembered_from_the_login(ctl):
    await ctl.login()

    assert (await ctl.run("clients", "list", server="", GREATSEAL_SERVER="")).exit_code == 0


async def test_a_session_that_ended_on_the_server_says_so(ctl):
    await ctl.login()
    stored = json.loads(ctl.session.read_text())
    SessionFile(ctl.session).write(msgspec.convert({**stored, "cookie": "__Host-greatseal_session=old"}, StoredSession))

    result = await ctl.run("nodes")

    assert (result.exit_code, result.stderr.endswith("sign in with: greatseal ctl login\n")) == (1, True)


async def test_a_session_file_that_others_can_read_is_not_used(ctl):
    await ctl.login()
    ctl.session.chmod(0o640)

    result = await ctl.run("nodes")

    assert (result.exit_code, f"chmod 600 {ctl.session}" in result.stderr) == (2, True)


async def test_a_broken_session_file_names_the_cure(ctl):
    ctl.session.parent.mkdir()
    ctl.session.touch(mode=0o600)
    ctl.session.write_text("{")

    result = await ctl.run("nodes")

    assert (result.exit_code, "greatseal ctl login" in result.stderr) == (2, True)


async def test_logout_ends_the_session_here_and_there(ctl):
    await ctl.login()

    assert (await ctl.run("logout")).exit_code == 0

    assert not ctl.session.exists()
    assert ctl.seen[-1][0] == "logout"


# ---- What is shown


async def test_a_list_is_a_table_for_people_and_json_for_programs(ctl):
    await ctl.login()

    table = await ctl.run("clients", "list")
    before, after = await ctl.run("--json", "clients", "list"), await ctl.run("clients", "list", "--json")

    head, line = table.stdout.splitlines()
    assert head.split() == ["CLIENT", "ID", "CLIENT", "NAME", "TOKEN", "ENDPOINT", "AUTH", "METHOD", "SCOPES", "CREATED", "AT"]
    assert line.startswith("c1 ")
    assert line.endswith("2027-01-15 08:00:00Z")
    assert before.stdout == after.stdout
    assert json.loads(after.stdout)[0]["scopes"] == ["a", "b"]


async def test_s150_what_a_server_sends_cannot_drive_the_terminal(ctl):
    await ctl.login()

    for command in (["clients", "list"], ["clients", "show", "c1"], ["clients", "list", "--json"]):
        output = (await ctl.run(*command)).stdout
        assert output.isascii()
        assert output.replace("\n", "").isprintable()


async def test_an_empty_list_is_a_word_on_stderr_and_an_empty_array_in_json(ctl):
    await ctl.login()

    people, programs = await ctl.run("nodes"), await ctl.run("nodes", "--json")

    assert (people.stdout, people.stderr, people.exit_code) == ("", "no nodes\n", 0)
    assert json.loads(programs.stdout) == []


async def test_a_long_list_is_read_page_by_page(ctl):
    await ctl.login()

    result = await ctl.run("audit", "--limit", "230", "--offset", "5", "--json")

    assert [event["id"] for event in json.loads(result.stdout)] == list(range(245, 15, -1))
    assert [path for _, path, _ in ctl.seen if path.startswith("audit")] == [
        "audit?offset=5&limit=230",
        "audit?limit=100&after=146",
        "audit?limit=100&after=46",
    ]
    assert len(json.loads((await ctl.run("audit", "--limit", "2000", "--json")).stdout)) == 250
    assert len((await ctl.run("audit", "--limit", "150")).stdout.splitlines()) == 151


async def test_a_list_that_leads_in_a_circle_ends(ctl):
    await ctl.login()

    result = await ctl.run("scopes", "list")

    assert (result.exit_code, "the same again" in result.stderr) == (1, True)


async def test_a_missing_permission_is_named(ctl):
    await ctl.login()

    result = await ctl.run("keys", "list")

    assert (result.exit_code, "keys:read" in result.stderr) == (1, True)


async def test_an_answer_of_something_else_is_told(ctl):
    await ctl.login()

    result = await ctl.run("groups", "list")

    assert (result.exit_code, "--server" in result.stderr, len(result.stderr.splitlines())) == (1, True, 1)


# ---- What is sent


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


async def test_a_session_that_cannot_be_kept_is_ended_on_the_server(ctl):
    (ctl.folder / "config").touch()

    result = await ctl.run("login", "alice", "--password-file", "-", given="right\n")

    assert (result.exit_code, "cannot be written" in result.stderr) == (1, True)
    assert ctl.seen == [("logout", "", None)]


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


# ---- The way to the server


async def test_a_server_that_is_not_there_is_one_line(ctl):
    result = await ctl.run("login", "alice", "--password-file", "-", given="x\n", server="http://127.0.0.1:1")

    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "http://127.0.0.1:1 cannot be reached" in result.stderr


async def test_a_password_is_not_sent_over_plain_http_to_another_machine(ctl):
    result = await ctl.run("login", "alice", "--password-file", "-", given="x\n", server="http://id.example.org")

    assert (result.exit_code, "https://" in result.stderr) == (2, True)


@pytest.mark.parametrize("url", ["id.example.org", "ftp://x", "https://", ""])
def test_a_url_of_another_kind_is_bad_usage(url):
    with pytest.raises(CtlProblem, match="expected https") as problem:
        Server(url)
    assert problem.value.code == 2


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("https://id.example.org", True),
        ("unix:/run/x", True),
        ("http://localhost:8080", True),
        ("http://a.localhost", True),
        ("http://127.8.8.8", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example.org", False),
    ],
)
def test_loopback_tls_and_sockets_are_private(url, private):
    assert Server(url).is_private is private


async def test_a_unix_socket_is_a_server_too(start_service, tmp_path, monkeypatch):
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    await start_service(install(folder, "greatseal-desk", DESK), server={"listen": f"unix:{tmp_path}/s"})
    ctl = Ctl(f"unix:{tmp_path}/s", tmp_path, [])
    await ctl.login()

    assert (await ctl.run("clients", "list")).exit_code == 0


async def test_tls_is_verified_against_the_system_or_a_file(start_service, tmp_path, monkeypatch):
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o600)
    for blob in issued.cert_chain_pems:
        blob.write_to_path(tmp_path / "cert.pem", append=True)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    files = {"tls_cert_file": str(tmp_path / "cert.pem"), "tls_key_file": str(tmp_path / "key.pem")}
    service = await start_service(install(folder, "greatseal-desk", DESK), server=files)
    ctl = Ctl(service.url.replace("http:", "https:"), tmp_path, [])

    untrusted = await ctl.run("login", "alice", "--password-file", "-", given="right\n")
    trusted = await ctl.run("--ca-file", str(tmp_path / "ca.pem"), "login", "alice", "--password-file", "-", given="right\n")

    assert (untrusted.exit_code, "certificate verify failed" in untrusted.stderr) == (1, True)
    assert trusted.exit_code == 0, trusted.output
    assert (await ctl.run("--ca-file", str(tmp_path / "absent.pem"), "nodes")).exit_code == 2


def test_the_session_file_is_in_the_configuration_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("GREATSEAL_SESSION", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert SessionFile.default().path == tmp_path / "greatseal/session.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert SessionFile.default().path == tmp_path / "home/.config/greatseal/session.json"


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(CtlProblem, match="cannot be written"):
        SessionFile(tmp_path / "file" / "session.json").write(StoredSession(server="s", cookie="c", username="u"))


# ---- Tables


def test_a_table_is_aligned_and_its_cells_are_words():
    rows = [{"a": True, "seen_at": 0, "b": ["x", "y"], "c": None, "d": {"e": 1}}, {"a": "long text", "seen_at": None}]

    assert list(as_table(rows, ("a", "seen_at", "b", "c", "d"))) == [
        "A          SEEN AT               B     C  D",
        'yes        1970-01-01 00:00:00Z  x, y  -  {"e": 1}',
        "long text  -                     -     -  -",
    ]
    assert cell("number", 5) == "5"
    assert printable("a\nb\x1b\u202e") == "a\\nb\\x1b\\u202e"


def test_a_kid_may_begin_with_a_dash():
    from click.testing import CliRunner

    from greatseal.cli import main

    result = CliRunner().invoke(main, ["ctl", "--server", "http://localhost:1", "keys", "revoke", "-VGhkmd", "--yes"])

    assert (result.exit_code, "No such option" in result.output) == (1, False)  # not signed in: the kid was read
