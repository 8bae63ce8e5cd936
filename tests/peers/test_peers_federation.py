"""A federation whose entities are software that we did not write: @openid-federation/core makes and checks all statements."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import trustme
from cryptography.hazmat.primitives.asymmetric import ec
from peers.test_peers_oidc_node import SCRIPTS, node
from rig.conversations import conversation
from rig.provider import CALLBACK, Person, Provider

from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of, thumbprint_of
from greatseal.testing.service import free_port

PACKAGE = "@openid-federation/core"


class Anchored:
    """A provider with one trust anchor, whose entities a script serves over TLS."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.roots = folder / "roots.pem"
        authority.cert_pem.write_to_path(str(self.roots))
        self.port = free_port()
        self.base = f"https://localhost:{self.port}"
        self.certificate, self.key = folder / "entities.pem", folder / "entities.key"
        issued = authority.issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(str(self.certificate))
        issued.private_key_pem.write_to_path(str(self.key))
        anchor = ec.generate_private_key(ec.SECP256R1())
        public = {**jwk_of(anchor.public_key()), "kid": thumbprint_of(anchor.public_key())}
        self.anchor_key = {**public, "d": b64url_encode(anchor.private_numbers().private_value.to_bytes(32))}
        self.provider = Provider(folder, authority=authority)
        federation = {
            "authority_hints": [f"{self.base}/anchor"],
            "trust_anchors": [{"entity_id": f"{self.base}/anchor", "jwks": {"keys": [public]}}],
            "allow_private_entity_hosts": True,
        }
        text = self.provider.configuration.read_text()
        self.provider.configuration.write_text(f"{text}\n{tomlkit.dumps({'federation': federation})}")


@pytest.fixture(scope="module")
def anchored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Anchored]:
    node(PACKAGE)
    anchored = Anchored(tmp_path_factory.mktemp("anchored"))
    with anchored.provider.forked({"SSL_CERT_FILE": str(anchored.roots)}):
        yield anchored


@pytest.fixture
def visitor(anchored: Anchored) -> Iterator[Person]:
    person = Person(anchored.provider.issuer)
    with person.session:
        person.session.trust_env = False
        person.session.verify = str(anchored.roots)
        yield person


def run(anchored: Anchored, visitor: Person, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Any:
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(anchored.roots))
    settings = {
        "issuer": anchored.provider.issuer,
        "redirect_uri": CALLBACK,
        "base": anchored.base,
        "port": anchored.port,
        "certificate": str(anchored.certificate),
        "key": str(anchored.key),
        "anchor_key": anchored.anchor_key,
        "leaf": "rp",
        **more,
    }
    return conversation([node(PACKAGE), SCRIPTS / "openid-federation.mjs"], settings, visitor)


def test_idp_185_a_foreign_federation_finds_the_provider_and_its_program_signs_a_person_in(
    anchored: Anchored, visitor: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(anchored, visitor, monkeypatch)

    assert found["chains"] == 1
    assert found["registration"] == ["automatic"]
    assert found["pushed"]["status"] == 201, found["pushed"]
    assert found["claims"]["aud"] == f"{anchored.base}/rp"
    assert found["claims"]["nonce"] == "n"
    assert found["asked"].count("rp/openid-federation") == 1


def test_policies_of_a_foreign_federation_that_conflict_shut_its_program_out(
    anchored: Anchored, visitor: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(anchored, visitor, monkeypatch, leaf="conflicting", conflict=True)

    assert (found["pushed"]["status"], found["pushed"]["error"]) == (400, "invalid_metadata")
    assert "token_endpoint_auth_method" in found["pushed"]["error_description"]
