"""The invariants, checked from outside: the rows of the database, the notes about signatures, and the ledger of the clients."""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import Any

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from faults.crash import Crashing, Ledger

from greatseal_ca.health import PROBE

Ask = Callable[[str], list[Any]]


@contextmanager
def rows_of(database: str) -> Iterator[Ask]:
    """Rows by a query, from outside the service."""
    if database.startswith("sqlite"):
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as store:
            yield lambda query: store.execute(query).fetchall()
    else:
        import psycopg

        with psycopg.connect(database, autocommit=True) as connection:
            yield lambda query: connection.execute(query.encode()).fetchall()


async def check_answers(ledger: Ledger) -> None:
    """What the running service says about what it acknowledged before."""
    gone = {client.kid for client in ledger.deactivated}
    async with aiohttp.ClientSession() as session:
        for client, contact in ledger.contacts:
            client.session = session
            client.nonces.clear()
            answer = await client.post(client.kid or "")
            if client.kid in gone:  # I6: it stays effective
                assert (answer.status, answer.error) == (401, "unauthorized")
            else:  # I7: it is readable
                assert answer.json["contact"] == contact


def check(service: Crashing, ledger: Ledger) -> None:
    """Everything that the rows must show when nothing is under way any more."""
    with rows_of(service.document["database"]["url"]) as ask:
        check_certificates(ask, ledger)
        check_signatures(ask, service)
        check_audit(ask, ledger)
        check_rest(ask)
    assert set(ledger.certificates) == set(ledger.orders)  # every acknowledged order came to its end


def check_certificates(ask: Ask, ledger: Ledger) -> None:
    rows = ask("SELECT status, serial, order_id, der FROM ca_certificate")
    issued = {bytes(der): order for status, _, order, der in rows if status == "issued"}
    for url, pem in ledger.certificates.items():  # I1: what was acknowledged is stored
        assert issued[leaf(pem)] == url.rsplit("/", 1)[1]
    orders = [order for status, _, order, _ in rows if status == "issued"]
    assert len(orders) == len(set(orders))  # I2: an order has one certificate at most
    serials = [serial for _, serial, *_ in rows]
    assert len(serials) == len(set(serials))  # I9


def check_signatures(ask: Ask, service: Crashing) -> None:
    """I1: nothing was signed that was not recorded."""
    rows = ask("SELECT tbs, der FROM ca_certificate")
    recorded = {sha256(bytes(tbs) if der is None else tbs_of(der)).hexdigest() for tbs, der in rows}
    recorded |= {bytes(digest).hex() for (digest,) in ask("SELECT digest FROM ca_crl_number")}
    recorded |= {sha256(bytes(tbs)).hexdigest() for (tbs,) in ask("SELECT tbs FROM ca_responder UNION ALL SELECT tbs FROM ca_first")}
    assert not (lost := signed(service) - recorded), f"{len(lost)} of {len(recorded)}"


def signed(service: Crashing) -> set[str]:
    """The digests of all that the keys of root and issuing CA signed."""
    notes = [line.split() for line in service.signatures.read_text().splitlines()]
    return {digest for digest, purpose in notes if purpose.endswith((":root", ":issuing"))} - {sha256(PROBE).hexdigest()}


def check_audit(ask: Ask, ledger: Ledger) -> None:
    """I8: an event for every acknowledged security action, and one certificate has one."""
    told: Counter[Any] = Counter(ask("SELECT event_type, sub FROM core_audit WHERE sub IS NOT NULL"))
    for url in ledger.accounts:
        account = url.rsplit("/", 1)[1]
        assert told["account.create", account] == 1
        assert told["account.update", account] >= 1
    for client in ledger.deactivated:
        assert told["account.deactivate", (client.kid or "").rsplit("/", 1)[1]] == 1
    issued = [
        re.search(r"certificate (\S+)$", detail) for (detail,) in ask("SELECT detail FROM core_audit WHERE event_type = 'cert.issue'")
    ]
    found = Counter(match[1] for match in issued if match)
    assert found == Counter(id for (id,) in ask("SELECT id FROM ca_certificate WHERE status = 'issued'"))
    proven = ask("SELECT count(*) FROM acme_challenge WHERE status = 'valid'")
    assert ask("SELECT count(*) FROM core_audit WHERE event_type = 'challenge.valid'") == proven


def check_rest(ask: Ask) -> None:
    """I10: nothing stays under way. One CA, whatever happened to its first start."""
    for table in ("acme_order", "acme_challenge"):
        assert ask(f"SELECT count(*) FROM {table} WHERE status = 'processing'") == [(0,)]
    assert ask("SELECT count(*) FROM ca_certificate WHERE status = 'signing'") == [(0,)]
    assert ask("SELECT count(*) FROM acme_validation") == [(0,)]
    assert ask("SELECT count(*) FROM acme_order WHERE status = 'ready'") == [(0,)]
    assert sorted(ask("SELECT role FROM ca_authority")) == [("issuing",), ("root",)]


def settled(service: Crashing) -> bool:
    """Whether nothing is under way."""
    with rows_of(service.document["database"]["url"]) as ask:
        found = [
            *ask("SELECT count(*) FROM acme_order WHERE status = 'processing'"),
            *ask("SELECT count(*) FROM acme_challenge WHERE status = 'processing'"),
            *ask("SELECT count(*) FROM ca_certificate WHERE status = 'signing'"),
        ]
    return found == [(0,)] * 3


def tbs_of(der: bytes) -> bytes:
    return x509.load_der_x509_certificate(bytes(der)).tbs_certificate_bytes


def leaf(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificates(pem)[0].public_bytes(Encoding.DER)
