"""The command line as a person or a script meets it: one line for each problem, exit codes, readiness."""

import json
import os
import pty
import re
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trustme
from rig import warm

from greatseal.db.advisory import AdvisoryHold
from greatseal.testing.service import free_port

GREATSEAL = [sys.executable, "-m", "greatseal"]
ROOT = Path(__file__).parents[2]
FEATURES = ["ca", "acme", "resolver", "http-01"]


@pytest.fixture
def config(tmp_path):
    """Writes a configuration and returns its path; keyword arguments add lines to [server]."""

    def write(port=None, enabled=FEATURES, server="", more=""):
        port = port or free_port()
        path = tmp_path / "greatseal.toml"
        path.write_text(
            f"[plugins]\nenabled = {json.dumps(enabled)}\n"
            f'[server]\nbase_url = "http://localhost:{port}"\nlisten = "127.0.0.1:{port}"\n{server}'
            f'[database]\nurl = "sqlite:///{tmp_path}/state/greatseal.db"\n{more}'
        )
        return path

    return write


def run(*arguments, cwd=None):
    return warm.run(*map(str, arguments), cwd=cwd)


def complaints(result):
    return [line for line in result.stderr.splitlines() if line.startswith("greatseal: ")]


@contextmanager
def serving(path, env=None, cwd=None):
    command = [*GREATSEAL, "serve", "-c", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=cwd)
    try:
        for line in process.stderr:
            if '"ready"' in line:
                break
        else:
            raise AssertionError("the service ended before it was ready")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def base_url(path):
    return next(line.split('"')[1] for line in path.read_text().splitlines() if line.startswith("base_url"))


def test_a_service_starts_answers_and_stops_well(config, tmp_path):
    path = config()

    with serving(path) as process, urllib.request.urlopen(base_url(path) + "/readyz") as answer:
        body = json.load(answer)
    assert process.returncode == 0
    assert body["status"] == "ready"
    assert {"database"} <= set(body["checks"])
    assert stat.S_IMODE((tmp_path / "state" / "cluster.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state" / "greatseal.db").stat().st_mode) == 0o600


@pytest.mark.timeout(300)
def test_r109_the_unit_of_the_guide_starts_on_postgresql(tmp_path, postgres_url):
    """As systemd runs it: in a folder of nobody's, with the state folder made and named."""
    (unit,) = re.findall(r"```ini\n(.*?)```", (ROOT / "docs/guide/running-a-ca.md").read_text(), re.DOTALL)
    given = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    work, state = tmp_path / "work", tmp_path / given["StateDirectory"]
    work.mkdir()
    state.mkdir(mode=int(given["StateDirectoryMode"], 8))
    path = tmp_path / "ca.toml"
    port = free_port()
    text = (ROOT / "config/ca.toml").read_text().replace("sqlite:////var/lib/greatseal/greatseal.db", postgres_url)
    path.write_text(text.replace("127.0.0.1:8080", f"127.0.0.1:{port}"))
    assert run("migrate", "-c", path, cwd=work).returncode == 0

    environment = {name: value for name, value in os.environ.items() if name != "STATE_DIRECTORY"}
    with (
        serving(path, {**environment, "STATE_DIRECTORY": str(state)}, work),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer,
    ):
        body = json.load(answer)

    assert body["status"] == "ready"
    assert {"cluster.key", "ca"} <= {one.name for one in state.iterdir()}
    assert list(work.iterdir()) == []


def test_a_port_in_use_is_one_line_and_exit_code_2(config):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("serve", "-c", config(port=port))

    assert result.returncode == 2
    (line,) = complaints(result)
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line
    assert "Traceback" not in result.stderr


