"""Values of ``ipapasskey``: those of FreeIPA's own tests, and that what is written here is read there."""

from base64 import b64decode, b64encode

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key, load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.passkeys import Passkey
from greatseal.testing.passkeys import some_passkey
from greatseal_ipa.passkeys import parsed, written

# ipatests/test_xmlrpc/test_passkey_plugin.py of FreeIPA 4.11
SERVER_SIDE = (
    "passkey:E8Zay6UJm6PG/GcQnej2WMyUrWqijejBCqPWFX6THPrxab01Z59bUgutipn5MIk8/zMU6RBlp7jSbkNJsZtomw==,"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEgryfr3YRM9OVdWHEDrbvcSyT5D0b/8Ks+fMp8MM0BXV/FOo436ZPjUqSU+2LOXVGdKkJU1XBiwl+n/X+vGD1vw=="
)
DISCOVERABLE = (
    "passkey:pP2z07ygq36HkNabd79ki9H6rfYEIVdluSHjY1YykUbVECXJ3ZDZ3n1EZ9G8HhMv,"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEpP2z07ygq36HkNabd1H9KnqqghjvvhlW0+FcNzOoXP+49tC/Ee2TbjC3x2dIzJEBFi7iDPSc+OCM+WmD1AfPLQ==,"
    "P6GjSqAo+RoQRJhGFA3lKcvtpKTGETjCdtVIyLX0KcY="
)
# doc/designs/passkeys.md of FreeIPA: x and y without what stands before them in a SubjectPublicKeyInfo
EARLY = (
    "passkey:9S87qLk8/RxYJ3skwwYduomAM+/HDtz41N0+w/vRL6aGKJkLMsg+2OhO0E8pK5DuO1KmdK61K8PmH7jiYuOqbg==,"
    "9YE1s/f7J47h2A/DXCVFWulqoBXFzCSxcbGEBadkpSUFjwUudhPLnPUTv2qNamakXJgRYCZQ7vpS/t5zXMLnkw=="
)
ANN = "ann@EXAMPLE"


@pytest.mark.parametrize(("value", "length", "handle"), [(SERVER_SIDE, 64, 0), (DISCOVERABLE, 48, 32), (EARLY, 64, 0)])
def test_a_value_that_freeipa_wrote(value, length, handle):
    passkey = parsed(value, ANN)

    assert passkey.subject == ANN
    assert len(passkey.id) == length
    assert len(passkey.user_handle or b"") == handle
    key = load_der_public_key(passkey.public_key)
    assert key.curve.name == "secp256r1"
    assert key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) == passkey.public_key


@pytest.mark.parametrize("value", [SERVER_SIDE, DISCOVERABLE])
def test_what_is_written_is_what_freeipa_writes_to_the_octet(value):
    assert written(parsed(value, ANN)) == value


def as_sssd(value):
    """What the daemon takes of a value: parts between commas, without spaces around them, the first one without its prefix."""
    handle, key, *_ = [part.strip() for part in value.split(",") if part.strip()]
    assert handle.lower().startswith("passkey:")
    return handle[len("passkey:") :], key


@pytest.mark.parametrize("user_handle", [b"\0" * 32, None])
def test_idp_236_sssd_and_freeipa_read_what_is_written_here(user_handle):
    passkey = some_passkey(ANN, b"\xff\xfe\xfd" * 40, user_handle=user_handle)

    id, key = as_sssd(written(passkey))

    assert b64decode(id, validate=True) == passkey.id
    pem = f"-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----".encode()  # as FreeIPA's validator and passkey_child load it
    assert load_pem_public_key(pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) == passkey.public_key


@pytest.mark.parametrize(
    "value",
    [
        "",
        "passkey:",
        "passkey:QUJD",
        "passkey:,QUJD",
        "passkey:QUJD,QUJD,QUJD,QUJD",
        "passkey:QUJ*,QUJD",
        "passkey:QUJD,QU JD",
        "QUJD,QUJD",
        "ssh:QUJD,QUJD",
        "PASSKEY:QUJD,QUJD",
        "X509:<I>CN=CA<S>CN=ann",
        f"passkey:{b64encode(b'x' * 1024).decode()},QUJD",
    ],
)
def test_what_is_no_passkey_is_none(value):
    assert parsed(value, ANN) is None


def test_spaces_around_the_parts_and_an_empty_handle_are_none():
    assert parsed("passkey: QUJD , REVG ,", ANN) == Passkey(id=b"ABC", subject=ANN, public_key=b"DEF", user_handle=None)


@given(st.binary(min_size=1, max_size=1023), st.binary(min_size=1, max_size=600), st.none() | st.binary(min_size=1, max_size=64))
def test_every_passkey_comes_back(id, key, handle):
    passkey = Passkey(id=id, subject=ANN, public_key=key if len(key) != 64 else key + b"\0", user_handle=handle)

    assert parsed(written(passkey), ANN) == passkey


@given(st.text(max_size=200))
def test_any_text_is_a_passkey_or_none(text):
    for value in (text, f"passkey:{text}"):
        found = parsed(value, ANN)
        assert found is None or (0 < len(found.id) <= 1023 and found.user_handle != b"")
