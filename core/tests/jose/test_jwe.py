"""JWEs with the examples of the RFCs, those of a stranger's library, and what is refused."""

import json
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st
from jwcrypto import jwe, jwk

from greatseal.api.keys import Decrypter, KeyInfo
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.jose.jwe import AGREEMENTS, ENCRYPTIONS, LONGEST, TRANSPORTS, UNOPENED, BadJwe, parse_jwe
from greatseal.jose.jwk import jwk_of
from greatseal.keys.software import SoftwareSigner

# RFC 7516 A.1.
VECTOR = (
    "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.OKOawDo13gRp2ojaHV7LFpZcgV7T6DVZKTyKOMTYUmKoTCVJRgckCL9kiMT03JGeipsEdY3mx_etLbbWSrF"
    "r05kLzcSr4qKAq7YN7e9jwQRb23nfa6c9d-StnImGyFDbSv04uVuxIp5Zms1gNxKKK2Da14B8S4rzVRltdYwam_lDp5XnZAYpQdb76FdIKLaVmqgfwX7XWRxv2322i-"
    "vDxRfqNzo_tETKzpVLzfiwQyeyPGLBIO56YJ7eObdv0je81860ppamavo35UgoRdbYaBcoh9QcfylQr66oc6vFWXRcZ_ZT2LawVCWTIy3brGPi6UklfCpIMfIjf7iGdXKH"
    "zg.48V1_ALb6US04U3b.5eym8TW_c8SuK0ltJ3rpYIzOeDQz7TALvtu6UG9oMo4vpzs9tX_EFShS8iB7j6jiSdiwkIr3ajwQzaBtQD_A.XFBoMYUZodetZdvTiFvSkQ"
)
A1_N = (
    "oahUIoWw0K0usKNuOR6H4wkf4oBUXHTxRvgb48E-"
    "BVvxkeDNjbC4he8rUWcJoZmds2h7M70imEVhRU5djINXtqllXI4DFqcI1DgjT9LewND8MW2Krf3Spsk_ZkoFnilakGygTwpZ3uesH-"
    "PFABNIUYpOiN15dsQRkgr0vEhxN92i2asbOenSZeyaxziK72UwxrrKoExv6kc5twXTq4h-QChLOln0_mtUZwfsRaMStPs6mS6XrgxnxbWhojf663tuEQueGC-"
    "FCMfra36C9knDFGzKsNa7LZK2djYgyD3JR_MB_4NUJW_TqOQtwHYbxevoJArm-L5StowjzGy-_bq6Gw"
)
A1_D = (
    "kLdtIj6GbDks_ApCSTYQtelcNttlKiOyPzMrXHeI-yk1F7-kpDxY4-"
    "WY5NWV5KntaEeXS1j82E375xxhWMHXyvjYecPT9fpwR_M9gV8n9Hrh2anTpTD93Dt62ypW3yDsJzBnTnrYu1iwWRgBKrEYY46qAZIrA2xAwnm2X7uGR1hghkqDp0Vqj3kb"
    "SCz1XyfCs6_LehBwtxHIyh8Ripy40p24moOAbgxVw3rxT_vlt3UVe4WO3JkJOzlpUf-KTVI2Ptgm-dARxTEtE-id-4OJr0h-K-"
    "VFs3VSndVTIznSxfyrj8ILL6MG_Uv8YAu7VILSB3lOW085-4qE3DzgrTjgyQ"
)
A1_P = (
    "1r52Xk46c-LsfB5P442p7atdPUrxQSy4mti_tZI3Mgf2EuFVbUoDBvaRQ-"
    "SWxkbkmoEzL7JXroSBjSrK3YIQgYdMgyAEPTPjXv_hI2_1eTSPVZfzL0lffNn03IXqWF5MDFuoUYE0hzb2vhrlN_rKrbfDIwUbTrjjgieRbwC6Cl0"
)
A1_Q = (
    "wLb35x7hmQWZsWJmB_vle87ihgZ19S8lBEROLIsZG4ayZVe9Hi9gDVCOBmUDdaDYVTSNx_8Fyw1YYa9XGrGnDew00J28cRUoeBB_jKI1oma0Orv1T9aXIWxKwd4gvxFImO"
    "Wr3QRL9KEBRzk2RatUBnmDZJTIAfwTs0g68UZHvtc"
)
A1_DP = (
    "ZK-YwE7diUh0qR1tR7w8WHtolDx3MZ_OTowiFvgfeQ3SiresXjm9gZ5KLhMXvo-uz-"
    "KUJWDxS5pFQ_M0evdo1dKiRTjVw_x4NyqyXPM5nULPkcpU827rnpZzAJKpdhWAgqrXGKAECQH0Xt4taznjnd_zVpAmZZq60WPMBMfKcuE"
)
A1_DQ = (
    "Dq0gfgJ1DdFGXiLvQEZnuKEN0UUmsJBxkjydc3j4ZYdBiMRAy86x0vHCjywcMlYYg4yoC4YZa9hNVcsjqA3FeiL19rk8g6Qn29Tt0cj8qqyFpz9vNDBUfCAiJVeESOjJDZ"
    "PYHdHY8v1b-o-Z2X5tvLx-TCekf7oxyeKDUqKWjis"
)
A1_QI = (
    "VIMpMYbPf47dT1w_zDUXfPimsSegnMOA1zTaX7aGk_8urY6R8-"
    "ZW1FxU7AlWAyLWybqq6t16VFd7hQd0y6flUK4SlOydB61gwanOsXGOAOv82cHq0E3eL4HrtZkUuKvnPrMnsUUFlfUdybVzxyjz9JF_XyaY14ardLSjf4L_FNY"
)