def test_a_newer_schema_is_one_line_and_exit_code_2(config, tmp_path):
    path = config()
    assert run("migrate", "-c", path).returncode == 0
    with sqlite3.connect(tmp_path / "state" / "greatseal.db") as store:
        (name,) = store.execute("SELECT name FROM sqlite_master WHERE name LIKE '%acme%version%'").fetchone()
        store.execute(f"UPDATE \"{name}\" SET version_num = 'zz_from_the_future'")
    store.close()

    result = run("serve", "-c", path)

    assert result.returncode == 2
    (line,) = complaints(result)
    assert "newer" in line
    assert "acme" in line


def test_a_cluster_key_that_all_can_read_is_one_line_and_exit_code_2(config, tmp_path):
    path = config()
    with serving(path):
        pass
    (tmp_path / "state" / "cluster.key").chmod(0o644)

    result = run("serve", "-c", path)

    assert result.returncode == 2
    (line,) = complaints(result)
    assert "cluster.key" in line
    assert "chmod 600" in line


def test_a_second_migrate_has_nothing_to_do(config):
    path = config()

    first, second = run("migrate", "-c", path), run("migrate", "-c", path)

    assert (first.returncode, second.returncode) == (0, 0)
    assert "up to date" not in first.stdout
    assert second.stdout == "the schema is up to date\n"


def test_beside_a_service_nobody_else_writes_and_whoever_reads_may(config, tmp_path):
    path = config()
    with serving(path) as process, ThreadPoolExecutor() as threads:
        before = rows(tmp_path)
        second, migration = threads.map(lambda command: run(command, "-c", path), ("serve", "migrate"))
        doctor, checked, listed = run("doctor", "-c", path), run("check-config", "-c", path), run("plugins", "-c", path)
        assert rows(tmp_path) == before

    assert (second.returncode, migration.returncode) == (2, 2)
    for refused in (second, migration):
        (line,) = complaints(refused)
        assert f"process {process.pid} on " in line
        assert f"{tmp_path}/state/greatseal.db" in line
        assert "stop the service first" in line
    assert "ok   database" in doctor.stdout
    assert (checked.returncode, listed.returncode) == (0, 0)
    assert process.returncode == 0


def test_keys_are_blocked_by_command_and_no_service_is_beside_it(config, tmp_path):
    path, name = config(), "ab" * 32
    account = tmp_path / "jwk.json"
    account.write_text('{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}')  # RFC 8037 A.2
    first, again = (run("keys", "block", name, "--reason", "keyCompromise", "-c", path) for _ in range(2))
    second = run("keys", "block", account, "--reason", "stolen laptop", "-c", path)

    with serving(path):
        listed, refused = run("keys", "blocked", "-c", path), run("keys", "unblock", name, "-c", path)
    taken_out, absent = (run("keys", "unblock", name, "-c", path) for _ in range(2))
    wrong = [
        run("keys", "block", given, "--reason", reason, "-c", path) for given, reason in (("absent", "x"), (name, " "), (name, "a\nb"))
    ]

    assert [one.stdout for one in (first, again)] == [f"{name} is blocked\n", f"{name} was blocked before\n"]
    lines = sorted(line.split("  ", 3)[0] + " " + line.split("  ", 3)[3] for line in listed.stdout.splitlines())
    assert lines == sorted([f"{name} keyCompromise", f"{second.stdout.split()[0]} stolen laptop"])
    assert refused.returncode == 2
    assert "stop the service first" in complaints(refused)[0]
    assert [one.stdout for one in (taken_out, absent)] == [f"{name} may be used again\n", f"{name} is not blocked\n"]
    assert [(one.returncode, len(complaints(one))) for one in wrong] == [(2, 1)] * 3
    with closing(sqlite3.connect(tmp_path / "state" / "greatseal.db")) as store:
        events = [event for (event,) in store.execute("SELECT event_type FROM core_audit WHERE service = 'core' ORDER BY id")]
    assert events == ["key.block", "key.block", "key.unblock"]


def rows(folder):
    with closing(sqlite3.connect(folder / "state" / "greatseal.db")) as store:
        return list(store.iterdump())


