"""Opening listeners, and ending them so that nothing is lost."""

import asyncio
import os
import socket
import ssl
import stat
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from greatseal.api.http import Reply, Route
from greatseal.http import listeners, protocol
from greatseal.http.listeners import HttpLimits, ListenerConfig, ListenProblem, open_listeners
from greatseal.http.server import own_protocol
from greatseal.http.tls import Tls, tls_context


async def ok(_call):
    return Reply.json({})


ROUTES = [Route("GET", "/a", ok)]


async def test_addresses_tell_the_port_that_was_found(serve):
    served = await serve(ROUTES, address="localhost:0")

    assert served.host in {"127.0.0.1", "[::1]"}
    assert served.port > 0


async def test_a_port_in_use_is_one_line_with_the_cure(serve):
    served = await serve(ROUTES)
    address = served.listeners.addresses["main"]

    with pytest.raises(ListenProblem) as problem:
        await serve(ROUTES, address=address)

    assert problem.value.messages == (
        f"[server] listen = {address!r}: the address is in use; stop the other process or choose another port",
    )
    assert (await served.ask("GET", "/a")).status == 200


async def test_a_port_that_another_program_shares_willingly_is_still_in_use(serve):
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()

        with pytest.raises(ListenProblem, match="in use"):
            await serve(ROUTES, address=f"127.0.0.1:{other.getsockname()[1]}")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("8080", "expected host:port"),
        ("127.0.0.1:http", "expected host:port"),
        ("127.0.0.1:65536", "expected host:port"),
        ("::1:80", "expected host:port"),
        ("203.0.113.77:0", "no interface"),
        ("no-such-host.invalid:0", "no address"),
        ("unix:relative", "absolute path"),
        ("unix:/" + "x" * 107, "absolute path"),
        ("unix:/no/such/folder/s", "does not exist"),
    ],
)
async def test_a_bad_address_is_one_line(serve, address, told):
    with pytest.raises(ListenProblem, match=told) as problem:
        await serve(ROUTES, address=address)

    assert "\n" not in str(problem.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every port")
async def test_a_privileged_port_is_one_line(serve):
    with pytest.raises(ListenProblem, match="permission denied"):
        await serve(ROUTES, address="127.0.0.1:1")


async def test_nothing_stays_open_when_a_later_listener_fails(serve):
    served = await serve(ROUTES)
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
    free.close()
    configs = [ListenerConfig("main", address), ListenerConfig("admin", served.listeners.addresses["main"])]
    dispatcher = served.listeners._open[0].server.request_handler.__self__

    with pytest.raises(ListenProblem, match=r"\[admin\] listen"):
        async with open_listeners(configs, {"main": dispatcher, "admin": dispatcher}, log=served.listeners._log):
            raise AssertionError

    await serve(ROUTES, address=address)


async def test_a_unix_socket_has_its_mode_and_is_removed(serve, tmp_path):
    path = tmp_path / "s"
    served = await serve(ROUTES, address=f"unix:{path}")

    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert (await served.ask("GET", "/a")).status == 200
    await served.listeners.stop()
    assert not path.exists()


async def test_a_stale_unix_socket_is_replaced_and_a_live_one_is_not(serve, tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    await serve(ROUTES, address=f"unix:{path}")

    with pytest.raises(ListenProblem, match="another process listens"):
        await serve(ROUTES, address=f"unix:{path}")

    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ListenProblem, match="no socket"):
        await serve(ROUTES, address=f"unix:{file}")
    assert file.exists()


async def test_the_stop_leaves_the_socket_of_a_successor(serve, tmp_path):
    path = tmp_path / "s"
    first = await serve(ROUTES, address=f"unix:{path}")
    path.unlink()
    second = await serve(ROUTES, address=f"unix:{path}")

    await first.listeners.stop()

    assert (await second.ask("GET", "/a")).status == 200


# ---- TLS


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_files(tmp_path, authority) -> tuple[Path, Path, ssl.SSLContext]:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issue(authority, cert, key)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return cert, key, client


def issue(authority: trustme.CA, cert: Path, key: Path, **more: Any) -> bytes:
    """A new certificate in these files; returns it in DER."""
    issued = authority.issue_cert("localhost", "127.0.0.1", **more)
    issued.private_key_pem.write_to_path(key)
    cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    key.chmod(0o600)
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


async def https_get(port: int, context: ssl.SSLContext) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.write(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(2), reader, writer


async def test_tls_from_files(serve, tls_files):
    cert, key, client = tls_files
    served = await serve(ROUTES, tls=Tls(cert, key))

    answer, reader, writer = await https_get(served.port, client)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert writer.get_extra_info("ssl_object").version() in {"TLSv1.2", "TLSv1.3"}
    await served.listeners.stop()
    assert await reader.read() == b""
    writer.close()


def shown(writer: asyncio.StreamWriter) -> bytes:
    return writer.get_extra_info("ssl_object").getpeercert(True)


async def test_tls_files_that_are_read_again_are_for_new_connections(serve, tls_files, authority):
    cert, key, client = tls_files
    tls, now = Tls(cert, key), time.time_ns() // 1000
    served = await serve(ROUTES, tls=tls)
    _, reader, writer = await https_get(served.port, client)
    before = shown(writer)

    renewed = issue(authority, cert, key)
    tls.read_again(now)

    _, _, second = await https_get(served.port, client)
    client.check_hostname = False
    _, third = await asyncio.open_connection("127.0.0.1", served.port, ssl=client)  # an address is named to no server
    assert shown(second) == shown(third) == renewed != before
    writer.write(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
    for one in (writer, second, third):
        one.close()


@pytest.mark.parametrize("fault", ["another key", "no key", "no certificate", "open key", "expired"])
async def test_tls_files_that_are_wrong_when_they_are_read_again_change_nothing(serve, tls_files, authority, tmp_path, fault):
    cert, key, client = tls_files
    tls, now = Tls(cert, key), time.time_ns() // 1000
    served = await serve(ROUTES, tls=tls)
    before = ssl.PEM_cert_to_DER_cert(cert.read_text().partition("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----")

    issue(authority, cert, key, **({"not_after": datetime(2020, 1, 1, tzinfo=UTC)} if fault == "expired" else {}))
    match fault:
        case "another key":
            issue(authority, tmp_path / "other", key)
        case "no key":
            key.unlink()
        case "no certificate":
            cert.write_text("nothing")
        case "open key":
            key.chmod(0o644)
    with pytest.raises(ListenProblem):
        tls.read_again(now)

    _, _, writer = await https_get(served.port, client)
    assert shown(writer) == before
    writer.close()


async def test_tls_below_1_2_is_refused(serve, tls_files):
    cert, key, client = tls_files
    served = await serve(ROUTES, tls=Tls(cert, key))
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        client.minimum_version, client.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1

    with pytest.raises((ssl.SSLError, ConnectionError)):
        await https_get(served.port, client)


async def test_s145_a_silent_tls_connection_is_cut(serve, tls_files):
    cert, key, _ = tls_files
    client = await (await serve(ROUTES, tls=Tls(cert, key), limits=HttpLimits(head_seconds=0.3))).client()

    with suppress(ConnectionError):
        await asyncio.wait_for(client.reader.read(), 5)


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o620, 0o602])
def test_a_tls_key_that_others_may_touch_is_refused(tls_files, mode):
    cert, key, _ = tls_files
    key.chmod(mode)

    with pytest.raises(ListenProblem) as problem:
        tls_context(cert, key)

    assert problem.value.messages == (f"{key}: others than its owner may read or change the TLS key; run chmod 0600 {key}",)


def test_a_tls_key_for_a_group_is_accepted(tls_files):
    cert, key, _ = tls_files
    key.chmod(0o640)

    context = tls_context(cert, key)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    old = {one["name"] for one in context.get_ciphers() if one["protocol"] == "TLSv1.2"}
    suites = {f"ECDHE-{key}-AES{size}" for key in ("ECDSA", "RSA") for size in ("128-GCM-SHA256", "256-GCM-SHA384")}
    assert old == suites, "those of BCP 195 (RFC 9325 s4.2)"


def test_a_tls_key_that_is_not_accepted_is_refused(tmp_path):
    key, now = rsa.generate_private_key(3, 2048), datetime.now(UTC)
    name = x509.Name([])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(1)).sign(key, SHA256())
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files[1].chmod(0o600)

    with pytest.raises(ListenProblem, match="exponent"):
        tls_context(*files)


def test_tls_files_that_are_none_are_one_line(tls_files, tmp_path):
    cert, key, _ = tls_files
    empty = tmp_path / "empty"
    empty.touch(0o600)

    for pair in ((tmp_path / "absent", key), (cert, tmp_path / "absent"), (empty, key), (cert, empty), (key, cert)):
        for path in pair:
            if path.exists():
                path.chmod(0o600)
        with pytest.raises(ListenProblem) as problem:
            tls_context(*pair)
        assert "\n" not in str(problem.value)


# ---- The stop


async def test_f21_a_request_in_flight_is_answered_and_is_the_last_of_its_connection(serve):
    entered, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_call):
        entered.set()
        await may_end.wait()
        return Reply.json({"done": True})

    served = await serve([Route("GET", "/slow", slow)])
    client = await served.client()
    asking = asyncio.create_task(client.ask("GET", "/slow"))
    await entered.wait()

    stopping = asyncio.create_task(served.listeners.stop())
    await asyncio.sleep(0)
    may_end.set()
    answer = await asking
    await stopping

    assert (answer.json, answer.headers["connection"]) == ({"done": True}, "close")
    assert await client.is_ended()


