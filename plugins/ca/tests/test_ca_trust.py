"""`greatseal trust`: programs of this machine that we did not write trust a certificate of the CA afterwards, and before they did not."""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from greatseal_ca import trust_stores
from greatseal_ca.trust import checked, fetched, trust

GREATSEAL = [sys.executable, "-c", "from greatseal_ca.trust import trust; trust()"]
PLAIN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent"}
ASK = "import requests, sys; sys.exit(requests.get(sys.argv[1], timeout=30).text != 'ok')"
JAVA = """\
public class Ask {
    public static void main(String[] given) throws Exception {
        new java.net.URL(given[0]).openStream().close();
    }
}
"""
# The stores of the machine are changed in a mount namespace alone, above which nothing of it is seen.
ABOVE = """\
set -e
mount -t tmpfs none "$1"
for folder in /etc/ssl/certs /usr/local/share/ca-certificates /etc/ca-certificates/update.d; do
  at="$1$folder"; mkdir -p "$at/upper" "$at/work"
  mount -t overlay overlay -o "lowerdir=$folder,upperdir=$at/upper,workdir=$at/work" "$folder"
done
rm -f /etc/ca-certificates/update.d/*
shift
exec "$@"
"""


@asynccontextmanager
async def serving(desk, ec_key, folder):
    """The URL of a TLS server whose certificate is of the CA."""
    leaf = await desk.certify("localhost")
    chain = [x509.load_der_x509_certificate(der) for der in (leaf.der, *leaf.chain)]
    (folder / "tls.pem").write_bytes(b"".join(one.public_bytes(Encoding.PEM) for one in chain))
    (folder / "tls.key").write_bytes(ec_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.pem", folder / "tls.key")

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}/"


async def ran(*command, **environment):
    """What a program wrote and its exit code; nothing of this environment is given to it."""
    done = await asyncio.to_thread(subprocess.run, command, env=PLAIN | environment, capture_output=True, timeout=120, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def root_of(desk):
    return desk.authority().chain[-1]


def fingerprint_of(desk):
    return sha256(root_of(desk)).hexdigest()


@pytest.fixture
def python(tmp_path):
    """A Python with a certifi of its own."""
    own = tmp_path / "own"
    shutil.copytree(Path(certifi.__file__).parent, own / "certifi")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={own} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


async def test_a_program_in_python_trusts_what_the_ca_issued_until_the_root_is_removed(desk, ec_key, tmp_path, python):
    bundle = tmp_path / "own/certifi/cacert.pem"
    before = bundle.read_bytes()
    store = ("--store", "python", "--python", str(python))
    install = (*GREATSEAL, "install", desk.service.url, "--fingerprint", fingerprint_of(desk), *store)
    async with serving(desk, ec_key, tmp_path) as url:
        distrusted = await ran(str(python), "-c", ASK, url)
        dry = await ran(*install, "--dry-run")
        untouched = bundle.read_bytes()
        installed, again = await ran(*install), await ran(*install)
        trusted = await ran(str(python), "-c", ASK, url)
        removed = await ran(*GREATSEAL, "remove", "greatseal-localhost", *store)

    assert "CERTIFICATE_VERIFY_FAILED" in distrusted[1]
    assert dry[1].startswith("not done: ")
    assert untouched == before
    assert (installed[0], trusted) == (0, (0, ""))
    assert "has it already" in again[1]
    assert removed[0] == 0
    assert bundle.read_bytes() == before


async def test_a_program_in_java_trusts_what_the_ca_issued(desk, ec_key, tmp_path):
    if not (shutil.which("keytool") and shutil.which("java")):
        pytest.skip("keytool and java are not installed: apt install default-jdk-headless")
    keystore, source = tmp_path / "cacerts", tmp_path / "Ask.java"
    source.write_text(JAVA)
    store = ("--store", "java", "--keystore", str(keystore))
    path = {"PATH": os.environ["PATH"]}
    ask = ("java", f"-Djavax.net.ssl.trustStore={keystore}", "-Djavax.net.ssl.trustStorePassword=changeit", str(source))
    install = (*GREATSEAL, "install", f"{desk.service.url}/ca/root.pem", "--fingerprint", fingerprint_of(desk), *store)
    async with serving(desk, ec_key, tmp_path) as url:
        installed, again = await ran(*install, **path), await ran(*install, **path)
        trusted = await ran(*ask, url, **path)
        await ran(*GREATSEAL, "remove", "greatseal-localhost", *store, **path)
        distrusted = await ran(*ask, url, **path)

    assert installed[0] == 0, installed[1]
    assert "has it already" in again[1]
    assert trusted[0] == 0, trusted[1]
    assert distrusted[0] != 0


async def test_curl_on_debian_trusts_what_the_ca_issued(desk, ec_key, tmp_path):
    curl = shutil.which("curl")
    if not (curl and shutil.which("update-ca-certificates", path=PLAIN["PATH"])):
        pytest.skip("curl or update-ca-certificates is not installed: apt install curl ca-certificates")
    above = tmp_path / "above"
    above.mkdir()
    inside = ("unshare", "-m", "--propagation", "private", "sh", "-c", ABOVE, "sh", str(above))
    if (await ran(*inside, "true"))[0]:
        pytest.skip("this user may not make a mount namespace")
    install = f"{' '.join(GREATSEAL[:1])} -c '{GREATSEAL[2]}' install {desk.service.url} --fingerprint {fingerprint_of(desk)}"
    remove = f"{GREATSEAL[0]} -c '{GREATSEAL[2]}' remove greatseal-localhost"
    async with serving(desk, ec_key, tmp_path) as url:
        distrusted = await ran(curl, "-sS", url)
        trusted = await ran(*inside, "sh", "-ec", f"{install}; {install}; {curl} -sS {url}")
        removed = await ran(*inside, "sh", "-c", f"{install}; {remove}; {curl} -sS {url}")

    assert "issuer certificate" in distrusted[1]
    assert trusted[0] == 0, trusted[1]
    assert trusted[1].endswith("ok")
    assert "is there already" in trusted[1]
    assert removed[0] != 0
    assert "issuer certificate" in removed[1]


async def test_a_root_of_another_fingerprint_changes_nothing(desk, python, tmp_path):
    bundle = tmp_path / "own/certifi/cacert.pem"
    before = bundle.read_bytes()

    refused = await ran(*GREATSEAL, "install", desk.service.url, "--fingerprint", "ab" * 32, "--store", "python", "--python", str(python))

    assert refused[0] == 1
    assert f"found {fingerprint_of(desk)}, expected {'ab' * 32}" in refused[1]
    assert bundle.read_bytes() == before


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["https://ca.example", "--fingerprint", "ab" * 20], "40 are those of SHA-1"),
        (["https://ca.example", "--fingerprint", "sha256 Fingerprint=" + ":".join(["zz"] * 32)], "64 hexadecimal digits"),
        (["https://ca.example"], "Missing option '--fingerprint'"),
        (["https://ca.example", "--fingerprint", "ab" * 32, "--name", "../x"], "expected lower-case letters"),
        (["https://ca.example", "--fingerprint", "ab" * 32, "--store", "windows"], "'windows' is not one of"),
    ],
)
async def test_a_wrong_option_is_one_line(given, expected):
    code, said = await ran(*GREATSEAL, "install", *given)

    assert code == 2
    assert expected in said


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:///etc/passwd", "expected https"),
        ("ftp://ca.example/root.pem", "expected https"),
        ("ca.example", "expected https"),
        ("https:///root.pem", "expected https"),
        ("http://127.0.0.1:1", "cannot be fetched"),
        ("http://ca .example", "cannot be fetched"),
    ],
)
def test_a_place_that_cannot_be_fetched_is_told(url, expected):
    with pytest.raises(trust_stores.StoreProblem, match=expected):
        fetched(url)


