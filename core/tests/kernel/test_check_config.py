"""What ``check-config`` says: assembling a kernel reports whatever a start would refuse, and touches nothing."""

from pathlib import Path

import pytest

from greatseal.api.problems import StartProblem
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.settings import Server
from greatseal.kernel.urls import base_and_issuer


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


@pytest.mark.parametrize("url", ["sqlite:///var/x.db", "sqlite:////nowhere/x.db", "postgresql:///x", "postgres://u:p@h:5432,i/x"])
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
    (absent,) = report({"tls_cert_file": "/nowhere/cert.pem", "tls_key_file": "/nowhere/key.pem"})
    assert absent == "[server] /nowhere/cert.pem: the TLS file cannot be read: No such file or directory"
    cert.chmod(0o600)
    (broken,) = report(admin={"listen": "127.0.0.1:1", "tls_cert_file": str(cert), "tls_key_file": str(cert)})
    assert broken.startswith("[admin] ")
    assert "no certificate chain" in broken
    assert report({"tls_cert_file": 3, "tls_key_file": str(cert)}) == ["[server] tls_cert_file: expected a path, got an integer"]


def test_who_does_not_serve_needs_no_tls_files():
    server = {"base_url": "https://a.example", "tls_cert_file": "/nowhere/cert.pem", "tls_key_file": "/nowhere/key.pem"}

    assert Kernel({"server": server}, serving=False).server.tls_cert_file == Path("/nowhere/cert.pem")


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


@pytest.mark.parametrize("url", ["https://h", "https://h_1.lan:8443/a/b.c~d-e_f", "https://192.0.2.1", "https://[2001:db8::1]:1/A"])
def test_a_base_url_of_that_spelling_is_right(url):
    assert base_and_issuer(Server(base_url=url)) == (url, url, [])


def test_a_mistake_elsewhere_does_not_hide_what_is_given():
    assert report({"trusted_proxies": "127.0.0.1"}) == ["[server] trusted_proxies: expected a list, got a string"]
    assert report({"base_url": 3}) == ["[server] base_url: expected a string, got an integer"]
    assert len(report({"base_url": 3, "issuer": "https://a b"})) == 2
    assert report({"base_url": 3, "issuer": 4, "listen": 5}) == [
        "[server] issuer: expected a string, got an integer",
        "[server] base_url: expected a string, got an integer",
        "[server] listen: expected a string, got an integer",
    ]


def test_all_problems_are_in_one_report():
    server = {"base_url": "https://a b", "listen": "unix:rel", "max_body_bytes": 0, "tls_key_file": "x", "trusted_proxies": ["x"]}

    found = report(server, database={"url": "mysql://x", "max_connections": 0}, cluster={"node_id": "UPPER"}, plugins={"enabled": ["none"]})

    assert len(found) == 9
    assert len({problem.partition(":")[0] for problem in found}) == 9


def test_a_plugin_that_cannot_say_what_it_provides_is_not_called_absent():
    """[ca] cannot be decoded, so nobody asks for the service that its plugin would have provided."""
    found = report(plugins={"enabled": ["ca", "acme", "resolver", "http-01"]}, ca=3, database={"url": f"sqlite:///{Path.cwd()}/x.db"})

    assert found == ["[ca]: expected a table, found an integer"]