@pytest.mark.parametrize(
    "command",
    [("migrate",), ("keys", "blocked"), ("keys", "unblock", "00" * 32), ("keys", "block", "00" * 32, "--reason", "lost"), ("ca", "show")],
)
def test_what_keeps_the_service_from_starting_is_told_by_every_command_that_opens_the_store(config, tmp_path, command):
    """check-config refuses it; the command may be the cure, or urgent, and goes on."""
    assert run("migrate", "-c", config()).returncode == 0
    path = config(server=f'tls_cert_file = "{tmp_path}/none.pem"\ntls_key_file = "{tmp_path}/none.key"\n')
    refused = run("check-config", "-c", path)
    wrong = [line.removeprefix("greatseal: ") for line in complaints(refused)]

    done = run(*command, "-c", path)

    assert (refused.returncode, bool(wrong), done.returncode) == (2, True, 0), done.stderr
    assert complaints(done) == [f"greatseal: the service would not start: {line}" for line in wrong]


def test_a_service_that_lost_its_database_to_another_process_ends_with_one_line(config, postgres_url):
    path = config()
    path.write_text(
        path.read_text().replace(f'url = "sqlite:///{path.parent}/state/greatseal.db"', f'url = "{postgres_url}"\nmigrate = "auto"')
    )
    with serving(path) as process:
        other = AdvisoryHold(postgres_url)
        other.mark()
        number, _ = other._session()
        other._connection.execute("SELECT pg_terminate_backend(%s)", [number])
        other.close()
        process.wait(30)
        said = process.stderr.read()

    assert process.returncode == 1
    (line,) = [one for one in said.splitlines() if one.startswith("greatseal: ")]
    assert "another process wrote to the database" in line
    assert "Traceback" not in said


def test_a_crash_leaves_no_image_of_the_memory(config, tmp_path):
    path = config()
    # The shell allows what the service then forbids.
    command = f"ulimit -c unlimited; exec {sys.executable} -m greatseal serve -c {path}"
    with subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        for line in process.stderr:
            if '"ready"' in line:
                break
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        os.kill(process.pid, signal.SIGSEGV)
        _, status = os.waitpid(process.pid, 0)

    assert os.WTERMSIG(status) == signal.SIGSEGV
    assert not os.WCOREDUMP(status)
    assert not list(tmp_path.glob("core*"))
    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)


def issue(authority, folder):
    """A new certificate in the files that the service shows."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "tls.key")
    (folder / "tls.key").chmod(0o600)
    (folder / "tls.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    return issued.cert_chain_pems[0].bytes().decode()


def said(process, event):
    """The next log line of that event."""
    return next(line for line in map(json.loads, process.stderr) if line["event"] == event)


def test_a_hang_up_signal_reads_the_tls_files_again(config, tmp_path):
    authority, port = trustme.CA(), free_port()
    path = config(port=port, server=f'tls_cert_file = "{tmp_path}/tls.pem"\ntls_key_file = "{tmp_path}/tls.key"\n')
    path.write_text(path.read_text().replace("http://", "https://"))
    first = issue(authority, tmp_path)
    with serving(path) as process:
        assert ssl.get_server_certificate(("127.0.0.1", port)) == first

        second = issue(authority, tmp_path)
        process.send_signal(signal.SIGHUP)
        assert said(process, "the TLS files were read again")["listener"] == "main"
        assert ssl.get_server_certificate(("127.0.0.1", port)) == second

        (tmp_path / "tls.key").write_text("nothing")
        process.send_signal(signal.SIGHUP)
        assert "tls.key" in said(process, "the TLS files are wrong; those of before stay in use")["reason"]
        assert ssl.get_server_certificate(("127.0.0.1", port)) == second
    assert process.returncode == 0


def test_a_hang_up_signal_ends_nothing_where_there_are_no_tls_files(config):
    path = config()
    with serving(path) as process:
        process.send_signal(signal.SIGHUP)
        said(process, "there are no TLS files to read again")
        with urllib.request.urlopen(base_url(path) + "/readyz") as answer:
            assert answer.status == 200
    assert process.returncode == 0


def test_a_service_outlives_the_reader_of_its_greeting_and_ends_with_its_terminal(config):
    ours, theirs = pty.openpty()
    reader, greeting = os.pipe()
    os.close(reader)
    # The first terminal that a new session opens is its own.
    command = ["setsid", "--ctty", *GREATSEAL, "serve", "-c", str(config())]
    with subprocess.Popen(command, stdin=theirs, stdout=greeting, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        os.close(greeting)
        said(process, "ready")
        os.close(ours)
        log = process.stderr.read().splitlines()

    assert process.returncode == 0
    assert json.loads(log[-1])["event"] == "stopped"


MISTAKEN = """
[plugins]
enabled = ["ca", "acme", "resolver", "idp", "users-file", "htp-01", "pkcs11"]
sets = ["cas"]

