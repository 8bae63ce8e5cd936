"""What relying parties see: OpenSSL agrees with the inventory about every certificate, pkilint finds nothing in lists and answers."""

import asyncio
import subprocess
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from greatseal_ca.ocsp import MOST

ISSUED, REVOKED = 1000, 300
REASONS = (None, 0, 1, 3, 4, 5, 9)
PUBLIC = {"base_url": "https://ca.example.com"}


def openssl(folder: Path, *words: str) -> str:
    done = subprocess.run(["openssl", *words], cwd=folder, check=False, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


async def issue(desk, count: int):
    """``count`` certificates, reserved and recorded in few transactions."""
    csr = desk.make_csr("a.example.com")
    drafts = [await desk.compose("a.example.com", csr=csr) for _ in range(count)]
    prepared = await asyncio.gather(*(desk.db.write(desk.issuance.reserve, one) for one in drafts))
    issued = [await desk.issuance.issue(one) for one in prepared]
    return await asyncio.gather(*(desk.db.write(desk.issuance.record, *pair) for pair in zip(prepared, issued, strict=True)))


async def put_files(desk, folder: Path, certificates) -> list[str]:
    """Root, chain, lists and certificates in PEM; the names of the certificates' files."""
    lists = [x509.load_der_x509_crl((await desk.fetch(path))[2]) for path in ("/ca/crl", "/ca/root.crl")]
    (folder / "crls.pem").write_bytes(b"".join(one.public_bytes(Encoding.PEM) for one in lists))
    chain = [x509.load_der_x509_certificate(one) for one in desk.authority().chain]
    (folder / "root.pem").write_bytes(chain[-1].public_bytes(Encoding.PEM))
    (folder / "issuing.pem").write_bytes(chain[0].public_bytes(Encoding.PEM))
    for number, one in enumerate(certificates):
        (folder / f"{number}.pem").write_bytes(x509.load_der_x509_certificate(one.der).public_bytes(Encoding.PEM))
    return [f"{number}.pem" for number in range(len(certificates))]


async def test_openssl_agrees_with_the_inventory_about_a_thousand_certificates(desk, tmp_path):
    certificates = await issue(desk, ISSUED)
    reasons = {one.id: REASONS[number % len(REASONS)] for number, one in enumerate(certificates[::3][:REVOKED])}
    await asyncio.gather(
        *(desk.db.write(partial(desk.issuance.revoke, by="a"), id, reason) for id, reason in reasons.items() if reason != 1)
    )
    compromised = [await desk.db.write(partial(desk.issuance.revoke, by="a"), id, reason) for id, reason in reasons.items() if reason == 1]
    await desk.issuance.publish(compromised)
    files = await put_files(desk, tmp_path, certificates)
    trust = ("-CAfile", "root.pem", "-untrusted", "issuing.pem")

    verified = await asyncio.to_thread(openssl, tmp_path, "verify", "-crl_check_all", "-CRLfile", "crls.pem", *trust, *files)
    gone = {file for file, one in zip(files, certificates, strict=True) if one.id in reasons}
    assert len(gone) == REVOKED
    assert {file for file in files if f"error {file}: verification failed" in verified} == gone
    assert verified.count("certificate revoked") == REVOKED
    assert {line.partition(":")[0] for line in verified.splitlines() if line.endswith(": OK")} == set(files) - gone

    text = await asyncio.to_thread(openssl, tmp_path, "crl", "-in", "crls.pem", "-noout", "-text")
    serials = {line.split()[-1].lower() for line in text.splitlines() if "Serial Number" in line}
    assert serials == {one.serial.hex() for one in certificates if one.id in reasons}
    assert "Unspecified" not in text

    asked = ("-issuer", "issuing.pem", "-CAfile", "root.pem", "-url", f"{desk.service.url}/ca/ocsp")
    for begin in range(0, ISSUED, MOST):
        some = files[begin : begin + MOST]
        told = await asyncio.to_thread(openssl, tmp_path, "ocsp", *asked, *(word for file in some for word in ("-cert", file)))
        assert "Response verify OK" in told
        assert {line for line in told.splitlines() if ".pem: " in line} == {
            f"{file}: {'revoked' if file in gone else 'good'}" for file in some
        }


@pytest.mark.parametrize("key_type", ["ec:P-256", "ec:P-384", "rsa:2048", "ed25519", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87"])
async def test_pkilint_finds_nothing_in_lists_and_answers(open_desk, pkilint, key_type):
    desk = await open_desk(ca={"key_type": key_type, "organization": "Example"}, server=PUBLIC)
    certificates = [await desk.certify("a.example.com") for _ in REASONS]
    issuer = desk.authority().certificate
    answers, lists = [], [desk.parts.lists._listings["default", shard].served.der for shard in (0, 1)]
    for one, reason in zip(certificates, REASONS, strict=True):
        answers.append(await answer(desk, one, issuer))
        await desk.revoke(one, reason)
        answers += [await answer(desk, one, issuer), await answer(desk, one, issuer, nonce=b"n" * 32)]
    lists.append(desk.parts.lists._listings["default", 1].served.der)

    assert [pkilint.crl(one) for one in lists] == [[], [], []]
    assert [pkilint.ocsp(one) for one in answers] == [[]] * len(answers)


async def answer(desk, certificate, issuer, nonce=None) -> bytes:
    leaf = x509.load_der_x509_certificate(certificate.der)
    builder = ocsp.OCSPRequestBuilder().add_certificate(leaf, issuer, hashes.SHA256())
    asked = builder if nonce is None else builder.add_extension(x509.OCSPNonce(nonce), critical=False)
    return await desk.parts.status._responder.answer("default", asked.build().public_bytes(Encoding.DER))