async def test_f21_a_body_under_way_may_arrive(serve):
    entered = asyncio.Event()

    async def reads(call):
        entered.set()
        return Reply.text((await call.raw()).decode())

    served = await serve([Route("POST", "/a", reads, content_types=())])
    client = await served.client()
    await client.send(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
    await entered.wait()
    stopping = asyncio.create_task(served.listeners.stop())
    await asyncio.sleep(0)

    await client.send(b"def")

    assert (await client.answer()).body == b"abcdef"
    await stopping


async def test_f21_an_idle_connection_ends_cleanly_and_what_comes_too_late_is_not_done(serve):
    served = await serve(ROUTES)
    client = await served.client()
    assert (await client.ask("GET", "/a")).status == 200

    stopping = asyncio.create_task(served.listeners.stop())
    assert await client.is_ended()
    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    served.log.clear()
    await client.close()
    await stopping

    assert not [line for line in served.log if line["event"] == "request"]


async def test_f21_a_request_that_crosses_the_end_of_its_connection_meets_a_clean_end_and_no_reset(serve):
    served = await serve(ROUTES)
    client = await served.client()
    assert (await client.ask("GET", "/a")).status == 200
    (protocol,) = served.listeners._open[0].server.protocols()
    for _ in range(10):
        await asyncio.sleep(0)
    assert protocol.idle

    # In one step of the loop: the bytes are at the server's socket, and the server ends the connection without having read them.
    os.write(client.writer.get_extra_info("socket").fileno(), b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    protocol.retire()

    assert await client.is_ended()


async def test_f21_a_request_already_on_the_wire_is_answered_on_an_idle_connection(serve):
    served = await serve(ROUTES)
    client = await served.client()
    assert (await client.ask("GET", "/a")).status == 200

    stopping = asyncio.create_task(served.listeners.stop())
    await asyncio.sleep(0)
    answer = await client.ask("GET", "/a")

    assert (answer.status, answer.headers["connection"]) == (200, "close")
    await stopping


async def test_f21_a_new_connection_has_time_for_its_request(serve, monkeypatch):
    monkeypatch.setattr(listeners, "FRESH_GRACE", 30.0)  # a busy machine may be slow to ask
    served = await serve(ROUTES, shutdown_timeout=60.0)
    client = await served.client()
    accepting = served.listeners._open[0].accepting
    stopping = asyncio.create_task(served.listeners.stop())
    while accepting.is_serving():  # noqa: ASYNC110 - the library tells nobody when it closes
        await asyncio.sleep(0.01)

    answer = await client.ask("GET", "/a")

    assert (answer.status, answer.headers["connection"]) == (200, "close")
    await stopping


async def test_f21_a_handler_that_does_not_end_is_cut(serve):
    entered = asyncio.Event()

    async def forever(_call):
        entered.set()
        await asyncio.Event().wait()

    served = await serve([Route("GET", "/a", forever)], shutdown_timeout=0.3)
    client = await served.client()
    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    await entered.wait()

    await asyncio.wait_for(served.listeners.stop(), 5)

    assert [line["count"] for line in served.log if line["event"] == "connections cut at the stop"] == [1]


async def test_two_stops_are_one(serve):
    served = await serve(ROUTES)

    await asyncio.gather(served.listeners.stop(), served.listeners.stop())
    await served.listeners.stop()

    with pytest.raises(ConnectionRefusedError):
        await served.client()


ENOUGH = 100


class Load:
    """Clients that note what was answered, and each ending that a careful client could not explain."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answered: list[str] = []
        self.failures: list[str] = []
        self.numbers = count()
        self.enough = asyncio.Event()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """None when nobody listens any more."""
        host, _, port = self.address.rpartition(":")
        while True:
            opening = asyncio.open_unix_connection(port) if host == "unix" else asyncio.open_connection(host, int(port))
            try:
                return await asyncio.wait_for(opening, 0.4)
            except (ConnectionRefusedError, FileNotFoundError):
                return None
            except TimeoutError:
                # Before the stop only the machine is busy; from then on the kernel drops what is new.
                if self.enough.is_set():
                    return None

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """ "answered", "answered and ended", "ended" cleanly before any byte of an answer, or "failed"."""
        number = str(next(self.numbers))
        got = b""
        head = f"POST /work/{number} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
        try:
            writer.write(f"{head}{{}}".encode())
            await writer.drain()
            while not got.endswith(b"}"):
                more = await reader.read(65536)
                if not more:
                    return self.fail(f"{number}: cut after {got!r}") if got else "ended"
                got += more
        except ConnectionError as error:
            return self.fail(f"{number}: {error!r} after {len(got)} bytes")
        self.answered.append(number)
        if len(self.answered) >= ENOUGH:
            self.enough.set()
        return "answered and ended" if b"Connection: close" in got else "answered"

    def fail(self, reason: str) -> str:
        self.failures.append(reason)
        return "failed"

    async def once_per_connection(self) -> None:
        while connection := await self.connect():
            if await self.ask(*connection) == "ended":
                self.fail("a new connection ended without an answer")
            connection[1].close()

    async def keep_alive(self) -> None:
        while connection := await self.connect():
            while await self.ask(*connection) == "answered":
                pass
            connection[1].close()


@pytest.mark.parametrize("address", ["127.0.0.1:0", "unix:{}/{{}}.sock"])
async def test_f21_sigterm_under_load_loses_no_answer_and_resets_no_request(tmp_path, address):
    rounds = 5
    script = Path(__file__).with_name("stopping_server.py")
    server = await asyncio.create_subprocess_exec(
        sys.executable, script, address.format(tmp_path), str(rounds), stdout=asyncio.subprocess.PIPE, limit=2**24
    )
    assert server.stdout is not None
    total = 0
    for _ in range(rounds):
        load = Load((await server.stdout.readline()).decode().strip())
        clients = [asyncio.create_task(kind()) for kind in (load.once_per_connection, load.keep_alive) for _ in range(8)]
        await load.enough.wait()
        server.terminate()
        done = (await server.stdout.readline()).decode().split()
        await asyncio.gather(*clients)

        assert load.failures == []
        assert sorted(done) == sorted(load.answered)
        total += len(done)
    assert await server.wait() == 0
    assert total >= ENOUGH * rounds


# ---- Another aiohttp


async def test_an_aiohttp_without_our_internals_serves_by_itself_and_says_so_once(serve, monkeypatch):
    monkeypatch.setattr(protocol, "INTERNALS", (*protocol.INTERNALS, "_gone_in_the_next_release"))
    served = await serve(ROUTES)

    for _ in range(3):
        assert (await served.ask("GET", "/a")).status == 200
    assert (await served.ask("GET", "/none")).status == 404
    (told,) = [line for line in served.log if line["level"] == "warning"]
    assert told["reason"] == "no _gone_in_the_next_release"
    await served.listeners.stop()


def test_a_name_that_cannot_be_imported_is_told(monkeypatch):
    monkeypatch.delattr("aiohttp.web_protocol._ErrInfo")
    monkeypatch.delitem(sys.modules, "greatseal.http.protocol")

    found, reason = own_protocol()

    assert found is None
    assert "_ErrInfo" in reason


def test_this_aiohttp_has_all_that_ours_needs():
    assert own_protocol() == (protocol.HttpProtocol, "")
