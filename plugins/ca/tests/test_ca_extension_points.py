"""SAN injectors, observers and other issuers: what third parties add to an issuance."""

import sys

import pytest
from cryptography import x509
from sqlalchemy import select

from greatseal.api.problems import StartProblem
from greatseal.testing.distributions import install
from greatseal.testing.service import Kernel, document
from greatseal_ca import tables

INJECTOR = """
from cryptography import x509
from greatseal import hookimpl
from greatseal.api.issuance import IssuanceObserver, Issued, Issuer, Prepared, Draft, SanInjector

class Upn(SanInjector):
    name = "upn"

    def names(self, issuance):
        oid = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
        return [x509.OtherName(oid, b"\\x0c\\x01a"), x509.DNSName(issuance.identifiers[0].value)]

class Ledger(IssuanceObserver):
    seen = []

    def issued(self, tx, certificate):
        self.seen.append((certificate, tx.now))

class Logged(Issuer):
    issue_as = "logged"
    abandons = []

    async def compose(self, request, names):
        return Draft(id="logged-1", request=request, issue_as="logged", serial=None, tbs=b"entry", not_before=1, not_after=2)

    def prepare(self, tx, draft):
        return Prepared(id=draft.id, issue_as="logged", ca_id=draft.request.ca_id, kid="log", serial=None, tbs=draft.tbs)

    async def issue(self, prepared):
        return Issued(der=b"\\x30\\x00", chain=(), media_type="application/pkix-cert", serial=b"\\x2a")

    async def settle(self, prepared):
        return None

    def abandoned(self, tx, prepared):
        self.abandons.append(prepared.id)

class Plugin:
    def __init__(self):
        Ledger.seen, Logged.abandons = [], []

    @hookimpl
    def san_injectors(self, host):
        return [Upn()]

    @hookimpl
    def issuance_observers(self, host):
        return [Ledger()]

    @hookimpl
    def issuers(self, host):
        return [Logged()]
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


async def test_another_issuer_may_give_the_serial_when_it_issues(open_with):
    desk = await open_with(profiles={"default": {"issue_as": "logged"}})
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    assert (await desk.issuance.certificate("logged-1")).serial is None
    certificate = await desk.db.write(desk.issuance.record, prepared, await desk.issuance.issue(prepared))

    assert (certificate.serial, certificate.chain, certificate.media_type) == (b"\x2a", (), "application/pkix-cert")
    assert await desk.issuance.certificate("logged-1") == certificate


async def test_an_issuer_is_told_what_is_abandoned(open_with):
    desk = await open_with(profiles={"default": {"issue_as": "logged"}})
    prepared = await desk.db.write(desk.issuance.reserve, await desk.compose("a.example.com"))
    assert await desk.issuance.settle(prepared) is None
    await desk.db.write(desk.issuance.abandon, prepared)
    await desk.db.write(desk.issuance.abandon, prepared)

    assert sys.modules["greatseal_third_party"].Logged.abandons == ["logged-1"]


def test_a_profile_needs_the_issuer_that_it_names(tmp_path, third_party):
    profiles = {"p": {"issue_as": "logged"}}
    Kernel(document(tmp_path, ["ca", third_party], profiles=profiles))

    with pytest.raises(StartProblem, match="no enabled plugin issues 'logged'"):
        Kernel(document(tmp_path, ["ca"], profiles=profiles))


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
