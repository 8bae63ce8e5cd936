"""What ends with a revoked account, and what a certificate has to be for another account to revoke it."""

import base64
import datetime as dt
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import insert, select

from greatseal.api.issuance import IdentifierType
from greatseal.api.problems import BadRequest
from greatseal.testing.issuance import FakeIssuance, issuance_for
from greatseal.testing.store import open_test_database
from greatseal_acme import tables as t
from greatseal_acme.endings import revoke
from greatseal_acme.revocation import Revocations, _der_of

ACCOUNT, OTHER = "00000001-0000-8000-8000-000000000000", "00000002-0000-8000-8000-000000000000"
KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.DNSName("a.example")
PRINCIPAL = x509.OtherName(x509.ObjectIdentifier("1.3.6.1.5.2.2"), b"\x05\x00")


class Names(IdentifierType):
    type = "dns"

    def canonical(self, value: str) -> str:
        return value

    def general_name(self, value: str) -> x509.GeneralName:
        return x509.DNSName(value)

    def of(self, name: x509.GeneralName) -> str | None:
        return name.value if isinstance(name, x509.DNSName) else None


def certificate(*names: x509.GeneralName, more: x509.ExtensionType | None = None) -> bytes:
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(x509.Name([]), x509.Name([]), KEY.public_key(), 7, now, now + dt.timedelta(days=1))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    if more is not None:
        builder = builder.add_extension(more, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.fixture
async def db(tmp_path):
    async with open_test_database(f"sqlite:///{tmp_path}/endings.db", t.SCHEMA) as db:
        yield db


async def keep(db, table: Any, id: str, **values: Any) -> None:
    common = {"account_id": ACCOUNT, "ca_id": "default", "expires_at": 2**60}
    await db.write(lambda tx: tx.run(insert(table).values({"id": id, **common, **values})))


async def authorization(db, id: str, status: str, **values: Any) -> None:
    await keep(
        db, t.authorization, id, status=status, **{"identifier_type": "dns", "identifier_value": "a.example", "wildcard": 0, **values}
    )


async def test_r117_what_is_under_way_ends_with_the_account_and_nothing_else(db):
    account = {"status": "deactivated", "thumbprint": "t", "jwk": "{}", "contact": "[]", "terms_agreed": 0, "created_at": 0}
    await db.write(lambda tx: tx.put(t.ACCOUNT, ACCOUNT, **account))
    for status in ("pending", "ready", "processing", "valid", "invalid"):
        order = {"profile": "default", "profile_requested": 0, "identifiers": "[]", "created_at": 0}
        await keep(db, t.order, f"of {status}", status=status, **order)
        await keep(db, t.order, f"other {status}", status=status, **{**order, "account_id": OTHER})
    for status in ("pending", "valid", "invalid", "deactivated"):
        await authorization(db, f"of {status}", status)
        await authorization(db, f"other {status}", status, account_id=OTHER)

    await db.write(revoke, ACCOUNT, "ann")

    for of, ended in ((t.order, {"pending": "invalid", "ready": "invalid"}), (t.authorization, {"pending": "revoked", "valid": "revoked"})):
        rows = await db.read(_statuses, of)
        for row in rows:
            whose, _, before = row.id.partition(" ")
            assert row.status == (ended.get(before, before) if whose == "of" else before), row.id


def _statuses(tx, of):
    return tx.all(select(of.c.id, of.c.status))


HELD = [
    ((NAME,), True),
    ((NAME, x509.DNSName("b.example")), False),
    ((x509.DNSName("*.a.example"),), False),
    ((NAME, PRINCIPAL), False),
    ((), False),
]


@pytest.mark.parametrize(("names", "held"), HELD)
async def test_s119_all_names_of_a_certificate_are_held_and_one_at_least(db, names, held):
    host: Any = SimpleNamespace(components=lambda _: {"dns": Names()})
    issuance = FakeIssuance()
    prepared = await db.write(issuance.reserve, await issuance.compose(issuance_for()))
    await db.write(issuance.record, prepared, await issuance.issue(prepared))
    await authorization(db, "held", "valid")
    found = msgspec.structs.replace(issuance.inventory[prepared.id], der=certificate(*names))

    assert await db.read(Revocations(host, issuance)._holds_all, ACCOUNT, found) is held


def sent(der: bytes) -> str:
    return base64.urlsafe_b64encode(der).rstrip(b"=").decode()


def test_bytes_that_are_no_certificate_are_malformed_wherever_they_were_changed():
    whole = certificate(NAME, more=x509.AuthorityKeyIdentifier(b"key", None, None))
    for at in range(0, len(whole), 3):
        for value in (0, 0x80, 0xFF):
            try:
                _der_of(sent(whole[:at] + bytes([value]) + whole[at + 1 :]))
            except BadRequest:
                continue
