import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, padding, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_public_key,
)

from greatseal.api.problems import StartProblem
from greatseal.jose.algorithms import verify
from greatseal.jose.jwk import thumbprint_of
from greatseal.keys.files import KeyFileProblem
from greatseal.keys.software import (
    KEY_TYPES,
    SoftwareSigner,
    info_of,
    private_from_der,
    private_to_der,
    signer_from_file,
    signer_from_pem,
)

EVERY = pytest.mark.parametrize("algorithm", list(KEY_TYPES))
JOSE = {"ec:P-256": "ES256", "ec:P-384": "ES384", "ed25519": "EdDSA", "rsa:2048": "RS256", "rsa:3072": "RS256", "rsa:4096": "RS256"}


@pytest.fixture(scope="module")
def key_for():
    made = {}

    def get(algorithm):
        if algorithm not in made:
            made[algorithm] = KEY_TYPES[algorithm].make()
        return made[algorithm]

    return get


@pytest.fixture
def signer_for(key_for, blocking):
    return lambda algorithm: SoftwareSigner(key_for(algorithm), info_of(key_for(algorithm), purpose="t", created_at=1), blocking)


def pem_of(key, format_=PrivateFormat.PKCS8, encryption=None):
    return key.private_bytes(Encoding.PEM, format_, encryption or NoEncryption())


@EVERY
def test_a_record_names_key_type_thumbprint_and_public_key(signer_for, algorithm):
    signer = signer_for(algorithm)

    assert signer.info.algorithm == algorithm
    assert signer.info.kid == thumbprint_of(signer.public_key)
    assert load_der_public_key(signer.info.spki) == signer.public_key


@EVERY
async def test_the_signature_is_the_one_that_x509_uses(signer_for, algorithm):
    signer = signer_for(algorithm)

    signature = await signer.sign(b"to be signed")

    match signer.public_key:
        case ec.EllipticCurvePublicKey() as key:
            key.verify(signature, b"to be signed", ec.ECDSA(hashes.SHA384() if algorithm == "ec:P-384" else hashes.SHA256()))
        case rsa.RSAPublicKey() as key:
            key.verify(signature, b"to be signed", padding.PKCS1v15(), hashes.SHA256())
        case key:
            key.verify(signature, b"to be signed")


@pytest.mark.parametrize("hash_alg", ["sha256", "sha384", "sha512"])
async def test_another_hash_is_used_where_the_algorithm_takes_one(signer_for, hash_alg):
    digest = getattr(hashes, hash_alg.upper())()

    for algorithm in ("ec:P-256", "ec:P-384"):
        signer = signer_for(algorithm)
        signer.public_key.verify(await signer.sign(b"x", hash_alg=hash_alg), b"x", ec.ECDSA(digest))
    signer = signer_for("rsa:3072")
    signer.public_key.verify(await signer.sign(b"x", hash_alg=hash_alg), b"x", padding.PKCS1v15(), digest)
    signer = signer_for("ed25519")
    signer.public_key.verify(await signer.sign(b"x", hash_alg=hash_alg), b"x")


@EVERY
async def test_the_signature_for_jose_is_the_one_of_the_algorithm(signer_for, algorithm):
    signer = signer_for(algorithm)

    verify(JOSE.get(algorithm, algorithm.upper()), signer.public_key, b"x", await signer.sign_jose(b"x"))


@EVERY
async def test_a_deterministic_signer_repeats_itself(signer_for, algorithm):
    signer = signer_for(algorithm)
    repeats = await signer.sign(b"x") == await signer.sign(b"x")

    assert repeats == signer.deterministic
    assert signer.deterministic == (not algorithm.startswith("ml-dsa"))


async def test_ecdsa_is_that_of_rfc_6979(blocking):
    key = ec.derive_private_key(0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721, ec.SECP256R1())
    signer = SoftwareSigner(key, info_of(key, purpose="t", created_at=1), blocking)

    # RFC 6979 A.2.5, SHA-256, "sample"
    assert (await signer.sign_jose(b"sample")).hex().upper() == (
        "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
    )


@pytest.mark.parametrize("method", ["sign", "sign_jose"])
@pytest.mark.parametrize(("algorithm", "threaded"), [("ec:P-256", False), ("ed25519", False), ("rsa:2048", True), ("ml-dsa-65", True)])
async def test_what_is_slow_is_signed_in_a_thread(signer_for, blocking, algorithm, threaded, method):
    await getattr(signer_for(algorithm), method)(b"x")

    assert list(blocking._pools) == ["signing"] * threaded


