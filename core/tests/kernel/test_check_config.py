"""What ``check-config`` says: assembling a kernel reports whatever a start would refuse, and touches nothing."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from greatseal.api.problems import StartProblem
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.settings import Server
from greatseal.kernel.urls import base_and_issuer
from greatseal.testing.distributions import install

POSTGRESQL = "postgresql:///x"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working folder that stays empty."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    yield work
    assert list(work.iterdir()) == []


def report(server=None, **sections):
    whole = {"base_url": "http://localhost:8080", **(server or {})}
    with pytest.raises(StartProblem) as caught:
        Kernel({"server": whole, **sections})
    return list(caught.value.messages)


def test_a_right_configuration_has_no_problem_and_makes_nothing():
    kernel = Kernel({"server": {"base_url": "https://id.example.org"}})

    assert [one.address for one in kernel.listeners] == ["127.0.0.1:8080"]


@pytest.mark.parametrize(
    "url",
    [
        "mysql://x",
        "sqlite://var/x.db",
        "sqlite:///:memory:",
        "sqlite:///",
        "sqlite:////",
        "sqlite:///a\0b",
        "var/x.db",
        "postgresql://h?nonsense=1",
        "postgresql://[::1/x",
    ],
)
def test_a_database_that_cannot_be_is_a_problem(url):
    (problem,) = report(database={"url": url})

    assert problem.startswith("[database] url ")


@pytest.mark.parametrize("url", ["sqlite:///var/x.db", "sqlite:////tmp/nowhere/x.db", "postgresql:///x", "postgres://u:p@h:5432,i/x"])
def test_a_database_that_may_be_is_none_and_is_not_looked_for(url):
    assert Kernel({"server": {"base_url": "http://localhost"}, "database": {"url": url}}).database.url == url


ADDRESSES = ["unix:rel", "unix:", f"unix:/{'a' * 107}", "unix:/a\0", "1.2.3.4.5:1", "256.1.1.1:1", "0x7f:1", "[127.0.0.1]:1", "[::1:1"]


@pytest.mark.parametrize("address", [*ADDRESSES, "::1:1", "a b:1", "h:65536", "h:", f"{'a' * 64}:1", "-a:1", "h\n:1"])
def test_an_address_that_cannot_be_listened_on_is_a_problem(address):
    assert [problem.partition(" = ")[0] for problem in report({"listen": address}, admin={"listen": address})] == [
        f"[admin] listen: {address!r} is the address of [server] listen; choose another",
        "[server] listen",
        "[admin] listen",
    ]


@pytest.mark.parametrize("address", ["unix:/run/x.sock", "127.0.0.1:0", ":80", "0.0.0.0:443", "[::]:443", "localhost:1", "web_1.lan:8"])
def test_an_address_of_any_other_kind_is_none(address):
    Kernel({"server": {"base_url": "http://localhost", "listen": address}})


def test_tls_files_are_read_as_a_start_would(tmp_path):
    cert = tmp_path / "cert.pem"
    cert.write_text("no certificate")

    assert report({"tls_cert_file": str(cert)}) == ["[server] tls_cert_file and tls_key_file: give both or none"]
    assert report({"tls_cert_file": "/nowhere/cert.pem", "tls_key_file": "/nowhere/key.pem"}) == [
        f"[server] /nowhere/{name}.pem: the TLS file cannot be read: No such file or directory" for name in ("cert", "key")
    ]
    cert.chmod(0o600)
    (broken,) = report(admin={"listen": "127.0.0.1:1", "tls_cert_file": str(cert), "tls_key_file": str(cert)})
    assert broken.startswith("[admin] ")
    assert "no certificate chain" in broken
    assert report({"tls_cert_file": 3, "tls_key_file": str(cert)}) == ["[server] tls_cert_file: expected a path, got an integer"]


def test_who_does_not_serve_needs_no_files_of_the_service(tmp_path):
    server = {"base_url": "https://a.example", "tls_cert_file": "/nowhere/cert.pem", "tls_key_file": "/nowhere/key.pem"}
    (tmp_path / "cluster.key").write_text("no key")

    assert Kernel({"server": {**server, "state_dir": str(tmp_path)}}, serving=False).state_dir == tmp_path
    assert Kernel({"server": server, "database": {"url": POSTGRESQL}}, serving=False).base_url == "https://a.example"


@pytest.fixture
def tls(tmp_path):
    """Makes a certificate with its key that ends at a moment; returns the keys of the section."""

    def make(name, ends):
        issued = trustme.CA().issue_cert("localhost", not_after=ends)
        cert, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(cert)
        key.chmod(0o600)
        return {"tls_cert_file": str(cert), "tls_key_file": str(key)}

    return make


def test_tls_files_that_no_client_would_take_are_told(tls):
    now = datetime.now(UTC)
    right, ended = tls("right", now + timedelta(days=1)), tls("ended", now - timedelta(days=1))
    other = {**ended, "tls_key_file": right["tls_key_file"]}

    assert Kernel({"server": {"base_url": "http://localhost", **right}}).listeners[0].tls is not None
    expired = f"[server] {ended['tls_cert_file']}: the TLS certificate expired on {now - timedelta(days=1):%Y-%m-%d}; renew it"
    assert report(ended) == [expired]
    mismatch, also = report(other)
    assert "no certificate chain with its unencrypted key: KEY_VALUES_MISMATCH" in mismatch
    assert also == expired
    Path(right["tls_key_file"]).chmod(0o644)
    absent, too_open = report({**right, "tls_cert_file": "/nowhere/cert.pem"})
    assert "cannot be read" in absent
    assert "run chmod 0600" in too_open


@pytest.mark.parametrize("size", [-1, 0, 10, 16_383, 16_777_217])
def test_a_body_size_that_acme_cannot_live_with_is_a_problem(size):
    (problem,) = report({"max_body_bytes": size})

    assert problem.startswith("[server] max_body_bytes: expected an integer ")
    assert problem.endswith(f", found {size}")


@pytest.mark.parametrize(
    "url",
    [
        "https://a b",
        "https://h?",
        "https://h#",
        'https://h/a"b>',
        "https://h/a/../b",
        "https://h/.",
        "https://h/a//b",
        "https://h/%61",
        "https://h:",
        "https://h:0",
        "https://h:65536",
        "https://h:080",
        "https://",
        "https:/h",
        "https:///a",
        "https://h.",
        "https://h..a",
        "https://1.2.3",
        "https://[1::2::3]",
        "https://::1",
        "https://h\\a",
        "https://h\n",
        "https://h/a\n",
        "https://-h",
        "HTTPS://h",
        "https://u:p@h",
        "http://[::2]",
    ],
)
def test_a_base_url_has_one_right_spelling(url):
    for key in ("base_url", "issuer"):
        _, _, problems = base_and_issuer(Server(**{key: url}))

        assert len(problems) == 1
        assert problems[0].startswith(f"[server] {key}: {url!r}")


def test_a_mistake_elsewhere_does_not_hide_what_is_given():
    assert report({"trusted_proxies": "127.0.0.1"}) == ["[server] trusted_proxies: expected a list, got a string"]
    assert report({"base_url": 3}) == ["[server] base_url: expected a string, got an integer"]
    assert len(report({"base_url": 3, "issuer": "https://a b"})) == 2
    assert report({"base_url": 3, "issuer": 4, "listen": 5}) == [
        "[server] issuer: expected a string, got an integer",
        "[server] base_url: expected a string, got an integer",
        "[server] listen: expected a string, got an integer",
    ]


# ---- The state folder


@pytest.mark.parametrize(
    ("server", "database", "systemd", "folder"),
    [
        ({}, "sqlite:////tmp/of/x.db", "/var/lib/g", "/tmp/of"),
        ({}, "sqlite:///x.db", "", "."),
        ({"state_dir": "/tmp/mine"}, "sqlite:////tmp/of/x.db", "/var/lib/g", "/tmp/mine"),
        ({"state_dir": "/tmp/mine"}, POSTGRESQL, "/var/lib/g", "/tmp/mine"),
        ({}, POSTGRESQL, "/tmp/g", "/tmp/g"),
        ({}, POSTGRESQL, "/tmp/g:/tmp/h", "/tmp/g"),
        ({"base_url": "http://localhost:1"}, POSTGRESQL, "", "var"),
        ({"base_url": "http://[::1]:1"}, POSTGRESQL, "", "var"),
    ],
)
def test_r109_the_state_folder(server, database, systemd, folder, monkeypatch):
    monkeypatch.setenv("STATE_DIRECTORY", systemd)

    kernel = Kernel({"server": {"base_url": "https://id.example.org", **server}, "database": {"url": database}})

    assert kernel.state_dir == Path(folder)


def test_r109_a_service_for_others_does_not_keep_its_keys_where_it_was_started(monkeypatch):
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)

    (problem,) = report({"base_url": "https://id.example.org"}, database={"url": POSTGRESQL})

    assert problem.startswith("[server] state_dir: must be given with PostgreSQL; for example state_dir = ")
    assert report({"base_url": "https://id.example.org", "state_dir": 3}, database={"url": POSTGRESQL}) == [
        "[server] state_dir: expected a path, got an integer"
    ]


def test_folders_that_cannot_be_made_are_told_and_none_is_made(tmp_path):
    (tmp_path / "file").touch()
    inside, beside = tmp_path / "file" / "deep" / "x", tmp_path / "new" / "x"

    assert report(database={"url": f"sqlite:///{inside}"}) == [
        f"{inside.parent}: the state folder cannot be used: {tmp_path}/file is no folder; see [server] state_dir"
    ]
    assert report({"state_dir": str(beside)}, database={"url": f"sqlite:///{inside}"}) == [
        f"[database] url: no database can be made in {inside.parent}: {tmp_path}/file is no folder"
    ]
    assert Kernel({"server": {"base_url": "http://localhost", "state_dir": str(beside)}}).state_dir == beside
    assert not beside.parent.exists()


def test_a_folder_of_somebody_else_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode, **_: path != tmp_path)  # root may write everywhere

    assert report({"state_dir": str(tmp_path / "state")}) == [
        f"{tmp_path}/state: the state folder cannot be used: {tmp_path} cannot be written by this user; see [server] state_dir"
    ]


def test_a_state_folder_that_everybody_can_write_is_told(tmp_path):
    tmp_path.chmod(0o777)

    assert report({"state_dir": str(tmp_path)}) == [f"{tmp_path}: the state folder can be written by everybody; run chmod o-w {tmp_path}"]


def test_a_cluster_key_that_cannot_be_used_is_told(tmp_path):
    file, absent = tmp_path / "cluster.key", tmp_path / "absent" / "cluster.key"
    file.write_text("no key")
    file.chmod(0o644)

    (open_to_all,) = report({"state_dir": str(tmp_path)})
    assert "run: chmod 600" in open_to_all
    file.chmod(0o600)
    assert report(cluster={"key_file": str(file)}) == [
        f"{file}: this is no cluster key file; put the right one there, or name another path"
    ]
    assert report(cluster={"key_file": str(absent)}) == [f"[cluster] key_file: {absent}: the folder {absent.parent} is not there; make it"]


def test_what_lies_in_a_folder_that_may_not_be_searched_is_told(monkeypatch, forbidden):
    locked, base = forbidden.parent, forbidden.parent.parent
    told = f"{locked}: the state folder cannot be used: {locked} cannot be written by this user; see [server] state_dir"

    monkeypatch.chdir(base)
    assert report({"state_dir": str(locked)}, database={"url": f"sqlite:///{locked}/x.db"}) == [told]
    assert report(database={"url": f"sqlite:///{forbidden}"}) == [told]
    assert report(cluster={"key_file": str(forbidden)}) == [f"{forbidden}: the cluster key file cannot be used: Permission denied"]


def test_a_cluster_key_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    file = tmp_path / "keys" / "cluster.key"
    file.parent.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode, **_: path != file.parent)  # root may write everywhere

    assert report({"state_dir": str(tmp_path)}, cluster={"key_file": str(file)}) == [
        f"[cluster] key_file: {file} cannot be made: {file.parent} cannot be written by this user"
    ]


# ---- What plugins add to the report

BROKEN = """
import msgspec
from greatseal import hookimpl
from greatseal.api.problems import StartProblem
from greatseal.api.acme import ChallengeValidator
from greatseal.api.declarations import Owns
class Paint(msgspec.Struct, frozen=True, kw_only=True):
    colour: str = "red"
    coats: int = 1
