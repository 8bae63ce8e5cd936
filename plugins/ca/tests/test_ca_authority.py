"""CAs that are made at the first start, or brought as files."""

import json
import os
import signal
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import select

from greatseal.api.problems import Internal, StartProblem
from greatseal.jose.acceptance import spki_sha256
from greatseal.testing.service import Kernel, document, serve
from greatseal.testing.store import audit, key
from greatseal_ca import tables

AUTHORITIES = select(tables.authority)
KEYS = select(key.c.kid, key.c.purpose, key.c.state).where(key.c.purpose.not_like("%:ocsp"))
"""Those of the CA itself; that of its OCSP signer is made in every start that finds none."""
RECORDED = select(tables.first.c.role, tables.first.c.tbs).order_by(tables.first.c.created_at)
CREATED = select(audit.c.detail).where(audit.c.event_type == "ca.created")


def rows(service, statement):
    return service.kernel.store.read(lambda tx: tx.all(statement))


def chain(service) -> tuple[bytes, ...]:
    return service.kernel.hooks.instances["ca"].parts(service.host("ca")).authorities.issuing["default"].chain


# ---- Made at the first start


async def test_the_ca_is_made_once_and_found_again(tmp_path):
    config = document(tmp_path, ["ca"])
    async with serve(config) as service:
        first = chain(service)
    async with serve(config) as service:
        assert chain(service) == first
        assert len(await rows(service, CREATED)) == 2
        assert sorted(row.purpose for row in await rows(service, KEYS)) == ["ca:default:issuing", "ca:default:root"]


async def test_the_root_is_shown_under_the_state_folder(tmp_path):
    async with serve(document(tmp_path, ["ca"])) as service:
        shown = tmp_path / "ca" / "default" / "root.pem"
        assert x509.load_pem_x509_certificate(shown.read_bytes()).public_bytes(Encoding.DER) == chain(service)[-1]
        assert shown.stat().st_mode & 0o777 == 0o644


async def test_two_installations_do_not_share_a_name(tmp_path):
    names = set()
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        async with serve(document(folder, ["ca"])) as service:
            names |= {x509.load_der_x509_certificate(der).subject.rfc4514_string() for der in chain(service)}

    assert len(names) == 4


async def test_a_configured_key_type_is_for_new_cas(tmp_path):
    config = document(tmp_path, ["ca"])
    async with serve(config) as service:
        first = chain(service)
    async with serve({**config, "ca": {"key_type": "ed25519"}}) as service:
        assert chain(service) == first


async def test_a_lost_key_stops_the_start(tmp_path):
    config = document(tmp_path, ["ca"])
    async with serve(config) as service:
        ring = service.host("ca").keys.ring("ca:default:issuing")
        await ring.revoke(ring.active.info.kid)

    with pytest.raises(StartProblem, match=r"\[ca\] default: the key .* of the issuing certificate is gone; restore"):
        async with serve(config):
            pass


KERNEL = """
import asyncio, json, sys
from greatseal.jose.acceptance import spki_sha256
from greatseal.testing.service import serve
async def main():
    async with serve(json.loads(sys.argv[1])) as service:
        authorities = service.kernel.hooks.instances["ca"].parts(service.host("ca")).authorities
        print(json.dumps([der.hex() for der in authorities.issuing["default"].chain]), file=sys.stderr)
asyncio.run(main())
"""


def start(config, **environment) -> subprocess.Popen:
    words = [sys.executable, "-c", KERNEL, json.dumps(config)]
    return subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def chain_of(process: subprocess.Popen) -> list[str]:
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    return json.loads(told.splitlines()[-1])


POINTS = [
    "ca.root.key_made", "ca.root.signing", "ca.root.signed", "ca.root.recorded", "ca.root.signing:2", "ca.root.signed:2",
    "ca.issuing.key_made", "ca.issuing.recorded", "ca.files.key_made",
]  # fmt: skip
"""Each of them and, where a number follows, its second hit."""


