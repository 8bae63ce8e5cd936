"""SAN injectors and observers: what third parties add to an issuance."""

import sys
from functools import partial

import pytest
from cryptography import x509
from sqlalchemy import select

from greatseal import der
from greatseal.api.inventory import CertificateQuery
from greatseal.api.problems import BadRequest, Conflict, NotFound
from greatseal.testing.distributions import install
from greatseal.testing.store import audit
from greatseal_ca import tables
from greatseal_ca.chains import spki_of

INJECTOR = """
from cryptography import x509
from greatseal import hookimpl
from greatseal.api.issuance import IssuanceObserver, SanInjector

class Upn(SanInjector):
    name = "upn"

    def names(self, issuance):
        oid = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
        return [x509.OtherName(oid, b"\\x0c\\x01a"), x509.DNSName(issuance.identifiers[0].value)]

class Ledger(IssuanceObserver):
    seen = []

    def issued(self, tx, certificate):
        self.seen.append((certificate, tx.now))

    def revoked(self, tx, certificate, reason):
        self.seen.append((certificate, reason))

class Plugin:
    def __init__(self):
        Ledger.seen = []

    @hookimpl
    def san_injectors(self, host):
        return [Upn()]

    @hookimpl
    def issuance_observers(self, host):
        return [Ledger()]
"""


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """The feature of a distribution that adds a name, watches, and issues in a manner of its own."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return install(folder, "greatseal-third-party", INJECTOR)


@pytest.fixture
def open_with(open_desk, third_party):
    async def start(**sections):
        return await open_desk(third_party, **sections)

    return start


async def test_injected_names_are_in_the_certificate_once(open_with):
    desk = await open_with()
    leaf = await desk.leaf("a.example.com")
    san = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert san.get_values_for_type(x509.DNSName) == ["a.example.com"]
    assert [name.value for name in san.get_values_for_type(x509.OtherName)] == [b"\x0c\x01a"]


async def test_observers_are_told_in_the_transaction(open_with):
    desk = await open_with()
    certificate = await desk.certify("a.example.com")
    ((told, _),) = sys.modules["greatseal_third_party"].Ledger.seen

    assert told == certificate


async def test_observers_are_told_of_a_revocation(open_with):
    desk = await open_with()
    certificate = await desk.certify("a.example.com")
    revoke = partial(desk.db.write, partial(desk.issuance.revoke, by="alice"), certificate.id)
    with pytest.raises(BadRequest, match="the reason 6 is none of 0"):
        await revoke(6)
    revoked = await revoke(1)
    with pytest.raises(Conflict, match="the certificate is revoked"):
        await revoke(4)

    assert sys.modules["greatseal_third_party"].Ledger.seen[1:] == [(revoked, 1)]
    assert (revoked.status, revoked.reason) == ("revoked", 1)
    assert await desk.issuance.certificate(certificate.id) == revoked
    (event,) = await desk.rows(select(audit).where(audit.c.event_type == "cert.revoke"))
    assert (event.principal, event.sub) == ("alice", "account-1")
    assert event.detail == f"serial {certificate.serial.hex()} of CA default, certificate {certificate.id}, reason 1"


async def test_only_what_was_issued_is_revoked(open_desk):
    desk = await open_desk()
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    revoke = partial(desk.issuance.revoke, by="alice")

    with pytest.raises(Conflict, match="the certificate is signing"):
        await desk.db.write(revoke, prepared.id, None)
    with pytest.raises(NotFound):
        await desk.db.write(revoke, "nothing", None)


async def test_the_inventory_is_listed_and_found_by_serial(open_desk):
    desk = await open_desk(ca=[{"id": "one", "is_default": True}, {"id": "two"}])
    made = [await desk.certify("a.example.com", ca_id=ca_id) for ca_id in ("one", "one", "two")]
    last, middle, first = sorted(made, key=lambda one: one.id, reverse=True)
    find = partial(desk.db.read, desk.issuance.find)
    asked = {
        "all": CertificateQuery(),
        "a page": CertificateQuery(limit=1, before=last.id),
        "of a CA": CertificateQuery(ca_id="two"),
        "of an account": CertificateQuery(ca_id="two", account_id="account-1", status="issued"),
        "of nobody": CertificateQuery(account_id="nobody"),
    }

    assert {name: await desk.issuance.certificates(query) for name, query in asked.items()} == {
        "all": [last, middle, first],
        "a page": [middle],
        "of a CA": [made[2]],
        "of an account": [made[2]],
        "of nobody": [],
    }
    assert await find("one", made[0].serial) == made[0]
    assert (await find("two", made[0].serial), await find("one", made[0].serial, "mtc")) == (None, None)


async def test_a_certificate_is_found_by_the_key_of_its_issuer(open_desk):
    desk = await open_desk()
    certificate = await desk.certify("a.example.com")
    unsigned = await desk.db.write(desk.issuance.reserve, await desk.compose("b.example.com"))
    extensions = x509.load_der_x509_certificate(certificate.der).extensions
    authority = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    own = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.key_identifier

    async def named(key, serial):
        return await desk.db.read(desk.issuance.named, key, serial)

    assert await named(authority, certificate.serial) == certificate
    assert await named(own, certificate.serial) is None
    assert await named(authority, unsigned.serial) is None
    assert await named(authority, b"\x01") is None


async def test_the_very_certificate_is_found_of_its_ca_alone(open_desk):
    desk = await open_desk()
    certificate = await desk.certify("a.example.com")
    *body, signature = der.children(certificate.der)
    other = der.sequence(*body, signature[:-1] + bytes([signature[-1] ^ 1]))

    async def identical(ca_id, of):
        return await desk.db.read(desk.issuance.identical, ca_id, of)

    assert await identical("default", certificate.der) == certificate
    assert await identical("two", certificate.der) is None
    assert await identical("default", other) is None
    with pytest.raises(ValueError, match="error parsing"):
        await identical("default", b"\x30\x00")


async def test_the_keys_of_cas_are_known_by_what_they_are_of(open_desk, tmp_path, brought):
    files = {"key_file": str(brought.key_file), "cert_file": str(brought.cert_file)}
    desk = await open_desk(ca=[{"id": "one", "is_default": True}, {"id": "two", **files}])

    keys = desk.issuance.own_keys()

    one = desk.authority("one")
    assert keys[one.signer.info.spki] == "the issuing key of CA 'one'"
    assert keys[spki_of(one.root)] == "the root key of CA 'one'"
    assert keys[spki_of(brought.issuing)] == keys[spki_of(brought.root)] == "a key in the chain of CA 'two'"
    assert len(keys) == 4


async def test_inventory_and_authorities_are_alike_on_both_databases(open_desk, database_url):
    desk = await open_desk(database={"url": database_url, "migrate": "auto"})
    certificate = await desk.certify("a.example.com")
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("b.example.com"))

    assert await desk.issuance.certificate(certificate.id) == certificate
    assert await desk.issuance.settle(prepared) == await desk.issuance.issue(prepared)
    await desk.db.write(desk.issuance.abandon, prepared)
    statuses = {row.serial: row.status for row in await desk.rows(select(tables.certificate))}
    assert statuses == {certificate.serial.hex(): "issued", prepared.serial.hex(): "unknown"}
    assert sorted(row.role for row in await desk.rows(select(tables.authority))) == ["issuing", "root"]