def number(text):
    return int.from_bytes(b64url_decode(text))


async def run(_pool, fn, *arguments):
    return fn(*arguments)


def holder(key, algorithm):
    info = KeyInfo(kid="k", purpose="x", algorithm=algorithm, state="active", created_at=0, spki=b"")
    return SoftwareSigner(key, info, SimpleNamespace(run=run))


PUBLIC = rsa.RSAPublicNumbers(65537, number(A1_N))
A1 = rsa.RSAPrivateNumbers(number(A1_P), number(A1_Q), number(A1_D), number(A1_DP), number(A1_DQ), number(A1_QI), PUBLIC).private_key()
EC, OTHER_EC = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
RSA, OTHER_RSA = (rsa.generate_private_key(65537, 2048) for _ in range(2))
KEYS = {"ec": holder(EC, "ec:P-256"), "rsa": holder(RSA, "rsa:2048")}


def key_of(alg):
    return KEYS["rsa" if alg in TRANSPORTS else "ec"]


def made(text=b"inside", *, alg="ECDH-ES", enc="A128GCM", to=None, **header):
    """As jwcrypto makes it."""
    whole = jwe.JWE(text, json.dumps({"alg": alg, "enc": enc, **header}), algs=[alg, enc])
    whole.add_recipient(jwk.JWK(**jwk_of(to or key_of(alg).public_key)))
    return whole.serialize(compact=True)


def changed(text, part, value):
    parts = text.split(".")
    parts[part] = value if isinstance(value, str) else b64url_encode(value)
    return ".".join(parts)


def headed(text, **changes):
    header = {**json.loads(b64url_decode(text.split(".")[0])), **changes}
    return changed(text, 0, json.dumps({name: value for name, value in header.items() if value is not None}).encode())


async def test_the_example_of_rfc_7516_is_opened():
    expected = b"The true sign of intelligence is not knowledge but imagination."

    assert await parse_jwe(VECTOR).open(holder(A1, "rsa:2048")) == expected


async def test_the_agreement_of_rfc_7518_gives_its_key():
    """Appendix C: the key is agreed, so that what it encrypts is opened."""
    bob = ec.derive_private_key(number("VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw"), ec.SECP256R1())
    alice = {
        "kty": "EC",
        "crv": "P-256",
        "x": "gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0",
        "y": "SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps",
    }
    header = b64url_encode(json.dumps({"alg": "ECDH-ES", "enc": "A128GCM", "apu": "QWxpY2U", "apv": "Qm9i", "epk": alice}).encode())
    sealed = AESGCM(b64url_decode("VqqN6vgjbSBcIijNcacQGg")).encrypt(bytes(12), b"agreed", header.encode())
    text = ".".join([header, "", b64url_encode(bytes(12)), b64url_encode(sealed[:-16]), b64url_encode(sealed[-16:])])

    assert await parse_jwe(text).open(holder(bob, "ec:P-256")) == b"agreed"


