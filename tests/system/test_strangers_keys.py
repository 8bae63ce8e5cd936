"""A stranger's key store in a running service: a CA whose key the operator made there, and a ring whose keys are made there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_public_key
from rig.acme import acme_site
from rig.strangers.folder_keys import FolderKeys

from greatseal.api.keys import KeyStore
from greatseal.api.problems import StartProblem
from greatseal.jose.algorithms import verify
from greatseal.testing.desk import Desk, forgetful
from greatseal.testing.keystores import KeyStoreContract
from greatseal.testing.plugin import StartService
from greatseal.testing.service import Kernel, document, serve


@pytest.fixture
def feature(strangers: Path) -> str:
    """The stranger's feature, installed."""
    return "folder-keys"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    return folder


@pytest.fixture
def config(tmp_path: Path, feature: str, keys: Path, fresh_database: Callable[[], str]) -> dict[str, Any]:
    """A service with the stranger's feature alone, always on the same database."""
    sections: dict[str, Any] = {feature: {"path": str(keys)}}
    return document(tmp_path, [feature], database={"url": fresh_database()}, server={"state_dir": str(tmp_path)}, **sections)


def kept(keys: Path) -> list[str]:
    """The names of the keys in the folder."""
    return [file.stem for file in keys.iterdir()]


def unmount(keys: Path) -> Path:
    """Take the folder away; where it is now."""
    return keys.rename(keys.with_name("unmounted"))


def spoil(keys: Path, what: str) -> None:
    """Take the one key away, or put another in its place."""
    (file,) = keys.iterdir()
    if what == "another":
        file.write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    elif what == "empty":
        file.unlink()
    else:
        unmount(keys)


class TestFolderKeys(KeyStoreContract):
    words, absent, no_words = "brought", "another", ("", "../brought", "two words")

    @pytest.fixture(autouse=True)
    def _brought(self, keys: Path) -> None:
        self.keys = keys
        (keys / "brought.pem").write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))

    def store(self) -> KeyStore:
        return FolderKeys(self.keys)

    def unreachable(self) -> KeyStore:
        return FolderKeys(self.keys / "not mounted")


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


async def test_a_ca_signs_with_the_key_of_a_store(start_service: StartService, tmp_path: Path, feature: str, keys: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    (keys / "issuing.pem").write_bytes(pem(key))
    sections: dict[str, Any] = {feature: {"path": str(keys)}, "ca": {"key_file": "folder:issuing", "cert_file": str(tmp_path / "ca.pem")}}

    async with acme_site(start_service, feature, **sections) as site:
        leaf, *_ = await (await site.client()).issue(site.responder, "a.localhost")

    (issuing, root) = x509.load_pem_x509_certificates((tmp_path / "ca.pem").read_bytes())
    assert issuing.public_key() == key.public_key()
    leaf.verify_directly_issued_by(issuing)
    issuing.verify_directly_issued_by(root)


async def test_a_new_key_of_a_store_signs_and_the_one_before_is_retained(config: dict[str, Any]) -> None:
    async with serve(config) as service, forgetful() as http:
        desk = Desk(service, http)
        first = (await desk.ask("POST", "/keys")).json
        second = (await desk.ask("POST", "/keys")).json

        held = (await desk.ask("GET", "/keys")).json
        assert {one["kid"]: one["state"] for one in held["keys"]} == {first["kid"]: "retained", second["kid"]: "active"}
        assert {one["store"] for one in held["keys"]} == {"folder"}
        signed = (await desk.ask("POST", "/sign", data=b"x")).json
        assert signed["kid"] == second["kid"]
        verify("ES256", load_der_public_key(bytes.fromhex(second["spki"])), b"x", bytes.fromhex(signed["signature"]))  # type: ignore[arg-type]


async def test_keys_of_a_store_are_there_after_a_restart_and_gone_after_their_revocation(config: dict[str, Any], keys: Path) -> None:
    async with serve(config) as service, forgetful() as http:
        made = (await Desk(service, http).ask("POST", "/keys")).json
    async with serve(config) as service, forgetful() as http:
        desk = Desk(service, http)
        assert (await desk.ask("GET", "/keys")).json["active"] == made["kid"]
        assert kept(keys) == [made["kid"]]

        assert (await desk.ask("DELETE", f"/keys/{made['kid']}")).json == {"keys": [], "active": None}
        assert kept(keys) == []


async def test_a_key_that_could_not_be_destroyed_is_at_the_next_start(config: dict[str, Any], keys: Path) -> None:
    async with serve(config) as service, forgetful() as http:
        desk = Desk(service, http)
        made = (await desk.ask("POST", "/keys")).json
        away = unmount(keys)
        assert (await desk.ask("DELETE", f"/keys/{made['kid']}")).status == 200
    away.rename(keys)  # nothing else waits for the loop
    assert kept(keys) == [made["kid"]]

    async with serve(config):
        assert kept(keys) == []


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("unmounted", "which cannot be reached: .* is not mounted"),
        ("empty", "which does not hold it; put it back"),
        ("another", "which has another key of that name; put back the right one"),
    ],
)
async def test_a_start_without_the_key_of_a_store_is_refused(config: dict[str, Any], keys: Path, what: str, expected: str) -> None:
    async with serve(config) as service, forgetful() as http:
        await Desk(service, http).ask("POST", "/keys")
    spoil(keys, what)

    with pytest.raises(StartProblem, match=f"is in the key store 'folder', {expected}"):
        async with serve(config):
            pass


async def test_a_key_of_a_store_that_nobody_provides_any_more_stops_the_start(config: dict[str, Any], feature: str) -> None:
    async with serve(config) as service, forgetful() as http:
        await Desk(service, http).ask("POST", "/keys")

    with pytest.raises(StartProblem, match="which no enabled plugin provides; enable the one that does"):
        async with serve({**{name: section for name, section in config.items() if name != feature}, "plugins": {"enabled": []}}):
            pass


@pytest.mark.parametrize(
    ("key_file", "expected"),
    [
        ("folder:absent", "folder:absent: the key store 'folder' has no such key"),
        ("folder:../etc", "folder:../etc: expected the name of a file without .pem"),
    ],
)
async def test_a_ca_without_its_key_in_the_store_stops_the_start(
    tmp_path: Path, feature: str, keys: Path, key_file: str, expected: str
) -> None:
    ca = {"key_file": key_file, "cert_file": str(tmp_path / "ca.pem")}
    sections: dict[str, Any] = {feature: {"path": str(keys)}, "ca": ca}

    with pytest.raises(StartProblem) as refused:
        async with serve(document(tmp_path, ["ca", feature], **sections)):
            pass
    assert refused.value.messages == (f"[ca] default: key_file: {expected}",)


def test_an_unknown_store_is_told_with_those_that_are_known(tmp_path: Path, feature: str, keys: Path) -> None:
    ca = {"key_file": "hsm:issuing", "cert_file": str(tmp_path / "ca.pem")}
    sections: dict[str, Any] = {feature: {"path": str(keys)}, "ca": ca}

    with pytest.raises(StartProblem, match="no enabled plugin provides the key store 'hsm'; known: folder"):
        Kernel(document(tmp_path, ["ca", feature], **sections))
