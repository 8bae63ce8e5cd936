"""Whose device made a passkey: the attestation formats, the metadata of models, and what is made up of both."""

import json
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cbor2 import dumps, loads
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st
from rig.softkeys import Maker, SoftKey

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_decode, b64url_encode, sign_compact
from greatseal.testing import FakeClock
from greatseal_passkey.attestation import Unattested
from greatseal_passkey.ceremony import Registered, Registration, Unproven, register
from greatseal_passkey.health import ModelHealth
from greatseal_passkey.models import BAD, BadMetadata, Known, Model, Models, is_old, read
from greatseal_passkey.settings import PasskeySettings, RelyingParty

EXAMPLE = RelyingParty(id="example.org", name="Example", origins=("https://example.org",), verified=False)
HERE = RelyingParty(id="localhost", name="Here", origins=("http://localhost",), verified=True)
NOW = int(datetime(2026, 11, 25, tzinfo=UTC).timestamp()) * 1_000_000
FILE = json.loads((Path(__file__).with_name("attestation_vectors.json")).read_text())
VECTORS: dict[str, Any] = FILE["vectors"]
CA = x509.load_der_x509_certificate(bytes.fromhex(FILE["attestation_ca"]))
PLAIN = st.recursive(
    st.integers(-(2**64), 2**64 - 1) | st.booleans() | st.none() | st.binary(max_size=300) | st.text(max_size=40) | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def known(*uuids: str, roots: tuple[x509.Certificate, ...] = (CA,), distrusted: str | None = None) -> Known:
    model = Model(name="A model", roots=roots, distrusted=distrusted)
    by_aaguid = dict.fromkeys((f"{id[:8]}-{id[8:12]}-{id[12:16]}-{id[16:20]}-{id[20:]}" for id in uuids), model)
    return Known(by_aaguid=by_aaguid, by_key={}, next_update=None)


def vector(name: str, attestation_object: bytes | None = None, models: Known | None = None) -> Registered:
    made = VECTORS[name]["registration"]
    content = bytes.fromhex(made["attestationObject"]) if attestation_object is None else attestation_object
    response = {"clientDataJSON": b64url_encode(bytes.fromhex(made["clientDataJSON"])), "attestationObject": b64url_encode(content)}
    id = b64url_encode(bytes.fromhex(made["credential_id"]))
    whole = msgspec.convert({"id": id, "rawId": id, "type": "public-key", "response": response}, Registration)
    return register(whole, EXAMPLE, bytes.fromhex(made["challenge"]), models or known(made["aaguid"]), NOW)


@pytest.mark.parametrize("name", ["packed.ES256", "packed.EdDSA", "apple.ES256"])
def test_the_attestations_of_webauthn_level_3(name: str) -> None:
    made = vector(name)

    assert made.id.hex() == VECTORS[name]["registration"]["credential_id"]
    assert made.aaguid.replace("-", "") == VECTORS[name]["registration"]["aaguid"]
    assert made.model == "A model"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        # Devices of Android send the root too.
        ("android-key.ES256", "x5c was empty"),
        # The specification's TPM is of no manufacturer that there is.
        ("tpm.ES256", "Unrecognized TPM Manufacturer"),
        # Its U2F device has an AAGUID, which none has (FIDO U2F): it is looked for by its certificate, which no model here has.
        ("fido-u2f.ES256", "no model of the metadata"),
        # Its RSA key is of two primes that everybody knows.
        ("packed.RS256", "the public key cannot be read"),
        ("packed.ES384", "Unsupported credential public key alg"),
        ("packed.ES512", "Unsupported credential public key alg"),
        ("none.ES256.crossOrigin", "nobody vouches"),
        ("none.ES256.topOrigin", "nobody vouches"),
    ],
)
def test_attestations_of_webauthn_level_3_that_are_not_taken(name: str, reason: str) -> None:
    with pytest.raises((Unproven, Unattested), match=reason):
        vector(name)


@pytest.mark.parametrize("name", ["packed.ES256", "apple.ES256", "android-key.ES256"])
def test_an_attestation_with_one_bit_changed_proves_nothing(name: str) -> None:
    content = bytes.fromhex(VECTORS[name]["registration"]["attestationObject"])
    aaguid = VECTORS[name]["registration"]["aaguid"]

    for place in range(0, len(content), 7):
        other = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises((Unproven, Unattested)):
            vector(name, other, known(aaguid))


