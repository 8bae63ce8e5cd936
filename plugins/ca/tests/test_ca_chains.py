"""What is no chain of a CA, each for its own reason; and the one request that waits."""

import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.api.moments import SECOND
from greatseal.api.problems import Conflict
from greatseal.testing.service import document, serve
from greatseal_ca.chains import check_chain
from greatseal_ca.generations import answer, ask, asked, forget


def without_constraints(brought) -> x509.Certificate:
    whole = brought.certificate("issuing", "root")
    found = [one for one in whole.extensions if not isinstance(one.value, x509.BasicConstraints)]
    builder = x509.CertificateBuilder(
        whole.issuer, whole.subject, whole.public_key(), 1, whole.not_valid_before_utc, whole.not_valid_after_utc, found
    )
    return builder.sign(brought.keys["root"], whole.signature_hash_algorithm)


def unreadable(brought) -> x509.Certificate:
    whole = brought.certificate("issuing", "root").public_bytes(Encoding.DER)
    constraints = bytes.fromhex("30030101ff")
    assert whole.count(constraints) == 1
    return x509.load_der_x509_certificate(whole.replace(constraints, bytes.fromhex("30030301ff")))


def with_key(brought, name, key, *words) -> x509.Certificate:
    brought.keys[name] = key
    return brought.certificate(*words)


def by_another_key_of_the_name(brought) -> x509.Certificate:
    brought.keys["root"] = ec.generate_private_key(ec.SECP256R1())
    return brought.certificate("issuing", "root")


KEY_USAGE = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
WRONG = {
    "a weak key": (
        lambda ca: with_key(ca, "issuing", rsa.generate_private_key(3, 2048), "issuing", "root"),
        "has a key that is not accepted",
    ),
    "ended": (lambda ca: ca.certificate("issuing", "root", days=(-9, -1)), "expired on"),
    "of tomorrow": (lambda ca: ca.certificate("issuing", "root", days=(1, 9)), "is valid from"),
    "unreadable": (unreadable, "has extensions that cannot be read"),
    "without constraints": (without_constraints, "is no CA certificate"),
    "no CA": (lambda ca: ca.certificate("issuing", "root", (KEY_USAGE, True), ca=False, with_usage=False), "is no CA certificate"),
    "may not sign": (lambda ca: ca.certificate("issuing", "root", with_usage=False), "is no CA certificate"),
    "of another key": (by_another_key_of_the_name, "was not issued by CN=root, which follows it"),
}


@pytest.mark.parametrize(("spoilt", "reason"), WRONG.values(), ids=WRONG)
def test_what_is_no_chain_is_refused_for_its_own_reason(brought, spoilt, reason):
    now = int(time.time()) * SECOND
    check_chain([brought.issuing, brought.root], now)

    with pytest.raises(ValueError, match=f"^CN=issuing:? {reason}"):
        check_chain([spoilt(brought), brought.root], now)


def test_a_chain_ends_with_its_root(brought):
    with pytest.raises(ValueError, match="the root is missing at the end"):
        check_chain([brought.issuing], int(time.time()) * SECOND)


async def test_one_request_waits_and_is_answered_or_given_up_once(tmp_path, brought):
    async with serve(document(tmp_path, ["ca"])) as service:
        db, der = service.host("ca").db, brought.root.public_bytes(Encoding.DER)
        assert await db.read(asked, "default") is None
        first = await db.write(ask, "default", "first", b"csr", elsewhere=True)
        with pytest.raises(Conflict, match="another request waits"):
            await db.write(ask, "default", "second", b"csr", elsewhere=True)
        assert await db.write(forget, first)
        second = await db.write(ask, "default", "second", b"csr", elsewhere=True)
        assert not await db.write(forget, first)
        with pytest.raises(Conflict, match="was answered or given up"):
            await db.write(answer, first, der, [])
        assert await db.read(asked, "default") == second