class Plugin:
    @hookimpl
    def settings(self):
        return [Owns("paint[]", Paint)]
    @hookimpl
    def challenge_validators(self, host):
        {validators}
    @hookimpl
    def verify(self, host):
        wrong = ["[paint] coats: %d is odd" % one.coats for one in host.settings_list(Paint) if one.coats % 2]
        return wrong + ["no validator" for _ in [1] if not host.components(ChallengeValidator)]
"""


@pytest.fixture
def broken(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name, validators="return []"):
        return install(tmp_path, f"greatseal-{name}", BROKEN.format(validators=validators))

    return make


def test_what_a_plugin_verifies_is_told_beside_all_else(broken):
    enabled = [broken("one"), "nothing"]

    assert report({"listen": "x"}, plugins={"enabled": enabled}, paint=[{"coats": 3}, {"colour": 4, "coats": 5}])[-4:] == [
        "[server] listen = 'x': expected host:port, [IPv6 address]:port or unix:/path",
        "[paint] coats: 3 is odd",
        "[paint] coats: 5 is odd",
        "no validator",
    ]


def test_what_only_follows_from_another_mistake_is_not_told(broken):
    """The default of a value that is wrong is odd, and whether there are validators cannot be known."""
    one = broken("one", "raise StartProblem('no brush; buy one')")

    assert report(plugins={"enabled": [one]}, paint={"coats": "two"}) == [
        "[paint] coats: expected an integer, got a string",
        "no brush; buy one",
    ]
    assert report(plugins={"enabled": [one]}, paint=[3]) == ["[[paint]] #1: expected a table, found an integer", "no brush; buy one"]


def test_a_hook_that_fails_is_told_where_nothing_else_can_be_its_reason(broken):
    one = broken("one", "raise RuntimeError('oh')")

    assert report(plugins={"enabled": [one]}) == ["plugin 'one': hook challenge_validators failed: RuntimeError: oh"]
    assert report({"listen": "x"}, plugins={"enabled": [one]}) == [
        "[server] listen = 'x': expected host:port, [IPv6 address]:port or unix:/path"
    ]


DISCOVERY = """
from greatseal import hookimpl
from greatseal.api.http import Discovery
class Plugin:
    @hookimpl
    def discovery(self, host):
        return [Discovery("acme", lambda: {members})]