@pytest.mark.parametrize("name", ["packed.ES256", "apple.ES256", "android-key.ES256"])
def test_certificates_of_another_maker_vouch_for_nothing(name: str) -> None:
    aaguid = VECTORS[name]["registration"]["aaguid"]

    with pytest.raises(Unattested, match="do not lead to one that is trusted"):
        vector(name, None, known(aaguid, roots=(Maker().root,)))
    with pytest.raises(Unattested, match="do not lead to one that is trusted"):
        vector(name, None, known(aaguid, roots=()))
    with pytest.raises(Unattested, match="no model of the metadata has the AAGUID"):
        vector(name, None, known("0" * 32))
    with pytest.raises(Unattested, match="'A model' is not to be trusted: REVOKED"):
        vector(name, None, known(aaguid, distrusted="REVOKED"))


# ---- What no device says


def made(key: SoftKey, models: Known) -> Registered:
    begun = {"challenge_id": "c", "publicKey": {"challenge": "c" * 43, "user": {"id": "dXNlcg"}}}
    return register(msgspec.convert(key.make(begun, HERE.origins[0]), Registration), HERE, b64(begun), models, FakeNow.now())


def b64(begun: dict[str, Any]) -> bytes:
    return b64url_decode(begun["publicKey"]["challenge"])


class FakeNow:
    @staticmethod
    def now() -> int:
        return int(datetime.now(UTC).timestamp()) * 1_000_000


def of(maker: Maker) -> tuple[SoftKey, Known]:
    key = SoftKey()
    key.maker = maker
    return key, read(json.dumps(maker.metadata()).encode(), (), FakeNow.now())


@pytest.mark.parametrize("fmt", ["packed", "fido-u2f"])
def test_a_device_of_a_model_of_the_metadata_is_taken(fmt: str) -> None:
    maker = Maker()
    maker.fmt = fmt

    assert made(*of(maker)).model == "Example Key 1"


def test_the_certificate_of_the_model_itself_may_be_the_one_that_is_trusted() -> None:
    maker = Maker()
    key, _ = of(maker)
    model = Model(name="A model", roots=(maker.certificate,))
    models = Known(by_aaguid={"6578616d-706c-6520-6b65-79206d6b2031": model}, by_key={}, next_update=None)

    assert made(key, models).model == "A model"


def test_a_device_that_vouches_for_itself_is_refused() -> None:
    key, models = of(Maker())
    key.maker = None
    for fmt, statement in (
        ("none", {}),
        ("packed", {"alg": -7, "sig": b"s" * 70}),
        ("android-safetynet", {"ver": "1", "x5c": [b""]}),
        ("x", {}),
    ):
        key.fmt, key.statement = fmt, statement
        with pytest.raises(Unattested, match="nobody vouches for the device"):
            made(key, models)


def test_a_packed_certificate_is_one_of_an_authenticator_of_this_model() -> None:
    maker = Maker()
    key, models = of(maker)
    for certificate, reason in (
        (maker.issue("Example Key", maker.key, unit="Web Server"), "its OU is another one"),
        (maker.issue("Example Key", maker.key, ca=True), "do not lead to one that is trusted"),
        (maker.issue("Example Key", maker.key, aaguid=b"another model 12"), "of another model than the passkey"),
    ):
        maker.certificate = certificate
        with pytest.raises(Unattested, match=reason):
            made(key, models)
    maker.certificate = maker.root
    maker.key = maker.root_key
    with pytest.raises(Unattested, match="the certificate is one of an authority"):
        made(key, models)


def test_a_certificate_that_has_expired_vouches_for_nothing() -> None:
    key, models = of(Maker())
    begun = {"challenge_id": "c", "publicKey": {"challenge": "c" * 43, "user": {"id": "dXNlcg"}}}
    given_ = msgspec.convert(key.make(begun, HERE.origins[0]), Registration)

    with pytest.raises(Unattested, match="do not lead to one that is trusted"):
        register(given_, HERE, b64(begun), models, FakeNow.now() + 30 * 86_400_000_000)


def test_s101_bombs_in_an_attestation_are_refused_before_anything_verifies_them() -> None:
    maker = Maker()
    key, models = of(maker)
    key.maker = None
    certificate = maker.certificate.public_bytes(Encoding.DER)
    big = maker.issue("Example Key", generate_rsa(3, 2048)).public_bytes(Encoding.DER)
    aaguid = maker.aaguid
    unread, many = "x5c is no list of certificates", "certificates: expected 1 to 6"
    chains: list[tuple[Any, str]] = [
        ([], "x5c is empty"),
        ([certificate] * 7, many),
        ([certificate] * 64, many),
        ([b"\0" * 8193], unread),
        ([certificate, b"\x30" * 4000], "ValueError"),
        ([big], "exponent"),
        ("x5c", unread),
        ([1], unread),
        ({"a": certificate}, unread),
        (None, unread),
    ]
    for x5c, reason in chains:
        key.fmt, key.statement = "packed", {"alg": -7, "sig": b"s" * 70, "x5c": x5c}
        begun = {"challenge_id": "c", "publicKey": {"challenge": "c" * 43, "user": {"id": "dXNlcg"}}}
        whole = key.make(begun, HERE.origins[0])
        content = loads(b64url_decode(whole["response"]["attestationObject"]))
        content["authData"] = content["authData"][:37] + aaguid + content["authData"][53:]
        whole["response"]["attestationObject"] = b64url_encode(dumps(content))
        with pytest.raises((Unproven, Unattested), match=reason):
            register(msgspec.convert(whole, Registration), HERE, b64(begun), models, FakeNow.now())


