"""Certificates by authority tokens with the software of others: certbot's library orders, joserfc writes the token, OpenSSL verifies.

The library is told the names of identifier and challenge, for no ACME client of the registries knows claim constraints.
"""

import subprocess
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import tomlkit
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from joserfc import jwk, jwt
from rig.server import Server

Library = Callable[[str, str], Any]
TYPE, ISSUER = "JWTClaimConstraints", "https://authority.example"
VALUE = "ME-gBzAFFgNzdWKhRDBCMBwWA3N1YjAVDBNhbGljZUBDSEFOQ0VSWS5URVNUMCIWA2lzczAbDBlodHRwczovL2lkcC5jaGFuY2VyeS50ZXN0"
EXTENSION = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.33")


def test_the_python_library_gets_a_certificate_by_an_authority_token(tmp_path: Path, library: Library) -> None:
    client, challenges, messages = (library(f"acme.{name}", "acme") for name in ("client", "challenges", "messages"))
    josepy = library("josepy", "josepy")
    authority, key = jwk.ECKey.generate_key("P-256"), ec.generate_private_key(ec.SECP256R1())
    told = type("Tkauth01", (challenges._TokenChallenge,), {"typ": "tkauth-01"})
    members = {"typ": "tkauth-01", "tkauth": josepy.field("tkauth"), "__annotations__": {"tkauth": str}}
    response = type("Tkauth01Response", (challenges.ChallengeResponse,), members)
    challenges.Challenge.register(told)
    server = serving(tmp_path, authority)
    with server.forked():
        network = client.ClientNetwork(josepy.JWKEC(key=key), alg=josepy.ES256, user_agent="tests")
        acme = client.ClientV2(client.ClientV2.get_directory(server.directory, network), network)
        acme.new_account(messages.NewRegistration.from_data(email="ann@example.com", terms_of_service_agreed=True))

        identifier = messages.Identifier(typ=messages.IdentifierType(TYPE), value=VALUE)
        made = acme._post(acme.directory["newOrder"], messages.NewOrder(identifiers=[identifier]))
        body = messages.Order.from_json(made.json())
        proofs = [acme._authzr_from_response(acme._post_as_get(url), uri=url) for url in body.authorizations]
        order = messages.OrderResource(body=body, uri=made.headers["Location"], authorizations=proofs, csr_pem=request())
        ((chosen,),) = [one.body.challenges for one in proofs]
        assert isinstance(chosen.chall, told)
        acme.answer_challenge(chosen, response(tkauth=token(authority, key)))
        done = acme.poll_and_finalize(order, datetime.now() + timedelta(seconds=60))  # noqa: DTZ005  # as the library compares

        leaf, _ = x509.load_pem_x509_certificates(done.fullchain_pem.encode())
        (tmp_path / "root.pem").write_bytes(server.root().public_bytes(Encoding.PEM))
        (tmp_path / "chain.pem").write_text(done.fullchain_pem)
        files = ["-CAfile", str(tmp_path / "root.pem"), "-untrusted", str(tmp_path / "chain.pem"), str(tmp_path / "chain.pem")]
        verified = subprocess.run(["openssl", "verify", "-x509_strict", *files], check=False, capture_output=True, text=True)

    assert verified.returncode == 0, verified.stderr
    assert leaf.extensions.get_extension_for_oid(EXTENSION).value.public_bytes() == urlsafe_b64decode(f"{VALUE}==")


def serving(folder: Path, authority: jwk.ECKey) -> Server:
    """A CA that trusts the authority."""
    server = Server(folder)
    issuers = [{"issuer": ISSUER, "jwks": {"keys": [authority.as_dict(private=False)]}}]
    text = server.configuration.read_text().replace('sets = ["ca"]', 'sets = ["ca"]\nenabled = ["tkauth-01"]')
    server.configuration.write_text(f"{text}\n{tomlkit.dumps({'tkauth': {'authorities': issuers}})}")
    return server


def token(authority: jwk.ECKey, key: ec.EllipticCurvePrivateKey) -> str:
    """What the authority says of the account key."""
    digest = urlsafe_b64decode(jwk.ECKey.import_key(key.public_key()).thumbprint() + "=")
    atc = {"tktype": TYPE, "tkvalue": VALUE, "fingerprint": "SHA256 " + ":".join(f"{octet:02X}" for octet in digest), "ca": False}
    return jwt.encode({"alg": "ES256", "typ": "JWT"}, {"iss": ISSUER, "exp": int(time.time()) + 600, "jti": "1", "atc": atc}, authority)


def request() -> bytes:
    """A CSR with the constraints."""
    extension = x509.UnrecognizedExtension(EXTENSION, urlsafe_b64decode(f"{VALUE}=="))
    builder = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(extension, critical=False)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)
