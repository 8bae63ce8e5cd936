"""Public keys that nobody may use any more, on both databases; and the forms in which an operator gives one."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Conflict, StartProblem
from greatseal.api.store import Refuse
from greatseal.db.core_tables import audit
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.jwk import jwk_of
from greatseal.kernel.changes import ChangesHub
from greatseal.keys.blocked import PAGE, BlockedKeysImpl, listed
from greatseal.keys.command import LONGEST_REASON, keys
from greatseal.keys.given import given_key
from greatseal.testing.store import open_test_database

NAME, OTHER = "ab" * 32, "cd" * 32


class Counted:
    """The database, and how often it was read."""

    def __init__(self):
        self.opened, self.reads = None, 0

    async def read(self, fn, /, *args):
        self.reads += 1
        return await self.opened.read(fn, *args)

    async def write(self, fn, /, *args, **kwargs):
        return await self.opened.write(fn, *args, **kwargs)


@asynccontextmanager
async def opened(url, clock):
    db = Counted()
    changes = ChangesHub(db)
    blocked = BlockedKeysImpl(db, changes)
    async with open_test_database(url, clock=clock, on_changed=changes.notify) as db.opened:
        await blocked.load()
        blocked.db = db
        yield blocked


@pytest.fixture
async def blocked(database_url, clock):
    async with opened(database_url, clock) as blocked:
        yield blocked


async def events(blocked):
    rows = select(audit.c.event_type, audit.c.principal, audit.c.detail).order_by(audit.c.id)
    return [tuple(row) for row in await blocked.db.read(lambda tx: tx.all(rows))]


async def test_a_key_is_blocked_when_the_transaction_has_committed(blocked, clock):
    assert await blocked.db.write(blocked.block, NAME, reason="keyCompromise", by="alice")

    found = await blocked.find(NAME)
    assert (found.spki_sha256, found.reason, found.blocked_by, found.blocked_at) == (NAME, "keyCompromise", "alice", clock.now())
    assert await blocked.db.read(blocked.find_in, NAME) == found
    assert await blocked.find(OTHER) is None
    assert await events(blocked) == [("key.block", "alice", f"{NAME}: keyCompromise")]


async def test_the_first_reason_stays(blocked):
    assert await blocked.db.write(blocked.block, NAME, reason="keyCompromise", by="alice")
    assert not await blocked.db.write(blocked.block, NAME, reason="superseded", by="bob")

    assert (await blocked.find(NAME)).blocked_by == "alice"
    assert len(await events(blocked)) == 1


async def test_a_key_that_is_unblocked_may_be_used_and_blocked_again(blocked):
    await blocked.db.write(blocked.block, NAME, reason="a mistake", by="alice")

    assert await blocked.db.write(blocked.unblock, NAME, by="bob")
    assert not await blocked.db.write(blocked.unblock, NAME, by="bob")
    assert await blocked.find(NAME) is None
    assert await blocked.db.write(blocked.block, NAME, reason="again", by="bob")
    assert (await blocked.find(NAME)).reason == "again"
    assert [event for event, _, _ in await events(blocked)] == ["key.block", "key.unblock", "key.block"]


async def test_a_revocation_blocks_in_its_own_transaction_or_not_at_all(blocked):
    def revoke(tx, *, refused):
        blocked.block(tx, NAME, reason="keyCompromise", by="account-1")
        assert blocked.find_in(tx, NAME) is not None
        if refused:
            raise Refuse(Conflict("revoked already"))

    with pytest.raises(Conflict):
        await blocked.db.write(revoke, refused=True)
    assert await blocked.find(NAME) is None
    assert await events(blocked) == []

    await blocked.db.write(revoke, refused=False)
    assert await blocked.find(NAME) is not None


async def test_whoever_records_after_a_block_sees_it(blocked):
    """Whatever else is under way while it commits."""

    def record(tx):
        found = blocked.find_in(tx, NAME)
        tx.audit(AuditEvent(event_type="record", service="core"))
        return found is None

    under_way = [asyncio.create_task(blocked.db.write(record)) for _ in range(20)]
    await blocked.db.write(blocked.block, NAME, reason="keyCompromise", by="alice")
    after = await asyncio.gather(*(blocked.db.write(record) for _ in range(20)))
    await asyncio.gather(*under_way)

    assert after == [False] * 20


async def test_a_key_that_is_not_blocked_costs_no_statement(blocked):
    await blocked.db.write(blocked.block, NAME, reason="keyCompromise", by="alice")
    before = blocked.db.reads

    for number in range(100):
        assert await blocked.find(f"{number:064x}") is None

    assert blocked.db.reads == before


async def test_the_next_process_knows_them(database_url, clock):
    async with opened(database_url, clock) as first:
        await first.db.write(first.block, NAME, reason="keyCompromise", by="alice")

    async with opened(database_url, clock) as second:
        assert (await second.find(NAME)).reason == "keyCompromise"


async def test_they_are_listed_in_pages(blocked):
    def fill(tx):
        for number in range(PAGE + 3):
            blocked.block(tx, f"{number:064x}", reason="r", by="b")

    await blocked.db.write(fill)
    first = await blocked.db.read(listed, "")
    second = await blocked.db.read(listed, first[-1].spki_sha256)

    assert [one.spki_sha256 for one in first + second] == [f"{number:064x}" for number in range(PAGE + 3)]
    assert await blocked.db.read(listed, second[-1].spki_sha256) == []


# ---- Given by an operator


KEYS = {
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "rsa": rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "weak": rsa.generate_private_key(3, 1024),
    "dsa": dsa.generate_private_key(1024),
}


def certificate(key):
    hash_alg, name, now = None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256(), x509.Name([]), datetime.now(UTC)
    return x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(1)).sign(key, hash_alg)


def request(key):
    return x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256())


def forms(key):
    yield from (of(key).public_bytes(encoding) for of in (certificate, request) for encoding in (Encoding.PEM, Encoding.DER))
    yield from (key.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo) for encoding in (Encoding.PEM, Encoding.DER))
    yield from (key.private_bytes(encoding, PrivateFormat.PKCS8, NoEncryption()) for encoding in (Encoding.PEM, Encoding.DER))
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        yield key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    yield b"a comment before\n" + certificate(key).public_bytes(Encoding.PEM) + certificate(KEYS["ec"]).public_bytes(Encoding.PEM)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_is_given_in_any_form(key, tmp_path):
    name = sha256(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
    file = tmp_path / "given"

    for data in forms(key):
        file.write_bytes(data)
        assert given_key(str(file)) == name == spki_sha256(key.public_key())


@pytest.mark.parametrize("private", [{}, {"d": "AAAA", "kid": "k", "use": "enc"}])
def test_a_key_is_given_as_a_jwk(private, tmp_path):
    file = tmp_path / "jwk.json"
    file.write_text(json.dumps(jwk_of(KEYS["ec"].public_key()) | private))

    assert given_key(str(file)) == spki_sha256(KEYS["ec"].public_key())


@pytest.mark.parametrize("text", [NAME, NAME.upper(), ":".join(NAME[at : at + 2] for at in range(0, 64, 2)).upper()])
def test_a_key_is_given_by_its_hash(text):
    assert given_key(text) == NAME


def test_what_is_no_key_is_one_line(tmp_path):
    encrypted, folder = tmp_path / "key", tmp_path / "folder"
    encrypted.write_bytes(KEYS["ec"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")))
    folder.mkdir()

    for wrong, said in ((str(encrypted), "encrypted"), (str(folder), "no file"), ("absent", "no file"), (NAME[1:], "SHA-256")):
        with pytest.raises(StartProblem, match=said) as refused:
            given_key(wrong)
        (line,) = refused.value.messages
        assert "\n" not in line


@pytest.mark.parametrize("reason", [" ", "a\nb", "x" * (LONGEST_REASON + 1)], ids=["blank", "two lines", "too long"])
def test_a_reason_is_one_line(tmp_path, reason):
    answer = CliRunner().invoke(keys, ["block", NAME, "--reason", reason, "-c", str(tmp_path / "absent.toml")])

    assert answer.exit_code == 2
    assert "--reason: expected one line" in answer.output


@given(
    st.binary(max_size=300) | st.text(max_size=100).map(lambda text: b"{" + text.encode()) | st.sampled_from([b"-----BEGIN", b"[]", b"{}"])
)
def test_any_file_is_a_key_or_refused_in_one_line(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data)

    with pytest.raises(StartProblem):
        given_key(str(file))