"""


@pytest.mark.parametrize(
    ("one", "two", "problem"),
    [
        ({"same": 1}, {"same": 2}, "the acme document's member 'same' comes from plugin 'one' and from plugin 'two'; disable one of them"),
        (
            {"meta": {"a": 1}},
            {"meta": {"a": 1}},
            "the acme document's member 'meta.a' comes from plugin 'one' and from plugin 'two'; disable one of them",
        ),
        ({"meta": {"one": 1}}, {"meta": [2]}, "plugin 'two': the acme document's member 'meta' is no object but list"),
    ],
)
def test_two_owners_of_one_member_are_told_before_a_start(tmp_path, monkeypatch, one, two, problem):
    monkeypatch.syspath_prepend(str(tmp_path))
    members = {"one": one, "two": two}
    enabled = [install(tmp_path, f"greatseal-{name}", DISCOVERY.format(members=shown)) for name, shown in members.items()]

    assert report(plugins={"enabled": enabled}) == [problem]


OPERATORS = """
from greatseal import hookimpl
from greatseal.api.http import Operator, Route
class Plugin:
    @hookimpl
    def routes(self, host):
        return [Route("GET", "/admin/a", print, auth=Operator(("administrator",)), listener="admin", style="acme-admin")]
"""


def test_routes_of_the_admin_listener_are_not_there_without_its_section(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = {"enabled": [install(tmp_path, "greatseal-operators", OPERATORS)]}
    kernel = Kernel({"server": {"base_url": "http://localhost:8080"}, "plugins": plugins})

    assert not [route for route in kernel.routes if route.listener == "admin"]
    (problem,) = report(plugins=plugins, admin={"listen": "127.0.0.1:8443"})
    assert "Operator" in problem


def test_a_plugin_that_cannot_say_what_it_provides_is_not_called_absent():
    """[ca] cannot be decoded, so nobody asks for the service that its plugin would have provided."""
    found = report(plugins={"enabled": ["ca", "acme", "resolver", "http-01"]}, ca=3, database={"url": f"sqlite:///{Path.cwd()}/x.db"})

    assert found == ["[ca]: expected a table, found an integer"]
