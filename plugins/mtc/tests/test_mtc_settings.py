"""The keys of [mtc], and what a start refuses of them."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rig.cosigners import certificate_of

from greatseal.api.problems import StartProblem
from greatseal.testing.service import Kernel, document, serve
from greatseal_mtc.note import Kind, NoteKey
from greatseal_mtc.settings import CaLog, CaName, MtcSettings, logs_of

ANCHOR = {"trust_anchor_id": "32473.1"}
PEM = certificate_of(ed25519.Ed25519PrivateKey.generate())
WITNESS = NoteKey("w.example", Kind.ED25519_COSIGNER, ed25519.Ed25519PrivateKey.generate().public_key()).vkey
OPERATOR = NoteKey("w.example", Kind.ED25519, ed25519.Ed25519PrivateKey.generate().public_key()).vkey
NAMED = NoteKey("oid/1.3.6.1.4.1.32473.9", Kind.MLDSA44_COSIGNER, mldsa.MLDSA44PrivateKey.generate().public_key()).vkey


def started(folder: Path, mtc: dict[str, Any] | None, **sections: Any) -> Kernel:
    """A kernel with these settings. Raises StartProblem."""
    return Kernel(document(folder, ["ca", "mtc"], **({} if mtc is None else {"mtc": mtc}), **sections))


def test_ca_055_ca_056_ca_057_ca_058_ca_059_ca_060_ca_061_ca_062_the_keys_and_their_defaults():
    settings = MtcSettings(trust_anchor_id="1.3.6.1.4.1.32473.1")

    assert (settings.hash_alg, settings.hash.size, settings.dialect, settings.log_number) == ("sha256", 32, "plants-05", 1)
    assert (settings.checkpoint_interval_secs, settings.checkpoint_retention_count) == (3600, 1000)
    assert (settings.landmark_interval_secs, settings.max_active_landmarks) == (86_400, 100)
    assert (settings.cosigners, settings.witnesses, settings.signing_key.key_type) == ((), (), "ed25519")
    assert settings.anchor.ascii == "32473.1"
    sizes = {name: MtcSettings(hash_alg=name).hash.size for name in ("sha256", "sha384", "sha512", "sha3-256", "sha3-384", "sha3-512")}
    assert sizes == {"sha256": 32, "sha384": 48, "sha512": 64, "sha3-256": 32, "sha3-384": 48, "sha3-512": 64}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "[mtc] trust_anchor_id: give the ID of the CA"),
    ({"trust_anchor_id": "me"}, "[mtc] trust_anchor_id: 'me' is no trust anchor ID"),
    ({**ANCHOR, "hash_alg": "md5"}, "[mtc] hash_alg"),
    ({**ANCHOR, "log_number": 0}, "[mtc] log_number"),
    ({**ANCHOR, "log_number": 65536}, "[mtc] log_number"),
    ({**ANCHOR, "log_backend": "tape"}, "no enabled plugin provides 'tape'; known: files, sql"),
    ({**ANCHOR, "checkpoint_retention_count": 0}, "[mtc] checkpoint_retention_count"),
    ({**ANCHOR, "max_active_landmarks": 0}, "[mtc] max_active_landmarks"),
    ({**ANCHOR, "signing_key": {"key_type": "ml-dsa-44"}}, "[mtc] signing_key.key_type"),
    ({**ANCHOR, "signing_key": {"key_type": "rsa:2048"}}, "[mtc] signing_key.key_type"),
    ({**ANCHOR, "signing_key": {"key_type": "ec:P-256", "hash_alg": "sha384"}}, "are over sha256"),
    ({**ANCHOR, "signing_key": {"key_file": "pkcs11:log"}}, "no enabled plugin provides the key store 'pkcs11'"),
    ({**ANCHOR, "cosigner_key": {"key_type": "ml-dsa-44"}, "hash_alg": "sha384"}, "ML-DSA-44 signs trees of sha256 alone"),
    ({**ANCHOR, "hash_alg": "sha512", "dialect": "plants-07"}, "logs of plants-07 have sha256 alone, not sha512"),
    (
        {**ANCHOR, "hash_alg": "sha3-256", "witnesses": [{"url": "https://w.example", "vkey": WITNESS}]},
        "witnesses know trees of sha256 alone",
    ),
    ({**ANCHOR, "cosigners": [{"url": "http://c.example"}]}, "is no https URL"),
    ({**ANCHOR, "cosigners": [{"url": "https://c.example"}, {"url": "https://c.example"}]}, "is there twice"),
    ({**ANCHOR, "cosigners": [{"url": "https://c.example", "cosigner_id_cert_pem": "no"}]}, "no certificate in PEM"),
    (
        {**ANCHOR, "cosigners": [{"url": "https://c.example", "cosigner_id_cert_pem": PEM, "trust_anchor_id": "x"}]},
        "'x' is no trust anchor ID",
    ),
    ({**ANCHOR, "witnesses": [{"url": "https://w.example/", "vkey": WITNESS}]}, "without a slash at its end"),
    ({**ANCHOR, "witnesses": [{"url": "https://w.example", "vkey": OPERATOR}]}, "of the types 0x04 and 0x06"),
    ({**ANCHOR, "witnesses": [{"url": "https://w.example", "vkey": "w+0+0"}]}, "vkey: "),
    ({**ANCHOR, "witnesses": [{"url": "https://w.example", "vkey": WITNESS, "subtrees": True}]}, "no ID of a cosigner"),
    ({**ANCHOR, "witness": []}, "unknown key; did you mean"),
]


@pytest.mark.parametrize(("mtc", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_cannot_be_is_refused_with_what_to_do(tmp_path, mtc, said):
    with pytest.raises(StartProblem) as refused:
        started(tmp_path, mtc)

    assert any(said in message for message in refused.value.messages), refused.value.messages


def test_ca_171_an_id_of_a_cosigner_that_nobody_can_check_is_a_startup_error(tmp_path):
    with pytest.raises(StartProblem, match="trust_anchor_id: is given without cosigner_id_cert_pem"):
        started(tmp_path, {**ANCHOR, "cosigners": [{"url": "https://c.example", "trust_anchor_id": "32473.2"}]})


def test_a_key_of_rsa_or_another_curve_in_a_cosigners_certificate_is_refused():
    for key in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP521R1()), ed448.Ed448PrivateKey.generate()):
        with pytest.raises(ValueError, match="a key that a cosigner may have"):
            MtcSettings(cosigners=({"url": "x"},)) if key is None else _cosigner(certificate_of(key))


def _cosigner(pem: str) -> Any:
    from greatseal_mtc.settings import Cosigner

    return Cosigner(url="https://c.example", cosigner_id_cert_pem=pem)


def test_witnesses_that_sign_subtrees_have_an_id_in_their_name():
    from greatseal_mtc.settings import Witness

    witness = Witness(url="https://w.example", vkey=NAMED, subtrees=True)
    assert witness.anchor is not None
    assert witness.anchor.ascii == "32473.9"


async def test_without_the_section_there_is_no_log_and_no_issuer(tmp_path):
    kernel = started(tmp_path, None)
    assert kernel.hooks.instances["mtc"].parts(kernel.hosts["mtc"]) is None
    with pytest.raises(StartProblem, match="no enabled plugin issues 'mtc'"):
        started(tmp_path, None, profiles={"default": {"issue_as": "mtc"}})
    with pytest.raises(StartProblem, match="issue_as"):
        started(tmp_path, {**ANCHOR, "enabled": False}, profiles={"default": {"issue_as": "mtc"}})


def test_each_ca_has_settings_of_its_own():
    cas = [CaName(id="one", is_default=True), CaName(id="two"), CaName(id="three")]
    general = MtcSettings(trust_anchor_id="32473.1", checkpoint_interval_secs=60)
    of = CaLog.__struct_fields__
    assert of == ("mtc",)
    own = [_own(), _own(trust_anchor_id="32473.2", hash_alg="sha384"), _own(enabled=False)]

    found, problems = logs_of(cas, own, general, present=True)

    assert (list(found), problems) == (["one", "two"], [])
    assert (found["two"].anchor.ascii, found["two"].hash_alg, found["two"].checkpoint_interval_secs) == ("32473.2", "sha384", 60)
    alone, problems = logs_of(cas, [CaLog(), own[1], CaLog()], MtcSettings(), present=False)
    assert (list(alone), problems) == (["two"], [])
    _, problems = logs_of(cas, [CaLog(), CaLog(), own[2]], general, present=True)
    (problem,) = problems
    assert problem.startswith(
        "[ca] two: mtc.trust_anchor_id: give the ID of the CA, an object identifier below 1.3.6.1.4.1 such as 32473.1"
    )
    assert problem.endswith("; or set mtc.enabled = false where the CA is to have no log")
    twins = [_own(), _own(trust_anchor_id="1.3.6.1.4.1.32473.1", signing_key={"key_file": "k"}), _own(enabled=False)]
    _, problems = logs_of(cas, twins, general, present=True)
    assert problems == ["[ca] two: mtc.trust_anchor_id: 32473.1 is that of CA 'one'; each log has its own"]
    one_file = [_own(trust_anchor_id=f"32473.{number}", signing_key={"key_file": "/k.pem"}) for number in (1, 2, 3)]
    _, problems = logs_of(cas, one_file, general, present=True)
    assert problems == [
        f"[ca] {name}: mtc.signing_key.key_file: /k.pem is that of CA 'one'; each log has its own" for name in ("two", "three")
    ]


def _own(**values: Any) -> CaLog:
    import msgspec

    return msgspec.convert({"mtc": values}, CaLog)


async def test_a_profile_of_a_ca_without_a_log_is_refused(tmp_path):
    cas = [{"id": "one", "is_default": True}, {"id": "two", "mtc": {"enabled": False}}]
    with pytest.raises(StartProblem, match=r"\[profiles.tree\] issue_as: CA 'two' has no log for it"):
        started(tmp_path, ANCHOR, ca=cas, profiles={"tree": {"issue_as": "mtc"}})
    started(tmp_path, ANCHOR, ca=cas, profiles={"tree": {"issue_as": "mtc", "ca_ids": ["one"]}, "default": {}})


# ---- Keys


def private(key: Any) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


KEYS = {
    "rsa:2048": lambda: rsa.generate_private_key(65537, 2048),
    "ml-dsa-44": mldsa.MLDSA44PrivateKey.generate,
    "ml-dsa-65": mldsa.MLDSA65PrivateKey.generate,
    "ed448": ed448.Ed448PrivateKey.generate,
    "ec:P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
}


@pytest.mark.parametrize("name", KEYS)
def test_ca_163_other_keys_are_refused_as_key_of_the_log(tmp_path, name):
    file = tmp_path / "log.pem"
    file.write_bytes(private(KEYS[name]()))
    file.chmod(0o600)

    with pytest.raises(StartProblem, match=r"\[mtc\] signing_key.key_file"):
        started(tmp_path, {**ANCHOR, "signing_key": {"key_file": str(file)}})


async def test_a_key_file_is_made_for_its_owner_alone_and_used_again(tmp_path):
    file = tmp_path / "keys" / "log.pem"
    config = document(tmp_path, ["ca", "mtc"], mtc={**ANCHOR, "signing_key": {"key_file": str(file), "key_type": "ec:P-384"}})
    spkis = []
    for _ in range(2):
        async with serve(config) as service:
            log = service.kernel.hooks.instances["mtc"].parts(service.host("mtc")).logs.of("default")
            spkis.append(log.keys.spki)
            assert log.keys.operator.info.algorithm == "ec:P-384"

    assert spkis[0] == spkis[1]
    assert file.stat().st_mode & 0o777 == 0o600


async def test_the_key_of_a_log_signs_no_certificates_of_the_ca(tmp_path):
    """draft-ietf-plants-merkle-tree-certs-05 s5.4."""
    key, cert = tmp_path / "ca.key", tmp_path / "ca.pem"
    ca = {"key_file": str(key), "cert_file": str(cert)}
    async with serve(document(tmp_path, ["ca"], ca=ca)):
        pass
    for mtc in ({"signing_key": {"key_file": str(key)}}, {"cosigner_key": {"key_file": str(key)}}):
        with pytest.raises(StartProblem, match="a key that signs certificates signs no log"):
            async with serve(document(tmp_path, ["ca", "mtc"], ca=ca, mtc={**ANCHOR, **mtc})):
                pass


async def test_a_cosigner_key_of_its_own_signs_certificates(open_desk):
    desk = await open_desk(mtc={"cosigner_key": {"key_type": "ml-dsa-44"}}, profiles={"default": {"issue_as": "mtc"}})
    certificate = await desk.certify("a.example.com")
    log = desk.log()

    assert (log.keys.operator.info.algorithm, log.keys.cosigner.info.algorithm) == ("ed25519", "ml-dsa-44")
    assert len(certificate.der) > 2420
    operator, cosigner = log.vkeys
    assert (NoteKey.parse(operator).kind, NoteKey.parse(cosigner).kind) == (Kind.ED25519, Kind.MLDSA44_COSIGNER)
