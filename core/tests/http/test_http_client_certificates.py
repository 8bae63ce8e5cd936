"""Certificates of clients: of the TLS connection, or in the header of a trusted proxy."""

import asyncio
import base64
import ssl
import textwrap
import time

import pytest
import trustme

from greatseal.api.http import Reply, Route
from greatseal.http.sockets import ListenProblem
from greatseal.http.tls import Tls
from greatseal.testing.distributions import install

NOBODY = "nobody"


async def show(call):
    certificate = call.connection.certificate
    return Reply.text(NOBODY if certificate is None else certificate.hex())


async def shown(call):
    return Reply.text((call.connection.server_certificate or b"").hex())


ROUTES = [Route("GET", "/a", show)]


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def files(tmp_path, authority):
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o600)
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def der(pem):
    return ssl.PEM_cert_to_DER_cert(pem.bytes().decode())


def client_of(authority, own=None):
    """The TLS of a client, with a certificate of its own or without, and that certificate."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if own is not None:
        own.configure_cert(context)
    return context


async def seen(port, context, headers=""):
    """Whom the server sees, "" where it ends the connection."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=context and "localhost")
        writer.write(f"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n".encode())
        answer = await reader.read()
        writer.close()
    except (ssl.SSLError, ConnectionError):
        return ""
    return answer.decode().rpartition("\r\n\r\n")[2]


async def test_a_certificate_of_a_trusted_ca_is_seen_and_none_has_to_be(serve, files, authority):
    people, strangers = trustme.CA(), trustme.CA()
    own, foreign = people.issue_cert("client"), strangers.issue_cert("client")
    tls = Tls(*files)
    tls.ask_clients(lambda: [der(people.cert_pem)])
    served = await serve(ROUTES, tls=tls)

    assert await seen(served.port, client_of(authority, own)) == der(own.cert_chain_pems[0]).hex()
    assert await seen(served.port, client_of(authority)) == NOBODY
    assert await seen(served.port, client_of(authority, foreign)) == ""


async def test_without_trust_no_client_is_asked(serve, files, authority):
    served = await serve(ROUTES, tls=Tls(*files))

    assert await seen(served.port, client_of(authority, trustme.CA().issue_cert("client"))) == NOBODY


async def test_a_certificate_may_be_its_own_root(serve, files, authority):
    own, other = (trustme.CA().issue_cert("client") for _ in range(2))
    tls = Tls(*files)
    tls.ask_clients(lambda: [der(own.cert_chain_pems[0])])
    served = await serve(ROUTES, tls=tls)

    assert await seen(served.port, client_of(authority, own)) == der(own.cert_chain_pems[0]).hex()
    assert await seen(served.port, client_of(authority, other)) == ""


async def test_whom_it_trusts_changes_for_connections_to_come(serve, files, authority):
    before, after = trustme.CA(), trustme.CA()
    roots = [der(before.cert_pem)]
    tls = Tls(*files)
    tls.ask_clients(lambda: roots)
    served = await serve(ROUTES, tls=tls)
    old, new = (client_of(authority, one.issue_cert("client")) for one in (before, after))

    roots[:] = [der(after.cert_pem)]
    tls.trust_again()

    assert await seen(served.port, old) == ""
    assert await seen(served.port, new) not in {"", NOBODY}
    roots[:] = [b"no DER"]
    with pytest.raises(ListenProblem, match="cannot be read as DER"):
        tls.trust_again()
    assert await seen(served.port, new) not in {"", NOBODY}


def forwarded(content):
    return f"Client-Cert: :{base64.b64encode(content).decode()}:\r\n"


async def test_a_trusted_proxy_tells_whom_it_saw_with_every_call(serve):
    served = await serve(ROUTES, trusted_proxies=("127.0.0.1",))

    assert await seen(served.port, None, forwarded(b"first")) == b"first".hex()
    assert await seen(served.port, None) == NOBODY
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    for content in (b"one", b"two"):
        writer.write(f"GET /a HTTP/1.1\r\nHost: a\r\n{forwarded(content)}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(len(content.hex())) == content.hex().encode()
    writer.close()


async def test_a_header_of_anybody_else_is_not_looked_at(serve):
    served = await serve(ROUTES, trusted_proxies=("10.0.0.0/8",))

    assert await seen(served.port, None, forwarded(b"somebody")) == NOBODY


@pytest.mark.parametrize(
    "header", ["Client-Cert: x\r\n", "Client-Cert: :&:\r\n", "Client-Cert: :AAA:\r\n", forwarded(b"a") + forwarded(b"b")]
)
async def test_a_header_that_is_no_certificate_is_refused(serve, header):
    served = await serve(ROUTES, trusted_proxies=("127.0.0.1",))

    assert "RFC 9440" in await seen(served.port, None, header)


PLUGIN = """
from greatseal import hookimpl
from greatseal.api.http import ClientTrust, Reply, Route

ROOTS = []

async def show(call):
    return Reply.text("nobody" if call.connection.certificate is None else call.connection.certificate.hex())

class Plugin:
    @hookimpl
    def client_trust(self, host):
        return [ClientTrust(name="people", roots=lambda: ROOTS)]

    @hookimpl
    def routes(self, host):
        return [Route("GET", "/a", show)]
"""


async def test_a_plugin_says_whom_the_service_trusts_and_changes_it(start_service, files, authority, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    feature = install(tmp_path, "greatseal-trusting", textwrap.dedent(PLUGIN))
    import greatseal_trusting

    people = trustme.CA()
    own = people.issue_cert("client")
    cert, key = files
    service = await start_service(feature, server={"tls_cert_file": str(cert), "tls_key_file": str(key)})
    port = int(service.addresses["main"].rpartition(":")[2])
    assert await seen(port, client_of(authority, own)) == ""

    greatseal_trusting.ROOTS.append(der(people.cert_pem))
    await service.host(feature).db.write(lambda tx: tx.changed("client_trust", ""))

    assert await seen(port, client_of(authority, own)) == der(own.cert_chain_pems[0]).hex()


async def test_a_connection_tells_which_certificate_the_listener_showed_on_it(serve, files, authority, tmp_path):
    routes, first = [Route("GET", "/a", shown)], ssl.PEM_cert_to_DER_cert(files[0].read_text())
    tls = Tls(*files)
    served, plain = await serve(routes, tls=tls), await serve(routes)

    assert await seen(served.port, client_of(authority)) == first.hex()
    assert await seen(plain.port, None) == ""

    renewed = authority.issue_cert("localhost")
    renewed.private_key_pem.write_to_path(files[1])
    renewed.cert_chain_pems[0].write_to_path(files[0])
    tls.read_again(time.time_ns() // 1000)

    assert await seen(served.port, client_of(authority)) == der(renewed.cert_chain_pems[0]).hex() != first.hex()
