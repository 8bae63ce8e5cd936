"""Two installations witness each other: each log has the cosignature of the other service, and subtrees are signed for certificates."""

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rig.logged import logged_site

from greatseal.testing.service import free_port
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import PLANTS_05
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.merkle import consistency
from greatseal_mtc.note import Kind, Note, NoteKey, open_note, signature_lines
from greatseal_mtc.verify import Trust, verify_certificate
from greatseal_mtc.wire import cosigned_message
from greatseal_mtc.witnessing import SignSubtree


class Installation:
    """What one of two services is configured with: its address, and the keys of its log and its witness."""

    def __init__(self, folder: Path, number: int) -> None:
        self.url = f"http://localhost:{(port := free_port())}"
        self.server = {"base_url": self.url, "listen": f"127.0.0.1:{port}"}
        self.anchor = f"32473.{number}"
        self.name = f"oid/1.3.6.1.4.1.32473.{number + 10}"
        log, witness = ed25519.Ed25519PrivateKey.generate(), mldsa.MLDSA44PrivateKey.generate()
        self.log_file, self.witness_file = _kept(folder / f"log{number}.pem", log), _kept(folder / f"witness{number}.pem", witness)
        self.log_key = NoteKey(f"{self.url}/acme/mtc/tlog", Kind.ED25519, log.public_key())
        self.log_id_key = NoteKey(f"oid/1.3.6.1.4.1.{self.anchor}", Kind.ED25519_COSIGNER, log.public_key())
        self.witness_key = NoteKey(self.name, Kind.MLDSA44_COSIGNER, witness.public_key())

    def sections(self, other: "Installation", **more: Any) -> dict[str, Any]:
        """``more`` is said of the other one as a witness."""
        logs = [
            {"origin": other.log_key.name, "keys": [other.log_key.vkey]},
            {"origin": f"{other.log_id_key.name}.0.1", "keys": [other.log_id_key.vkey]},
        ]
        return {
            "server": self.server,
            "witness": {"name": self.name, "key_files": [self.witness_file], "logs": logs},
            "mtc": {
                "trust_anchor_id": self.anchor,
                "signing_key": {"key_file": self.log_file},
                "witnesses": [{"url": f"{other.url}/witness", "vkey": other.witness_key.vkey, **more}],
            },
        }


def _kept(file: Path, key: Any) -> str:
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)
    return str(file)


async def test_two_installations_witness_each_other(start_service: Any, tmp_path: Path) -> None:
    one, other = Installation(tmp_path, 1), Installation(tmp_path, 2)
    async with logged_site(start_service, **one.sections(other)) as first, logged_site(start_service, **other.sections(one)) as second:
        for site, own, of in ((first, one, other), (second, other, one)):
            for number in range(3):
                await site.logged(f"n{number}.localhost")
                await site.checkpoint()
            note = Note.parse((await site.get("tlog/checkpoint")).body)
            checkpoint, signed = open_note(note, [own.log_key, of.witness_key])
            assert {key.name for key, _ in signed} == {own.log_key.name, of.name}
            assert checkpoint.size == 4

            cosigned = Note(note.text, tuple(line for line in note.signatures if line.name == of.name))
            root = await site.log.log.subtree_root(2, 4)
            path = tuple([await site.log.log.subtree_root(*part) for part in consistency(2, 4, 4)])
            asked = SignSubtree(start=2, end=4, root=root, path=path, note=cosigned).encoded
            answer = await site.client.get(f"{of.url}/witness/sign-subtree", method="POST", data=asked)
            assert answer.status == 200, answer.body
            (line,) = signature_lines(answer.body.decode())
            message = cosigned_message(of.name, checkpoint.origin, 2, 4, root)
            of.witness_key.key.verify(line.signature[8:], message)  # type: ignore[union-attr]


async def test_two_installations_sign_subtrees_for_the_certificates_of_each_other(start_service: Any, tmp_path: Path) -> None:
    one, other = Installation(tmp_path, 1), Installation(tmp_path, 2)
    sections = one.sections(other, subtrees=True), other.sections(one, subtrees=True)
    async with logged_site(start_service, **sections[0]) as first, logged_site(start_service, **sections[1]) as second:
        for site, own, of in ((first, one, other), (second, other, one)):
            for number in range(3):
                id, _ = await site.logged(f"n{number}.localhost")
                await site.checkpoint()
            standalone = await site.get(f"cert/{id}/standalone")
            assert standalone.status == 200, standalone.body

            ca, cosigner = TrustAnchorId(own.anchor), TrustAnchorId(of.name.removeprefix("oid/1.3.6.1.4.1."))
            trust = Trust(
                dialect=PLANTS_05, hash=SHA256, ca=ca, quorum=2, required=frozenset({ca}),
                cosigners={ca: own.log_key.key, cosigner: of.witness_key.key},
            )  # fmt: skip
            found = verify_certificate(trust, standalone.body, site.site.service.kernel.clock.now())
            assert set(found.signed_by) == {ca, cosigner}
            assert (found.index, found.start, found.end) == (3, 3, 4), "of what was new at the checkpoint"
            note = Note.parse((await site.get("1/checkpoint")).body)
            assert {key.name for key, _ in open_note(note, [own.log_id_key, of.witness_key])[1]} == {own.log_id_key.name, of.name}