def files(folder) -> dict[str, str]:
    return {"key_file": str(folder / "ca.key"), "cert_file": str(folder / "ca.pem")}


@pytest.mark.parametrize("point", POINTS)
async def test_a_start_that_was_killed_is_finished_by_the_next(tmp_path, point):
    in_files = ".files." in point
    name, _, hit = point.partition(":")
    config = document(tmp_path, ["ca"], ca=files(tmp_path) if in_files else {})
    killed = start(config, GREATSEAL_FAULTS="1", GREATSEAL_FAULT=f"{name}:kill:{hit or 1}")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "ca.pem").exists()

    async with serve(config) as service:
        assert len(await rows(service, KEYS)) == (1 if in_files else 2)
        assert (tmp_path / "ca.pem").exists() is in_files
        if not in_files:
            assert sorted((row.role, row.generation) for row in await rows(service, AUTHORITIES)) == [("issuing", 1), ("root", 1)]
        leaf, root = (x509.load_der_x509_certificate(der) for der in chain(service))
        leaf.verify_directly_issued_by(root)


@pytest.mark.parametrize("in_files", [False, True])
async def test_a_root_and_the_first_certificate_under_it_are_recorded_before_they_are_signed(tmp_path, database_url, in_files):
    config = document(tmp_path, ["ca"], ca=files(tmp_path) if in_files else {}, database={"url": database_url})
    for hit in (1, 2):
        killed = start(config, GREATSEAL_FAULTS="1", GREATSEAL_FAULT=f"ca.root.signing:kill:{hit}")
        killed.communicate(timeout=60)
        assert killed.returncode == -signal.SIGKILL
    async with serve(config) as service:
        recorded = [(row.role, bytes(row.tbs)) for row in await rows(service, RECORDED)]
        roles = ["issuing", "root"]
        shown = list(zip(roles, (x509.load_der_x509_certificate(der).tbs_certificate_bytes for der in chain(service)), strict=True))

    assert [role for role, _ in recorded] == ["root", "root", "issuing", "issuing"]
    assert shown == recorded[:0:-2]


async def test_a_root_that_is_not_what_was_meant_is_neither_recorded_nor_signed(tmp_path, monkeypatch):
    monkeypatch.setattr("greatseal_ca.authority.draw_serial", lambda: bytes(7) + b"\x01")
    config = document(tmp_path, ["ca"])
    with pytest.raises(Internal) as caught:
        async with serve(config):
            pass
    assert "the serial is not a positive number of 64 to 159 bits" in caught.value.cause
    monkeypatch.undo()

    async with serve(config) as service:
        assert len(await rows(service, RECORDED)) == 2


@pytest.mark.parametrize("in_files", [False, True])
async def test_processes_that_start_at_once_have_one_ca(tmp_path, in_files):
    one = document(tmp_path, ["ca"], ca=files(tmp_path) if in_files else {})
    processes = [start(one | {"server": document(tmp_path, [])["server"]}) for _ in range(3)]
    chains = [chain_of(process) for process in processes]

    assert chains[0] == chains[1] == chains[2]
    async with serve(one) as service:
        assert [der.hex() for der in chain(service)] == chains[0]
        live = [row.purpose for row in await rows(service, KEYS) if row.state != "revoked"]
        assert sorted(live) == ["ca:default:root"] if in_files else ["ca:default:issuing", "ca:default:root"]


# ---- Files


@pytest.mark.parametrize("name", ["issuing", "root"])
async def test_a_ca_whose_key_nobody_should_trust_is_refused(tmp_path, brought, name):
    brought.keys[name] = rsa.generate_private_key(3, 2048)
    brought.write_key("issuing")
    brought.write(brought.certificate("issuing", "root"), brought.certificate("root", "root"))

    assert "exponent" in await brought.refusal(tmp_path)