[server]
base_url = "https://id.example.org/"
listen = "8080"
tls_cert_file = "{folder}/absent.pem"
tls_key_file = "{folder}/tls.key"
trusted_proxies = ["10.0.0.0/99"]
auth_rate_limit = "many"
lisen = "127.0.0.1:8080"
tls = "self"
state_dir = "{folder}/file/state"
gssapi = {{ keytab_file = "x" }}

[database]
url = "mysql://x"

[databse]

[oauth]
allow_private_jwks_hosts = true

[pkcs11]
module = "/usr/lib/softhsm.so"

[cluster]
node_id = "UPPER"

[users]
file = "{folder}/users.toml"

[[rbac.role]]
name = "administrator"
permissions = ["client:read"]

[[rbac.role]]
name = "operator"
permission = ["*"]

[ca]
key_type = "dsa"
key_file = "{folder}/ca.key"
cert_file = "{folder}/ca.pem"

[profiles.web]
issue_as = "mtc"

[profiles.long]
validity_days = 36500
"""
FOUND = [
    "[plugins] sets: 'cas' is not an installed bundle; did you mean 'ca'? If not, install greatseal-bundle-cas",
    "[plugins] enabled: 'htp-01' is not installed; did you mean 'http-01'? If not, install greatseal-htp-01",
    "[plugins] enabled: 'pkcs11' is planned, not built yet",
    "[server] lisen: unknown key; did you mean 'listen'?",
    "[server] tls: planned, not built yet; leave it out",
    "[server] gssapi: unknown key; write [gssapi]",
    "[databse]: unknown section; did you mean 'database'?",
    "[pkcs11]: planned, not built yet (plugin 'pkcs11'); leave it out",
    "[[rbac.role]] #2 permission: unknown key; did you mean 'permissions'?",
    "[server] auth_rate_limit: expected an integer, got a string",
    "[ca] key_type: 'dsa' is none of ec:P-256",
    "[server] base_url: 'https://id.example.org/': expected no query",
    "[cluster] node_id: 'UPPER': expected",
    "[database] url begins with 'mysql'",
    "[server] listen = '8080': expected host:port",
    "[server] {folder}/absent.pem: the TLS file cannot be read",
    "[server] {folder}/tls.key: others than its owner may read or change the TLS key",
    "[server] trusted_proxies: ",
    "[users] file: {folder}/users.toml: ",
    "[[rbac.role]] 'administrator': permissions: no enabled plugin knows 'client:read'; did you mean 'clients:read'?",
    "[ca] default: {folder}/ca.pem is there without {folder}/ca.key",
    "[profiles.web] issue_as: no enabled plugin issues 'mtc'",
    "[profiles.long] validity_days: 36500 days are more than the 3650 that CA 'default' lives",
    "plugin 'acme' has no ChallengeValidator to work with; enable one, for example http-01",
    "{folder}/file/state: the state folder cannot be used: {folder}/file is no folder; see [server] state_dir",
]


def test_every_kind_of_mistake_is_in_one_report_which_a_start_gives_too(tmp_path):
    path = tmp_path / "greatseal.toml"
    path.write_text(MISTAKEN.format(folder=tmp_path))
    for name, mode in (("file", 0o600), ("tls.key", 0o644), ("ca.pem", 0o600)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "users.toml").write_text("[[user]\n")
    before = sorted(tmp_path.iterdir())

    checked, served = run("check-config", "-c", path), run("serve", "-c", path)

    assert (checked.returncode, served.returncode) == (2, 2)
    assert complaints(checked) == complaints(served)
    told = [line.removeprefix("greatseal: ") for line in complaints(checked)]
    wanted = [one.format(folder=tmp_path) for one in FOUND]
    assert [one for one in wanted if not any(line.startswith(one) for line in told)] == []
    assert [line for line in told if not any(line.startswith(one) for one in wanted)] == []
    assert sorted(tmp_path.iterdir()) == before


def test_check_config_changes_nothing(config, tmp_path):
    result = run("check-config", "-c", config())

    assert result.returncode == 0
    assert "plugins: " in result.stdout
    assert not (tmp_path / "state").exists()


def test_r34_check_config_and_doctor_say_what_is_right_and_not_all_that_is_wanted(config, tmp_path):
    users = f'file = "{tmp_path}/users.toml"\n'
    path = config(enabled=["idp", "resolver", "users-file", "client-auth-mtls", "fapi"], more=f"[users]\n{users}[tokens]\ncode_ttl = 300\n")

    checked, doctor = run("check-config", "-c", path), run("doctor", "-c", path)

    assert checked.returncode == 0, checked.stderr
    notes = [line.removeprefix("note: ") for line in checked.stdout.splitlines() if line.startswith("note: ")]
    assert any(note.startswith("no client can use a certificate, for none arrives: ") for note in notes), notes
    assert "FAPI 2.0: no client can have a profile: [tokens] code_ttl is 300; 60 is the most (s5.3.2.1)" in notes
    assert set(notes) <= {line.removeprefix("note: ") for line in doctor.stdout.splitlines()}, doctor.stderr


def test_plugins_lists_what_is_installed_and_what_is_enabled(config):
    installed, enabled = run("plugins"), run("plugins", "-c", config())

    assert {"ca", "acme", "http-01", "resolver"} <= {line.split()[0] for line in installed.stdout.splitlines()}
    assert "job acme-" in enabled.stdout
    assert any(line.startswith("http-01") and "challenge_validators" in line for line in enabled.stdout.splitlines())


def test_without_http_01_the_type_is_gone_and_nothing_else(config):
    path = config(enabled=["ca", "acme", "resolver", "finger-01"])

    with serving(path), urllib.request.urlopen(base_url(path) + "/acme/directory") as answer:
        directory = json.load(answer)

    assert {"newNonce", "newAccount", "newOrder"} <= set(directory)
    assert "http-01" not in run("plugins", "-c", path).stdout


def test_doctor_says_what_is_well_and_what_is_not(config):
    good = run("doctor", "-c", config())
    bad = run("doctor", "-c", config(server='dns_resolver_addr = "nowhere"\n'))

    assert "ok   database" in good.stdout
    assert bad.returncode == 2
    assert "[server] dns_resolver_addr" in bad.stderr


def test_a_missing_file_and_bad_usage_are_exit_code_2(tmp_path):
    missing, usage = run("serve", "-c", tmp_path / "none.toml"), run("serve")

    assert (missing.returncode, usage.returncode) == (2, 2)
    assert "no such configuration file" in complaints(missing)[0]


def test_logs_are_json_lines_without_a_terminal(config):
    path = config()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*GREATSEAL, "serve", "-c", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    first = process.stderr.readline()
    while '"ready"' not in first:
        json.loads(first)
        first = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=30)

    assert [json.loads(line) for line in rest.splitlines()][-1]["event"] == "stopped"
