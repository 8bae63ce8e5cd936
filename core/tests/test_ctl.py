"""``greatseal ctl`` against a service whose admin API is that of a small plugin: sessions, tables, JSON, refusals, exit codes."""

import json
import stat
import subprocess
import sys

import msgspec
import pytest

from greatseal.ctl.client import CtlProblem, Server, SessionFile, StoredSession
from greatseal.ctl.tables import as_table, cell, printable
from greatseal.testing.ctl import Ctl, quiet
from greatseal.testing.distributions import install

DESK = """
import click

from greatseal import hookimpl
from greatseal.api.http import Reply
from greatseal.api.problems import Forbidden
from greatseal.ctl.base import YES, command, confirm
from greatseal.testing.ctl import AdminDesk

EVENTS = [{"id": number, "event_type": "logout", "sub": f"user{number}", "created_at": 1_800_000_000} for number in range(250, 0, -1)]
CLIENT = {"client_id": "c1", "client_name": "A\\u001b[31mB\\u202eC", "scopes": ["a", "b"], "jwks_uri": None, "created_at": 1_800_000_000}


@click.group()
def things():
    pass


@command(things, "list")
def list_things(admin):
    columns = ("client_id", "client_name", "token_endpoint_auth_method", "scopes", "created_at")
    admin.output.rows(admin.listed("clients"), columns, "no things")


@command(things, "show")
@click.argument("name")
def show_thing(admin, name):
    admin.output.record(admin.ask("GET", "clients", name))


@command(things, "drop")
@click.argument("name")
@YES
def drop_thing(admin, name, yes):
    confirm(f"Drop {name}?", yes)
    admin.ask("DELETE", "things", name)
    admin.output.done(f"{name} is dropped")


def lists(name, path):
    @command(None, name)
    @click.option("--limit", type=click.IntRange(min=1))
    @click.option("--offset", type=int)
    def listed(admin, limit, offset):
        admin.output.rows(admin.listed(path, limit, offset=offset), ("id", "name"), f"no {name}")

    return listed


class Plugin(AdminDesk):
    async def answer(self, call, path, body):
        if path == "audit":  # at most 100 at once, the next ones by their key
            query = {name: int(value) for name, value in call.query.items()}
            limit, offset, after = min(query["limit"], 100), query.get("offset", 0), query.get("after", 1000)
            rest = [event for event in EVENTS if event["id"] < after][offset:]
            page = Reply.json(rest[:limit])
            link = f'<https://elsewhere.example/other?limit={limit}&after={rest[limit - 1]["id"]}>; rel="next"' if len(rest) > limit else ""
            return page.with_headers(("Link", '<https://x.example/?a=1>; rel="prev"'), ("Link", link)) if link else page
        if path == "scopes" and call.method == "GET":  # a server that leads in a circle
            return Reply.json([{"name": "a"}]).with_headers(("Link", '</?after=a>; rel="next"'))
        if path.startswith("keys"):
            raise Forbidden("no role of yours grants this", members={"required_permission": "keys:read"})
        if path == "nodes":
            return Reply.json([])
        if path == "groups":
            return Reply(status=200, body=b"<html>", content_type="text/html")
        if call.method == "DELETE":
            return Reply.empty()
        if path == "clients" and call.method == "GET":
            return Reply.json([CLIENT])
        return Reply.json({**CLIENT, **(body or {})})

    @hookimpl
    def ctl(self):
        pairs = {"places": "nodes", "events": "audit", "circle": "scopes", "secrets": "keys", "page": "groups"}
        return [things, *(lists(name, path) for name, path in pairs.items())]
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return install(folder, "greatseal-desk", DESK)


@pytest.fixture
async def ctl(start_service, tmp_path, desk):
    with quiet():
        service = await start_service(desk)
        yield Ctl(service.url, tmp_path, service.kernel.hooks.instances["desk"].seen)


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


async def test_login_asks_for_a_one_time_code_where_one_is_needed(ctl):
    good = await ctl.run("login", "carol", "--password-file", "-", given="right\n123456\n")
    wrong = await ctl.run("login", "carol", "--password-file", "-", given="right\n000000\n")

    assert (good.exit_code, good.stdout) == (0, f"signed in to {ctl.url} as carol@X\n")
    assert (wrong.exit_code, wrong.stderr.endswith("the code is wrong (unauthenticated); sign in with: greatseal ctl login\n")) == (1, True)


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
    for command in (["places"], ["things", "list"], ["whoami"], ["logout"]):
        result = await ctl.run(*command)
        cure = f"sign in with: greatseal ctl --server {ctl.url} login"
        assert (result.exit_code, result.stderr) == (1, f"greatseal: not signed in to {ctl.url}; {cure}\n")


async def test_the_cookie_goes_to_the_server_that_gave_it_alone(ctl):
    await ctl.login()

    result = await ctl.run("things", "list", server="http://127.0.0.1:1")

    assert (result.exit_code, "not signed in to http://127.0.0.1:1" in result.stderr) == (1, True)


async def test_the_server_is_remembered_from_the_login(ctl):
    await ctl.login()

    assert (await ctl.run("things", "list", server="", GREATSEAL_SERVER="")).exit_code == 0


async def test_a_session_that_ended_on_the_server_says_so(ctl):
    await ctl.login()
    stored = json.loads(ctl.session.read_text())
    SessionFile(ctl.session).write(msgspec.convert({**stored, "cookie": "__Host-greatseal_session=old"}, StoredSession))

    result = await ctl.run("places")

    assert (result.exit_code, result.stderr.endswith("sign in with: greatseal ctl login\n")) == (1, True)


async def test_a_session_file_that_others_can_read_is_not_used(ctl):
    await ctl.login()
    ctl.session.chmod(0o640)

    result = await ctl.run("places")

    assert (result.exit_code, f"chmod 600 {ctl.session}" in result.stderr) == (2, True)


async def test_a_broken_session_file_names_the_cure(ctl):
    ctl.session.parent.mkdir()
    ctl.session.touch(mode=0o600)
    ctl.session.write_text("{")

    result = await ctl.run("places")

    assert (result.exit_code, "greatseal ctl login" in result.stderr) == (2, True)


async def test_logout_ends_the_session_here_and_there(ctl):
    await ctl.login()

    assert (await ctl.run("logout")).exit_code == 0

    assert not ctl.session.exists()
    assert ctl.seen[-1][0] == "logout"


# ---- What is shown


async def test_a_list_is_a_table_for_people_and_json_for_programs(ctl):
    await ctl.login()

    table = await ctl.run("things", "list")
    before, after = await ctl.run("--json", "things", "list"), await ctl.run("things", "list", "--json")

    head, line = table.stdout.splitlines()
    assert head.split() == ["CLIENT", "ID", "CLIENT", "NAME", "TOKEN", "ENDPOINT", "AUTH", "METHOD", "SCOPES", "CREATED", "AT"]
    assert line.startswith("c1 ")
    assert line.endswith("2027-01-15 08:00:00Z")
    assert before.stdout == after.stdout
    assert json.loads(after.stdout)[0]["scopes"] == ["a", "b"]


async def test_s150_what_a_server_sends_cannot_drive_the_terminal(ctl):
    await ctl.login()

    for command in (["things", "list"], ["things", "show", "c1"], ["things", "list", "--json"]):
        output = (await ctl.run(*command)).stdout
        assert output.isascii()
        assert output.replace("\n", "").isprintable()


async def test_an_empty_list_is_a_word_on_stderr_and_an_empty_array_in_json(ctl):
    await ctl.login()

    people, programs = await ctl.run("places"), await ctl.run("places", "--json")

    assert (people.stdout, people.stderr, people.exit_code) == ("", "no places\n", 0)
    assert json.loads(programs.stdout) == []


async def test_a_long_list_is_read_page_by_page(ctl):
    await ctl.login()

    result = await ctl.run("events", "--limit", "230", "--offset", "5", "--json")

    assert [event["id"] for event in json.loads(result.stdout)] == list(range(245, 15, -1))
    assert [path for _, path, _ in ctl.seen if path.startswith("audit")] == [
        "audit?offset=5&limit=230",
        "audit?limit=100&after=146",
        "audit?limit=100&after=46",
    ]
    assert len(json.loads((await ctl.run("events", "--limit", "2000", "--json")).stdout)) == 250
    assert len((await ctl.run("events", "--limit", "150")).stdout.splitlines()) == 151


@pytest.mark.parametrize(("what", "words"), [("circle", "the same again"), ("secrets", "keys:read"), ("page", "--server")])
async def test_an_answer_that_is_no_good_is_one_line(ctl, what, words):
    await ctl.login()

    result = await ctl.run(what)

    assert (result.exit_code, words in result.stderr, len(result.stderr.splitlines())) == (1, True, 1)


async def test_a_session_that_cannot_be_kept_is_ended_on_the_server(ctl):
    (ctl.folder / "config").touch()

    result = await ctl.run("login", "alice", "--password-file", "-", given="right\n")

    assert (result.exit_code, "cannot be written" in result.stderr) == (1, True)
    assert ctl.seen == [("logout", "", None)]


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


async def test_a_unix_socket_is_a_server_too(start_service, tmp_path, desk):
    await start_service(desk, server={"listen": f"unix:{tmp_path}/s"})
    ctl = Ctl(f"unix:{tmp_path}/s", tmp_path, [])
    await ctl.login()

    assert (await ctl.run("things", "list")).exit_code == 0


async def test_tls_is_verified_against_the_system_or_a_file(start_service, tmp_path, desk):
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o600)
    for blob in issued.cert_chain_pems:
        blob.write_to_path(tmp_path / "cert.pem", append=True)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    files = {"tls_cert_file": str(tmp_path / "cert.pem"), "tls_key_file": str(tmp_path / "key.pem")}
    service = await start_service(desk, server=files)
    ctl = Ctl(service.url.replace("http:", "https:"), tmp_path, [])

    untrusted = await ctl.run("login", "alice", "--password-file", "-", given="right\n")
    trusted = await ctl.run("--ca-file", str(tmp_path / "ca.pem"), "login", "alice", "--password-file", "-", given="right\n")

    assert (untrusted.exit_code, "certificate verify failed" in untrusted.stderr) == (1, True)
    assert trusted.exit_code == 0, trusted.output
    assert (await ctl.run("--ca-file", str(tmp_path / "absent.pem"), "places")).exit_code == 2


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
    assert cell("not_after", 5) == cell("not_before", 5) == cell("last_seen", 5) == cell("used_at", 5) == "1970-01-01 00:00:05Z"
    assert printable("a\nb\x1b\u202e") == "a\\nb\\x1b\\u202e"


# ---- Commands of plugins


async def test_a_deletion_by_a_program_asks_nothing(ctl):
    await ctl.login()

    result = await ctl.run("things", "drop", "a ?#%")

    assert (result.exit_code, result.stdout, ctl.seen[-1]) == (0, "a ?#% is dropped\n", ("DELETE", "things/a%20%3F%23%25", None))


async def test_an_unknown_command_or_option_is_exit_code_2(ctl):
    for command in (["frobnicate"], ["things", "list", "--frobnicate"], ["events", "--limit", "0"], ["things", "show"]):
        assert (await ctl.run(*command)).exit_code == 2


OTHER = "plugin 'other' of third-other 1.0"
TWICE = f"the command 'things' comes from plugin 'desk' and from {OTHER}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise LookupError('no luck')", f"{OTHER}: hook ctl failed: LookupError: no luck"),
        ("return ['text']", f"{OTHER}: hook ctl returned str, which is no click.Command with a name"),
        ("import click; return [click.Group('things')]", f"{TWICE}; the first one is used, uninstall or rename the other"),
        ("import click; return [click.Group('login')]", f"{OTHER}: the command 'login' is greatseal's own; rename it"),
    ],
)
async def test_a_plugin_whose_commands_are_wrong_is_named_and_the_others_work(ctl, body, words):
    code = f"from greatseal import hookimpl\n\nclass Plugin:\n    @hookimpl\n    def ctl(self):\n        {body}\n"
    install(ctl.folder / "installed", "third-other", code, feature="other")
    await ctl.login()

    result = await ctl.run("things", "list")

    assert (result.exit_code, result.stderr) == (0, f"greatseal: {words}\n")
    assert result.stdout.startswith("CLIENT ID")


def test_the_commands_of_the_session_import_no_plugin(tmp_path):
    code = "from greatseal.cli import main; import sys; main(['ctl', 'logout'], standalone_mode=False)"
    watched = f"try:\n    {code}\nexcept SystemExit:\n    print([name for name in sys.modules if name.startswith('greatseal_')])"

    said = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)})

    assert said.stdout == "[]\n"