async def test_what_is_too_large_is_not_read(desk, monkeypatch):
    monkeypatch.setattr("greatseal_ca.trust.LARGEST", 100)

    with pytest.raises(trust_stores.StoreProblem, match="more than 100 bytes"):
        await asyncio.to_thread(fetched, desk.service.url)


EC, NO_KEY = bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d0209")
"""The number of EC keys, and one that is nobody's."""


async def test_only_a_root_is_installed(desk, brought, tmp_path):
    issuing = desk.authority().certificate
    leaf = await desk.leaf("localhost")
    expired, root = brought.certificate("root", "root", days=(-10, -1)), brought.root.public_bytes(Encoding.PEM)
    whole = brought.root.public_bytes(Encoding.DER)
    strange = x509.load_der_x509_certificate(whole.replace(EC, NO_KEY))
    forged, own = x509.load_der_x509_certificate(whole[:-1] + bytes([whole[-1] ^ 1])), brought.certificate("root", "root", ca=False)
    for certificate, expected in (
        (issuing, "no root"),
        (leaf, "no"),
        (expired, "only"),
        (forged, "another key"),
        (own, "no CA's"),
        (strange, "no root: Unknown"),
    ):
        body, digest = certificate.public_bytes(Encoding.PEM), sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
        with pytest.raises(trust_stores.StoreProblem, match=expected):
            checked(body, digest)
    for body, expected in (
        (b"<html>", "no certificate in PEM"),
        (root.replace(b"MII", b"AAA"), "is no certificate: "),
        (root, "another one"),
    ):
        with pytest.raises(trust_stores.StoreProblem, match=expected):
            checked(body, "ab" * 32)
    assert checked(expired.public_bytes(Encoding.PEM) + root, brought.root.fingerprint(hashes.SHA256()).hex()) == brought.root


@pytest.mark.parametrize(("folder", "program", "ending"), [(str(one[1]), one[0], one[2]) for one in trust_stores.SYSTEMS])
def test_the_file_of_each_distribution(tmp_path, monkeypatch, folder, program, ending):
    (tmp_path / folder).mkdir(parents=True)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / program).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (bin_ / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    root = x509.load_pem_x509_certificate(Path(certifi.where()).read_bytes())

    said = trust_stores.SystemStore(tmp_path).add("ours", root)

    assert (tmp_path / folder / f"ours{ending}").read_bytes() == root.public_bytes(Encoding.PEM)
    assert (tmp_path / "ran").exists()
    assert program in said


def test_a_system_without_a_known_store_is_told(tmp_path):
    with pytest.raises(trust_stores.StoreProblem, match="no trust store that is known here"):
        trust_stores.SystemStore(tmp_path)


def test_who_may_not_write_is_told_to_be_root(tmp_path):
    (tmp_path / "closed").mkdir()
    with pytest.raises(trust_stores.StoreProblem, match="cannot be changed"):
        trust_stores.write(tmp_path / "closed" / "none" / "x.pem", b"")


def test_its_help_names_both_commands():
    assert set(trust.commands) == {"install", "remove"}