async def test_a_ca_whose_key_is_blocked_is_refused(tmp_path, brought):
    async with serve(brought.config(tmp_path)) as service:
        host = service.host("ca")
        name = spki_sha256(brought.keys["issuing"].public_key())
        await host.db.write(host.blocked_keys.block, name, reason="keyCompromise", by="alice")

    with pytest.raises(StartProblem, match=r"the key of the CA certificate is blocked \(keyCompromise\)"):
        async with serve(brought.config(tmp_path)):
            pass


async def test_a_ca_that_is_brought_issues(tmp_path, brought):
    async with serve(brought.config(tmp_path)) as service:
        assert chain(service) == tuple(one.public_bytes(Encoding.DER) for one in (brought.issuing, brought.root))
        assert (tmp_path / "ca/default/root.pem").read_bytes() == brought.root.public_bytes(Encoding.PEM)
        assert await rows(service, KEYS) == []


async def test_a_root_that_is_brought_may_lack_key_usage_and_an_issuing_ca_may_not(tmp_path, brought):
    """``openssl req -x509`` makes such roots; a trust anchor's own extensions are not looked at (RFC 5280 s6.1)."""
    brought.write(brought.issuing, brought.certificate("root", "root", with_usage=False))
    async with serve(brought.config(tmp_path)) as service:
        assert len(chain(service)) == 2

    brought.write(brought.certificate("issuing", "root", with_usage=False), brought.root)
    assert "keyUsage" in await brought.refusal(tmp_path)


async def test_a_brought_ca_certifies_and_the_leaf_lies_within_its_life(open_desk, brought, tmp_path):
    brought.issuing = brought.certificate("issuing", "root", days=(-90, 10))
    brought.write(brought.issuing, brought.root)
    desk = await open_desk(ca=brought.config(tmp_path)["ca"])
    leaf = await desk.leaf("a.example.com")

    leaf.verify_directly_issued_by(brought.issuing)
    assert leaf.not_valid_after_utc == brought.issuing.not_valid_after_utc


async def test_a_brought_ca_that_never_lived_long_enough_is_refused(tmp_path, brought):
    brought.write(brought.certificate("issuing", "root", days=(-1, 10)), brought.root)

    with pytest.raises(StartProblem, match=r"^\[ca\] validity_days: 90 days are more than the 1[01] that CA 'default' lives"):
        Kernel(brought.config(tmp_path))


async def test_a_ca_that_ends_before_its_certificates_would_is_told_in_the_log(tmp_path, brought, capfd):
    brought.write(brought.certificate("issuing", "root", days=(-90, 10)), brought.root)

    async with serve(brought.config(tmp_path)):
        pass

    assert "certificates end with their CA; renew it" in "".join(capfd.readouterr())


async def test_files_that_are_absent_are_made(tmp_path):
    config = document(tmp_path, ["ca"], ca={"key_file": str(tmp_path / "pki/ca.key"), "cert_file": str(tmp_path / "pki/certs/ca.pem")})
    async with serve(config) as service:
        first = chain(service)
        assert (tmp_path / "pki/ca.key").stat().st_mode & 0o777 == 0o600
        assert len(x509.load_pem_x509_certificates((tmp_path / "pki/certs/ca.pem").read_bytes())) == 2
        assert [row.purpose for row in await rows(service, KEYS)] == ["ca:default:root"]
    async with serve(config) as service:
        assert chain(service) == first