@EVERY
def test_a_key_goes_to_der_and_back(key_for, algorithm):
    key = key_for(algorithm)

    assert private_from_der(private_to_der(key)).public_key() == key.public_key()


# ---- keys brought as files


@pytest.mark.parametrize("format_", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("algorithm", ["ec:P-256", "rsa:2048"])
def test_a_pem_key_of_either_form_is_read(key_for, blocking, algorithm, format_):
    signer = signer_from_pem(pem_of(key_for(algorithm), format_), purpose="ca", created_at=5, blocking=blocking)

    assert signer.public_key == key_for(algorithm).public_key()
    assert (signer.info.kid, signer.info.purpose, signer.info.created_at) == (thumbprint_of(signer.public_key), "ca", 5)


def test_a_kid_may_be_given(key_for, blocking):
    assert signer_from_pem(pem_of(key_for("ec:P-256")), purpose="ca", created_at=5, blocking=blocking, kid="root").info.kid == "root"


def test_an_encrypted_pem_key_needs_its_password(key_for, blocking):
    pem = pem_of(key_for("ec:P-256"), encryption=BestAvailableEncryption(b"right"))

    assert signer_from_pem(pem, password=b"right", purpose="ca", created_at=5, blocking=blocking)
    with pytest.raises(ValueError, match="no password is given"):
        signer_from_pem(pem, purpose="ca", created_at=5, blocking=blocking)
    with pytest.raises(ValueError, match="password is wrong"):
        signer_from_pem(pem, password=b"wrong", purpose="ca", created_at=5, blocking=blocking)
    with pytest.raises(ValueError, match="is not encrypted"):
        signer_from_pem(pem_of(key_for("ec:P-256")), password=b"right", purpose="ca", created_at=5, blocking=blocking)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ec.generate_private_key(ec.SECP521R1()),
        lambda: ec.generate_private_key(ec.SECP256K1()),
        ed448.Ed448PrivateKey.generate,
        x25519.X25519PrivateKey.generate,
        lambda: dsa.generate_private_key(1024),
        lambda: rsa.generate_private_key(65537, 1024),
    ],
)
def test_a_key_of_another_type_is_refused_with_those_that_are_not(make, blocking):
    with pytest.raises(ValueError, match=r"none of|no form"):
        signer_from_pem(pem_of(make()), purpose="ca", created_at=5, blocking=blocking)


def test_a_key_that_nobody_should_trust_is_refused(blocking):
    with pytest.raises(ValueError, match="exponent"):
        signer_from_pem(pem_of(rsa.generate_private_key(3, 2048)), purpose="ca", created_at=5, blocking=blocking)


def test_a_key_that_does_not_sign_is_none_of_ours():
    with pytest.raises(ValueError, match="not a private key that signs"):
        private_from_der(private_to_der(x25519.X25519PrivateKey.generate()))


@pytest.mark.parametrize("data", [b"", b"x", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_pem_key_is_refused(data, blocking):
    with pytest.raises(ValueError, match="no PEM private key"):
        signer_from_pem(data, purpose="ca", created_at=5, blocking=blocking)


def test_a_key_file_is_for_its_owner_alone(key_for, blocking, tmp_path):
    path = tmp_path / "ca.pem"
    path.write_bytes(pem_of(key_for("ec:P-256")))
    path.chmod(0o600)
    assert signer_from_file(path, purpose="ca", blocking=blocking).public_key == key_for("ec:P-256").public_key()

    path.chmod(0o644)
    with pytest.raises(StartProblem, match=f"chmod 600 {path}"):
        signer_from_file(path, purpose="ca", blocking=blocking)


def test_a_key_file_that_cannot_be_used_is_one_line(blocking, tmp_path):
    with pytest.raises(KeyFileProblem, match="cannot be read: No such file"):
        signer_from_file(tmp_path / "absent.pem", purpose="ca", blocking=blocking)
    path = tmp_path / "ca.pem"
    path.write_bytes(b"certificate")
    path.chmod(0o600)
    with pytest.raises(KeyFileProblem, match=r"ca\.pem: this is no PEM private key"):
        signer_from_file(path, purpose="ca", blocking=blocking)


async def test_the_rings_read_key_files_for_plugins(key_for, rings, tmp_path):
    path = tmp_path / "ca.pem"
    path.write_bytes(pem_of(key_for("ec:P-384")))
    path.chmod(0o400)

    signer = rings.from_file(path, purpose="ca:default:root")

    assert signer.info.algorithm == "ec:P-384"
    assert rings.ring("ca:default:root").all() == ()
