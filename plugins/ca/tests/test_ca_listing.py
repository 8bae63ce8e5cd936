"""Lists of the inventory: by what certificates are found, how far a page walks, what ends soon and was not renewed."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import create_engine, func, insert, select, text
from sqlalchemy.dialects import sqlite

from greatseal.api.acme import AccountView
from greatseal.api.inventory import CertificateQuery
from greatseal.db.tables import insert_new
from greatseal.testing import FakeClock
from greatseal.testing.schema import at_revision
from greatseal_ca import listing, tables
from greatseal_ca.listing import BITE, Ending, _ending_statements, _statements
from greatseal_ca.names import words_of
from greatseal_ca.validity import DAY

START = 1_800_000_000 * 10**6
OTHER = AccountView(id="account-2", url="https://ca.example/acme/account/account-2", status="valid", thumbprint="y" * 43)

FOUND_BY = {
    "example.com": {"example.com"},
    "*.WWW.example.com": {"*.www.example.com", ".www.example.com", ".example.com"},
    "a.b.c.d.e.f.example": {"a.b.c.d.e.f.example", ".c.d.e.f.example", ".d.e.f.example", ".e.f.example", ".f.example"},
    "ann@example.com": {"ann@example.com", ".example.com"},
    "root@localhost": {"root@localhost"},
    "192.0.2.1": {"192.0.2.1"},
    "2001:db8::1": {"2001:db8::1"},
    "https://a.example.com/x.y": {"https://a.example.com/x.y"},
    "x" * 300: {"x" * 255},
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_by_what_a_certificate_is_found(name):
    assert set(words_of([name, name])) == FOUND_BY[name]
    assert len(words_of([name, name])) == len(FOUND_BY[name])


@pytest.fixture
async def desk(open_desk, database_url):
    clock = FakeClock(START)
    return await open_desk(database={"url": database_url, "migrate": "auto"}, profiles={"short": {"validity_days": 6}}, clock=clock)


async def test_a_page_walks_so_far_and_the_next_one_goes_on(desk):
    first = await desk.certify("a.example.com", profile="short")
    row = (await desk.rows(select(tables.certificate)))[0]._asdict()
    spared = {**row, "profile": "default", "status": "revoked"}

    new = insert_new(tables.certificate)

    def fill(tx):
        for number in range(BITE + 1):
            id = f"{START // 10**6 + 1:08x}-0000-8000-8000-{number:012x}"
            tx.run(new, **{**spared, "id": id, "serial": f"{number:08x}"})

    await desk.db.write(fill)
    desk.service.kernel.clock.advance(2 * 3600)
    last = await desk.certify("b.example.com", profile="short")
    page = desk.issuance.page

    found, following = await page(CertificateQuery(status="issued"))
    assert [one.id for one in found] == [last.id]
    rest, end = await page(CertificateQuery(status="issued", before=following))
    assert ([one.id for one in rest], end) == ([first.id], None)
    # The moment of an id bounds the walk; an index leads past what is of another profile.
    since = START + 2 * 3600 * 10**6
    assert await page(CertificateQuery(status="issued", since=since)) == ([last], None)
    assert await page(CertificateQuery(status="issued", until=since)) == ([], following)
    assert await page(CertificateQuery(profile="short")) == ([last, first], None)
    assert await page(CertificateQuery(limit=1, profile="short")) == ([last], last.id)
    assert await desk.issuance.certificates(CertificateQuery(status="issued")) == [last, first]
    assert len(await desk.issuance.certificates(CertificateQuery(limit=BITE + 2))) == BITE + 2
    assert await page(CertificateQuery(name=".Example.com", ca_id="default")) == ([last, first], None)


async def test_what_ends_and_was_not_renewed(desk):
    """One that ends later and has all its names renews a certificate, if it is good."""
    clock, certify = desk.service.kernel.clock, partial(desk.certify, profile="short")
    ends = {
        "renewed": await certify("a.example.com"),
        "in part": await certify("b.example.com", "b2.example.com"),
        "by a revoked one": await certify("c.example.com"),
        "below it": await certify("d.example.com"),
        "of another": await certify("e.example.com", account=OTHER),
    }
    clock.advance(86_400)
    ends["later"] = await certify("x.example.com", "a.example.com")
    ends["part"] = await certify("b2.example.com")
    await desk.revoke(await certify("c.example.com"))
    await certify("www.d.example.com", account=OTHER)
    names = {one.id: name for name, one in ends.items()}

    async def listed(days, limit=100, **more):
        now, found = clock.now(), []
        after = (now, "")
        while after:
            page, key = await desk.issuance.ending(Ending(limit=limit, after=after, until=now + days * DAY, **more))
            found += [names.get(one.id, "new") for one in page]
            after = key and (int(key.partition(".")[0]), key.partition(".")[2])
        return found

    everything = await listed(30)
    assert sorted(everything) == ["below it", "by a revoked one", "in part", "later", "new", "of another", "part"]
    assert set(everything[4:]) == {"later", "new", "part"}
    assert sorted(await listed(5)) == ["below it", "by a revoked one", "in part", "of another"]
    assert await listed(30, limit=2) == everything
    assert await listed(30, limit=2, account_id=OTHER.id) == ["of another", "new"]
    assert await listed(30, ca_id="nobody") == []
    clock.advance(5 * 86_400)
    assert sorted(await listed(30)) == ["later", "new", "part"]
    assert await listed(1, limit=1) == await listed(1)


PLANS = {key: _statements(key, (*filter(None, [key]), "status", "ca_id", "before", "least")) for key in (*listing._KEYS, None)}
PLANS |= {"ending": _ending_statements(("account_id", "ca_id")), "later": (listing._LATER,)}


@pytest.mark.parametrize("name", PLANS)
def test_every_walk_is_along_an_index_that_has_its_order(name):
    engine = create_engine("sqlite://")
    tables.metadata.create_all(engine)
    with engine.connect() as store:
        for statement in PLANS[name]:
            asked = str(statement.compile(dialect=sqlite.dialect())).replace("?", "1")
            steps = [row.detail for row in store.execute(text(f"EXPLAIN QUERY PLAN {asked}"))]
            whole = [step for step in steps if step.startswith("SCAN") and step not in {"SCAN seen", "SCAN newest"}]
            sorted_walk = [step for step in steps if "TEMP B-TREE" in step and statement is PLANS[name][-1] and name != "serial"]
            assert whole == sorted_walk == [], steps
    engine.dispose()


def test_certificates_of_before_are_found_by_their_names(database_url, ec_key):
    """Also after the migration; what is no X.509 certificate has none."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Old")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, ec_key.public_key(), 1, now, now + timedelta(days=1))
    san = x509.SubjectAlternativeName([x509.DNSName("www.example.com")])
    der = builder.add_extension(san, critical=False).sign(ec_key, hashes.SHA256()).public_bytes(Encoding.DER)
    words = {name: name for name in ("status", "ca_id", "issue_as", "kid", "profile")}
    row = {**words, "spki_sha256": b"spki", "not_before": 1, "not_after": 2, "created_at": 3}
    with at_revision(tables.SCHEMA, database_url, "0006") as store:
        for id, kept in (("one", der), ("other", b"none"), ("reserved", None)):
            store.execute(insert(tables.certificate).values(**row, id=id, serial=id, der=kept))

    with at_revision(tables.SCHEMA, database_url, tables.SCHEMA.head) as store:
        found = {(row.name, row.certificate_id) for row in store.execute(select(tables.name))}
        left = store.execute(select(func.count()).select_from(tables.certificate)).scalar()

    assert found == {("www.example.com", "one"), (".example.com", "one"), ("old", "one")}
    assert left == 3
