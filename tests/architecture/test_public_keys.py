"""Every public key that is loaded or taken passes the one rule, ``greatseal.jose.acceptance.accept_public_key``."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULE = "accept_public_key"

MAKES = {
    "load_der_public_key", "load_pem_public_key", "load_ssh_public_key", "load_ssh_public_identity", "from_public_bytes",
    "from_encoded_point", "RSAPublicNumbers", "EllipticCurvePublicNumbers", "DSAPublicNumbers", "DHPublicNumbers", "JWK", "JWKSet",
}  # fmt: skip
"""Calls that give a public key."""
USES = {
    "is_signature_valid", "verify_directly_issued_by", "load_cert_chain", "load_verify_locations", "from_issuer_public_key",
    "load_key_and_certificates", "load_pkcs12", "PolicyBuilder",
}  # fmt: skip
"""What uses the key inside of something that was loaded, without giving it."""

NEED_NOT = {
    "plugins/client-auth-mtls/src/greatseal_client_auth_mtls/certificates.py:_signed": "the key is a CA's that the operator names",
    "core/src/greatseal/ctl/client.py:_connection": "a person's own certificate, which the service judges",
    "core/src/greatseal/http/tls.py:_made": "roots, which OpenSSL judges; whoever reads the certificate of a client passes its key",
    "core/src/greatseal/http/tls.py:tls_context": "_check_key, which it calls, passes the key of the certificate",
    "core/src/greatseal/jose/jwk.py:_akp": "public_key, which calls it, passes what it returns",
    "core/src/greatseal/jose/jwk.py:_ec": "public_key, which calls it, passes what it returns",
    "core/src/greatseal/jose/jwk.py:_okp": "public_key, which calls it, passes what it returns",
    "core/src/greatseal/jose/jwk.py:_rsa": "public_key, which calls it, passes what it returns",
    "core/src/greatseal/keys/given.py:_key_in": "to be blocked, whatever it is",
    "core/src/greatseal/keys/given.py:the module": "to be blocked, whatever it is",
    "core/src/greatseal/keys/software.py:__init__": "info_of passed the key when it was made or brought",
    "plugins/ca/src/greatseal_ca/authority.py:sign_recorded": "of our own root certificate, which was made here",
    "plugins/ca/src/greatseal_ca/build.py:authority_key_identifier": "of our own CA certificate, which was checked when it was opened",
    "plugins/ca/src/greatseal_ca/chains.py:_unproven": "_unfit passed the key of each certificate",
    "plugins/ca/src/greatseal_ca/chains.py:spki_of": "compared with the key of the signer, which passed",
    "plugins/ca/src/greatseal_ca/commands.py:_key_type": "of a CA certificate of this service, to be shown",
    "plugins/ca/src/greatseal_ca/delegation.py:_check": "of our own CA certificate, which was checked when it was opened",
    "plugins/ca/src/greatseal_ca/issuer.py:issue": "of our own CA certificate, which was checked when it was opened",
    "plugins/ca/src/greatseal_ca/lists.py:_verify": "of our own CA certificate, which was checked when it was opened",
    "plugins/ca/src/greatseal_ca/status.py:_root": "compared with the keys of signers, which passed",
    "plugins/mtc/src/greatseal_mtc/settings.py:_key_in": "key_of_spki, which it calls, passes it",
    "plugins/passkey/src/greatseal_passkey/attestation.py:_identifier": "its digest names a model; what checks with it passes it first",
    "plugins/jar/src/greatseal_jar/encryption.py:encrypted": "encryption_key, whose key it gets, passed it",
}
"""Functions that take a key and need not pass it, and why."""


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def gives_key(node: ast.AST) -> bool:
    """Whether it is a call of a maker, or of ``public_key()`` of a certificate, a request or a private key."""
    if not isinstance(node, ast.Call):
        return False
    method = isinstance(node.func, ast.Attribute) and not node.args and not node.keywords
    return name_of(node.func) in MAKES or (method and name_of(node.func) == "public_key")


def parts(function: ast.AST) -> Iterator[ast.AST]:
    """What is inside of it, but not inside of a function in it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from parts(child)


def forgetful(source: str) -> set[str]:
    """The functions that take a public key and do not pass it through the rule, in line or by its name."""
    if not any(word in source for word in {"public_key", *MAKES, *USES}):
        return set()
    tree = ast.parse(source)
    found = set()
    for function in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))]:
        inside = list(parts(function))
        passed = [argument for node in inside if isinstance(node, ast.Call) and name_of(node.func) == RULE for argument in node.args]
        names = {one.id for one in passed if isinstance(one, ast.Name)}
        named = [node.value for node in inside if isinstance(node, ast.Assign) and {name_of(target) for target in node.targets} <= names]
        taken = [node for node in inside if gives_key(node) and node not in passed and node not in named]
        called = [node.func for node in inside if isinstance(node, ast.Call)]
        unseen = [node for node in inside if name_of(node) in USES or (name_of(node) in MAKES and node not in called)]
        if taken or (unseen and not passed):
            found.add(getattr(function, "name", "the module"))
    return found


FORGETFUL = {
    "def f(spki): return load_der_public_key(spki)": True,
    "def f(spki): return accept_public_key(load_der_public_key(spki))": False,
    "def f(csr): return csr.public_key()": True,
    "def f(csr):\n  key = csr.public_key()\n  return key": True,
    "def f(csr):\n  key = csr.public_key()\n  return accept_public_key(key)": False,
    "def f(csr, other):\n  accept_public_key(other)\n  return csr.public_key()": True,
    "def f(csr):\n  def g(other):\n    return accept_public_key(other)\n  return csr.public_key()": True,
    "def f(csr): return csr.is_signature_valid": True,
    "def f(x): return Ed25519PublicKey.from_public_bytes(x)": True,
    "KEY = serialization.load_pem_public_key(TEXT)": True,
    "READ = (load_der_public_key, load_pem_public_key)": True,
    "def f(jwk): return public_key(jwk)": False,
    "def f(signer): return signer.public_key": False,
}


@pytest.mark.parametrize(("source", "forgets"), FORGETFUL.items())
def test_a_key_that_does_not_pass_the_rule_is_seen(source: str, forgets: bool):
    assert bool(forgetful(source)) is forgets


def test_every_public_key_that_is_loaded_passes_the_one_rule():
    sources = [path for pattern in ("core/src/**/*.py", "plugins/*/src/**/*.py") for path in sorted(ROOT.glob(pattern))]
    found = {
        f"{path.relative_to(ROOT)}:{name}"
        for path in sources
        if "greatseal/testing/" not in str(path)
        for name in forgetful(path.read_text())
    }

    assert found - NEED_NOT.keys() == set(), "pass the key through greatseal.jose.acceptance.accept_public_key"
    assert NEED_NOT.keys() - found == set(), "these take no key any more"