@pytest.mark.parametrize("enc", ENCRYPTIONS)
@pytest.mark.parametrize("alg", [*TRANSPORTS, *AGREEMENTS])
async def test_each_algorithm_opens_what_a_stranger_encrypted(alg, enc):
    text = made(alg=alg, enc=enc)

    assert await parse_jwe(text).open(key_of(alg)) == b"inside"
    for part in (1, 2, 3, 4):
        before = b64url_decode(text.split(".")[part]) or b"xx"
        for other in (bytes([before[0] ^ 1]) + before[1:], before[:-1], before + b"x", b""):
            if b64url_encode(other) == text.split(".")[part]:
                continue
            with pytest.raises(BadJwe, match=UNOPENED):
                await parse_jwe(changed(text, part, other)).open(key_of(alg))
    with pytest.raises(BadJwe, match=UNOPENED):
        await parse_jwe(headed(text, x=1)).open(key_of(alg))
    for other in (holder(OTHER_EC, "ec:P-256"), holder(OTHER_RSA, "rsa:2048")):
        with pytest.raises(BadJwe, match=UNOPENED):
            await parse_jwe(text).open(other)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"zip": "DEF"}, "zip"),
        ({"zip": None, "crit": ["x"]}, "crit"),
        ({"alg": "RSA1_5"}, "alg of the JWE is none of"),
        ({"alg": "dir"}, "alg of the JWE is none of"),
        ({"alg": "A128KW"}, "alg of the JWE is none of"),
        ({"alg": "PBES2-HS256+A128KW", "p2c": 2**31}, "alg of the JWE is none of"),
        ({"alg": ["ECDH-ES"]}, "alg of the JWE is none of"),
        ({"alg": None}, "alg of the JWE is none of"),
        ({"enc": "A192GCM"}, "enc of the JWE is none of"),
        ({"enc": {}}, "enc of the JWE is none of"),
    ],
)
def test_s118_what_is_not_offered_is_refused_before_anything_is_decrypted(change, said):
    with pytest.raises(BadJwe, match=said):
        parse_jwe(headed(made(), **change))


def test_what_is_no_jwe_is_refused():
    for text in ("", "a.b.c", "....", "a.b.c.d.e", changed(made(), 2, "=="), changed(made(), 0, b"[]"), made(b"x" * LONGEST)):
        with pytest.raises(BadJwe):
            parse_jwe(text)


@pytest.mark.parametrize(
    "change",
    [
        {"epk": None},
        {"epk": "x"},
        {"epk": jwk_of(RSA.public_key())},
        {"epk": jwk_of(ec.generate_private_key(ec.SECP384R1()).public_key())},
        {"epk": {**jwk_of(OTHER_EC.public_key()), "y": jwk_of(EC.public_key())["y"]}},
        {"epk": {**jwk_of(OTHER_EC.public_key()), "d": "x"}},
        {"apu": 1},
        {"apv": "=="},
        {"apu": b64url_encode(bytes(513))},
    ],
)
async def test_a_sender_s_key_that_is_none_of_the_curve_is_refused(change):
    with pytest.raises(BadJwe, match=UNOPENED):
        await parse_jwe(headed(made(), **change)).open(KEYS["ec"])


async def test_each_part_has_its_length():
    """A key of 256 bits is none for A128GCM, a JWE is spelt in one way, and who is named is named shortly."""
    text = made(alg="ECDH-ES", enc="A128GCM")
    ciphertext, tag = (b64url_decode(part) for part in text.split(".")[3:])
    moved = changed(changed(text, 3, ciphertext[:-1]), 4, ciphertext[-1:] + tag)
    long = made(alg="ECDH-ES", enc="A128GCM", apu=b64url_encode(bytes(513)))
    header = b64url_encode(b'{"alg":"RSA-OAEP-256","enc":"A128GCM"}')
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    sealed = AESGCM(bytes(32)).encrypt(bytes(12), b"inside", header.encode())
    key = b64url_encode(RSA.public_key().encrypt(bytes(32), oaep))
    wide = ".".join([header, key, *map(b64url_encode, (bytes(12), sealed[:-16], sealed[-16:]))])

    for one in (moved, long, wide):
        with pytest.raises(BadJwe, match=UNOPENED):
            await parse_jwe(one).open(key_of(parse_jwe(one).alg))


async def test_a_key_does_what_its_type_does():
    public = OTHER_EC.public_key()
    assert all(isinstance(one, Decrypter) for one in KEYS.values())
    assert await KEYS["ec"].agree(public) == await holder(OTHER_EC, "ec:P-256").agree(EC.public_key())
    with pytest.raises(ValueError, match="decrypts nothing"):
        await KEYS["ec"].decrypt(b"x", hash_alg="sha256")
    for one in (KEYS["rsa"], holder(ed25519.Ed25519PrivateKey.generate(), "ed25519")):
        with pytest.raises(ValueError, match="agrees on nothing"):
            await one.agree(public)


TEXTS = {alg: made(alg=alg, enc="A128CBC-HS256") for alg in (*TRANSPORTS, *AGREEMENTS)}


@given(st.sampled_from(sorted(TEXTS)), st.integers(0, 10_000), st.characters(codec="ascii"))
async def test_another_character_anywhere_spoils_it(alg, place, character):
    text = TEXTS[alg]
    place %= len(text)
    other = text[:place] + character + text[place + 1 :]
    if other == text:
        return
    try:
        jwe_ = parse_jwe(other)
    except BadJwe:
        return
    with pytest.raises(BadJwe):
        await jwe_.open(key_of(alg))


@given(st.text(max_size=200) | st.lists(st.binary(max_size=40).map(b64url_encode), min_size=5, max_size=5).map(".".join))
def test_any_text_is_refused(text):
    with pytest.raises(BadJwe):
        parse_jwe(text)