@given(
    st.sampled_from(["packed", "tpm", "apple", "android-key", "fido-u2f"]),
    st.dictionaries(st.sampled_from(["alg", "sig", "x5c", "ver", "certInfo", "pubArea"]), PLAIN),
    st.booleans(),
)
def test_any_statement_is_refused_with_a_reason(fmt: str, statement: dict[str, Any], with_certificate: bool) -> None:
    name = "packed.ES256"
    content = loads(bytes.fromhex(VECTORS[name]["registration"]["attestationObject"]))
    chain = {"x5c": content["attStmt"]["x5c"]} if with_certificate else {}

    with pytest.raises((Unproven, Unattested), match=r"."):
        vector(name, dumps({"fmt": fmt, "attStmt": {**statement, **chain}, "authData": content["authData"]}))


# ---- The metadata


def blob(payload: bytes, maker: Maker, *, name: str = "mds.fidoalliance.org", alg: str = "ES256") -> bytes:
    """A signed one, as the FIDO Alliance publishes it."""
    key = generate_private_key(SECP256R1())
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(maker.root.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(maker.root.not_valid_before_utc)
        .not_valid_after(maker.root.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    certificate = built.sign(maker.root_key, SHA256()).public_bytes(Encoding.DER)
    header = {"typ": "JWT", "alg": alg, "x5c": [b64encode(certificate).decode()]}
    return sign_compact(header, payload, lambda text: ALGORITHMS["ES256"].sign(key, text)).encode() + b"\n"


def test_a_blob_of_the_publisher_is_read_and_no_other_one() -> None:
    publisher, maker = Maker("publisher"), Maker()
    payload = json.dumps(maker.metadata()).encode()
    good, now = blob(payload, publisher), FakeNow.now()

    assert [model.name for model in read(good, (publisher.root,), now).by_aaguid.values()] == ["Example Key 1"]
    header, body, signature = good.decode().strip().split(".")
    other = b64url_encode(json.dumps(Maker("Another").metadata()).encode())
    for content, authorities, reason in (
        (good, (), "metadata_ca_file must name"),
        (good, (maker.root,), "do not lead to one that is trusted"),
        (blob(payload, publisher, name="evil.example"), (publisher.root,), "its certificate is not that of mds.fidoalliance.org"),
        (f"{header}.{other}.{signature}".encode(), (publisher.root,), "its signature is not good"),
        (f"{header}.{body}.".encode(), (publisher.root,), "its signature is not good"),
        (blob(payload, publisher, alg="none"), (publisher.root,), "its signature is not good"),
        (b"not.a.jwt", (publisher.root,), "its signature is not good"),
        (b"\xff\xfe", (publisher.root,), "its signature is not good"),
        (b"{}", (), "it is no metadata of FIDO"),
        (b'{"entries": [{"aaguid": "x", "metadataStatement": {}}]}', (), "it is no metadata of FIDO"),
        (b'{"entries": [{"metadataStatement": {"attestationRootCertificates": ["AAAA"]}}]}', (), "it is no metadata of FIDO"),
        (b"{" * 10_000, (), "it is no metadata of FIDO"),
    ):
        with pytest.raises(BadMetadata, match=reason):
            read(content, authorities, now)


@pytest.mark.parametrize("status", sorted(BAD))
def test_the_last_report_says_whether_a_model_is_to_be_trusted(status: str) -> None:
    maker = Maker()

    def model(*reports: str) -> Model:
        (found,) = read(json.dumps(maker.metadata(*reports)).encode(), (), NOW).by_aaguid.values()
        return found

    assert model("FIDO_CERTIFIED_L1", status).distrusted == status
    assert model(status, "UPDATE_AVAILABLE").distrusted is None


@given(st.binary(max_size=300) | PLAIN.map(lambda one: json.dumps(one, default=str).encode()))
def test_any_content_is_metadata_or_refused(content: bytes) -> None:
    with suppress(BadMetadata):
        read(content, (CA,), NOW)


class Log:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, event: str, **more: Any) -> None:
        self.warnings.append(f"{event} {more['reason']}")


class Inline:
    async def run(self, _pool: str, fn: Any, *args: Any) -> Any:
        return fn(*args)


def host_of(**settings: Any) -> Any:
    own = PasskeySettings(attestation="direct", **settings)
    return SimpleNamespace(settings=lambda _kind: own, log=Log(), clock=FakeClock(NOW), blocking=Inline())


async def test_a_file_that_changed_is_read_again_and_one_that_broke_leaves_what_it_said(tmp_path: Path) -> None:
    file, first, second = tmp_path / "models.json", Maker("First"), Maker("Second", b"second key mk 12")
    host = host_of(metadata_file=file)
    models = Models(host)
    with pytest.raises(OSError, match="No such file"):
        models.known()
    file.write_text("{}")
    assert ModelHealth(host, models).problems() == [
        "[passkey] metadata_file: it is no metadata of FIDO: Object missing required field `entries`"
    ]
    assert not (await ModelHealth(host, models).run()).ok

    file.write_text(json.dumps(first.metadata()))
    names = [[model.name for model in models.known().by_aaguid.values()]]
    replaced(file, json.dumps(second.metadata()))
    names += [[model.name for model in models.known().by_aaguid.values()]]
    replaced(file, "nothing of that kind")
    names += [[model.name for model in models.known().by_aaguid.values()]]

    assert names == [["First"], ["Second"], ["Second"]]
    assert len(host.log.warnings) == 1
    assert "metadata_ca_file must name" in host.log.warnings[0]


def replaced(file: Path, text: str) -> None:
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


async def test_doctor_says_when_a_newer_file_should_be_there(tmp_path: Path) -> None:
    file, maker = tmp_path / "models.json", Maker()
    host = host_of(metadata_file=file)
    file.write_text(json.dumps(maker.metadata(nextUpdate="2026-11-25")))
    health = ModelHealth(host, Models(host))

    assert (await health.run()).detail == "models of passkeys: 1"
    host.clock.step(86_400)
    told = await health.run()
    assert (told.ok, told.detail) == (False, "models of passkeys: 1; a newer file was to be had on 2026-11-25: fetch it")
    assert not is_old(Known(by_aaguid={}, by_key={}, next_update=None), NOW)


async def test_of_a_file_only_the_models_that_are_named_may_be_used(tmp_path: Path) -> None:
    file, first, second = tmp_path / "models.json", Maker("First"), Maker("Second", b"second key mk 12")
    file.write_text(json.dumps({**first.metadata(), "entries": [*first.metadata()["entries"], *second.metadata()["entries"]]}))
    id = second.metadata()["entries"][0]["aaguid"]

    assert [model.name for model in Models(host_of(metadata_file=file, models=(id,))).known().by_aaguid.values()] == ["Second"]
    with pytest.raises(BadMetadata, match="ffffffff-0000-0000-0000-000000000000 is not in it"):
        Models(host_of(metadata_file=file, models=("ffffffff-0000-0000-0000-000000000000",))).known()


async def test_the_certificates_of_the_publisher_are_read_from_a_file(tmp_path: Path) -> None:
    publisher, file, authorities = Maker("publisher"), tmp_path / "blob.jwt", tmp_path / "ca.pem"
    file.write_bytes(blob(json.dumps(Maker().metadata()).encode(), publisher))
    host = host_of(metadata_file=file, metadata_ca_file=authorities)
    host.clock.step(FakeNow.now() // 1_000_000 - NOW // 1_000_000)
    authorities.write_text("nothing")
    with pytest.raises(BadMetadata, match="expected certificates in PEM"):
        Models(host).known()

    authorities.write_bytes(publisher.root.public_bytes(Encoding.PEM))

    assert len(Models(host).known().by_aaguid) == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"attestation": "direct"}, "go together"),
        ({"metadata_file": Path("x")}, "go together"),
        ({"attestation": "direct", "metadata_file": Path("x"), "models": ("YubiKey",)}, "expected an AAGUID"),
        ({"attestation": "direct", "metadata_file": Path("x"), "models": ("EE882879-721c-4913-9775-3dfcce97072a",)}, "expected an AAGUID"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PasskeySettings(**settings)


def test_a_file_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greatseal_passkey.models.LARGEST", 10)
    (tmp_path / "models.json").write_text(json.dumps(Maker().metadata()))

    with pytest.raises(BadMetadata, match="more than 10 bytes"):
        Models(host_of(metadata_file=tmp_path / "models.json")).known()
