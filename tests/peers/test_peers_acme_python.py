"""The library that certbot is made of, used by itself: an account, an order, when to renew, what was revoked, the end of the account."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from rig.acme import csr_for
from rig.clients import verified
from rig.server import Server

NAMES = ("first.example.test", "second.example.test")
SUPERSEDED = 4

Library = Callable[[str, str], Any]


def test_the_python_library_gets_asks_when_to_renew_and_revokes(server: Server, webroot: Path, library: Library) -> None:
    client, challenges, messages = (library(f"acme.{name}", "acme") for name in ("client", "challenges", "messages"))
    josepy = library("josepy", "josepy")
    key = josepy.JWKEC(key=ec.generate_private_key(ec.SECP256R1()))
    network = client.ClientNetwork(key, alg=josepy.ES256, user_agent="tests")
    acme = client.ClientV2(client.ClientV2.get_directory(server.directory, network), network)
    account = acme.new_account(messages.NewRegistration.from_data(email="ann@example.com", terms_of_service_agreed=True))
    csr = x509.load_der_x509_csr(csr_for(*NAMES)).public_bytes(Encoding.PEM)

    order = acme.new_order(csr)
    for authorization in order.authorizations:
        (chosen,) = [one for one in authorization.body.challenges if isinstance(one.chall, challenges.HTTP01)]
        response, content = chosen.response_and_validation(key)
        (webroot / chosen.chall.encode("token")).write_text(content)
        acme.answer_challenge(chosen, response)
    done = acme.poll_and_finalize(order)
    leaf = verified(done.fullchain_pem, server, *NAMES)
    pem = leaf.public_bytes(Encoding.PEM)
    begin, _ = acme.renewal_time(pem)

    assert acme.query_registration(account).body.contact == ("mailto:ann@example.com",)
    assert begin.timestamp() > (leaf.not_valid_before_utc + (leaf.not_valid_after_utc - leaf.not_valid_before_utc) / 2).timestamp()
    acme.revoke(leaf, SUPERSEDED)
    now, _ = acme.renewal_time(pem)
    assert now.timestamp() <= time.time()
    with pytest.raises(messages.Error, match="alreadyRevoked"):
        acme.revoke(leaf, SUPERSEDED)
    acme.deactivate_registration(account)
    with pytest.raises(messages.Error, match="unauthorized"):
        acme.new_order(csr)