BROUGHT = {
    "a key alone": (lambda ca: ca.cert_file.unlink(), "is there without {ca.cert_file}"),
    "a certificate alone": (lambda ca: ca.key_file.unlink(), "is there without {ca.key_file}"),
    "a key that others can read": (lambda ca: ca.key_file.chmod(0o640), "run: chmod 600 {ca.key_file}"),
    "a key of another certificate": (lambda ca: ca.write_key("other"), "for another key"),
    "no CA": (lambda ca: ca.write(ca.certificate("issuing", "root", ca=False), ca.root), "is no CA certificate"),
    "a CA that ended": (lambda ca: ca.write(ca.certificate("issuing", "root", days=(-10, -1)), ca.root), "expired on"),
    "a CA of tomorrow": (lambda ca: ca.write(ca.certificate("issuing", "root", days=(1, 10)), ca.root), "is valid from"),
    "a root that is no CA": (lambda ca: ca.write(ca.issuing, ca.certificate("root", "root", ca=False)), "CN=root: is no CA certificate"),
    "no root": (lambda ca: ca.write(ca.issuing), "the root is missing at the end"),
    "another root": (lambda ca: ca.write(ca.issuing, ca.certificate("other", "other")), "CN=issuing was not issued by CN=other"),
    "an empty file": (lambda ca: ca.cert_file.write_bytes(b""), "cannot be read as PEM certificates"),
    "a file of something else": (lambda ca: ca.cert_file.write_bytes(b"nonsense"), "cannot be read as PEM certificates"),
    "PEM of something else": (
        lambda ca: ca.cert_file.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        "cannot be read as PEM certificates",
    ),
}


@pytest.mark.parametrize(("spoil", "words"), BROUGHT.values(), ids=BROUGHT)
async def test_files_that_cannot_be_a_ca_are_refused(tmp_path, brought, spoil, words):
    spoil(brought)

    assert words.format(ca=brought) in await brought.refusal(tmp_path)


async def test_an_encrypted_key_needs_its_password(tmp_path, brought):
    brought.write_key("issuing", b"secret")
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)

    assert "is encrypted" in await brought.refusal(tmp_path)
    async with serve(brought.config(tmp_path, key_password_file=str(password), require_encrypted_key=True)) as service:
        assert len(chain(service)) == 2
    password.write_text("wrong")
    assert "password" in await brought.refusal(tmp_path, key_password_file=str(password))


async def test_a_plain_key_is_refused_where_an_encrypted_one_is_required(tmp_path, brought):
    password = tmp_path / "password"
    password.write_text("secret")

    detail = await brought.refusal(tmp_path, key_password_file=str(password), require_encrypted_key=True)
    assert "require_encrypted_key" in detail


def with_sha1(certificate: x509.Certificate) -> x509.Certificate:
    """As old tools signed it, at least by name: nothing here makes SHA-1 signatures any more."""
    sha256_with_rsa = bytes.fromhex("06092a864886f70d01010b")
    der = certificate.public_bytes(Encoding.DER)
    assert der.count(sha256_with_rsa) == 2
    return x509.load_der_x509_certificate(der.replace(sha256_with_rsa, sha256_with_rsa[:-1] + b"\x05"))


async def test_how_an_old_root_signed_itself_is_not_looked_at_and_sha_1_below_it_is_refused(tmp_path, brought):
    brought.keys["root"] = rsa.generate_private_key(65537, 2048)
    root, issuing = brought.certificate("root", "root"), brought.certificate("issuing", "root")
    brought.write(issuing, with_sha1(root))
    async with serve(brought.config(tmp_path)) as service:  # RFC 5280 s6.1.1: a trust anchor is a name and a key
        assert len(chain(service)) == 2

    brought.write(with_sha1(issuing), root)
    detail = await brought.refusal(tmp_path)
    assert "the signature of CN=issuing by CN=root cannot be checked" in detail
    assert "sha1, 1.2.840.113549.1.1.5" in detail


@pytest.mark.parametrize("curve", [ec.SECP256K1(), ec.SECP521R1()], ids=lambda curve: curve.name)
async def test_a_key_of_a_type_that_no_ca_has_is_refused_with_those_that_are_possible(tmp_path, brought, curve):
    brought.keys["issuing"] = ec.generate_private_key(curve)
    brought.write_key("issuing")
    brought.write(brought.certificate("issuing", "root"), brought.root)

    detail = await brought.refusal(tmp_path)
    assert "the key is none of ec:P-256, ec:P-384, " in detail
