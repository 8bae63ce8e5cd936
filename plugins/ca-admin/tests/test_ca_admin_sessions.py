"""Sign-in by certificate, sessions, their lock and end, the limits."""

import asyncio
from base64 import b64encode
from hashlib import sha256

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal import der
from greatseal.jose.acceptance import spki_sha256
from greatseal.testing.desk import forgetful
from greatseal.testing.operator_desk import OperatorDesk, Person, admin_section
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.sessions import MOST, digest_of

SESSION = "/admin/session"


async def test_ca_192_an_operator_signs_in_by_certificate_and_out_again(office_of):
    office = office_of
    answer = await office.post(SESSION, person=office.root)

    assert (answer.status, answer.json["role"]) == (200, "administrator")
    token = answer.json["session_token"]
    assert (len(token), answer.headers["X-Session-Token"]) == (64, token)
    assert answer.json["expires_at"] == office.clock.now() // 1_000_000 + 3600
    assert (await office.get(SESSION, token=token)).json == {
        "name": "root", "role": "administrator", "ca_id": None, "expires_at": answer.json["expires_at"],
    }  # fmt: skip
    assert (await office.ask("DELETE", SESSION, token=token)).status == 204
    assert (await office.get(SESSION, token=token)).status == 401
    assert [event.sub for event in await office.events("admin.login", "admin.logout")] == ["root", "root", "root"]


async def test_the_token_is_stored_hashed(office):
    rows = await office.rows(t.session)

    assert [row.digest for row in rows] == [sha256(office.token.encode()).hexdigest()]
    assert office.token not in repr(rows)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer x", f"Bearer {'0' * 64}", "Basic eDp5", "Bearer " + "A" * 64, "Bearer " + "é" * 64]
)
async def test_ca_192_without_a_session_nobody_is_let_in(office, header):
    answer = await office.get(SESSION, headers={"Authorization": header} if header else {})

    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_certificate_that_no_operator_has_is_refused_like_none(office, people):
    stranger = Person.of(people, "stranger")
    hired = await office.hire(office.token, "ann", "auditor")
    await office.ask("DELETE", f"/admin/operators/{(await office.operator('ann'))['id']}", token=office.token)

    with pytest.raises((aiohttp.ClientError, OSError)):  # the listener trusts nobody whom it does not know
        await office.post(SESSION, person=stranger)
    with pytest.raises((aiohttp.ClientError, OSError)):
        await office.post(SESSION, person=hired)
    assert (await office.post(SESSION)).status == 401


async def test_an_issuer_of_client_ca_file_is_trusted_and_its_strangers_are_nobody(open_office, people):
    outside = Person.of(people, "outside")
    office = await open_office(admin={"client_ca_file": str(outside.cert_file)})

    refused = await office.post(SESSION, person=outside)
    await office.post(
        "/admin/operators", token=office.token, json={"name": "o", "role": "auditor", "cert_fingerprint": outside.fingerprint}
    )

    assert (refused.status, "no active operator has this certificate" in refused.json["detail"]) == (401, True)
    assert outside.fingerprint in (await office.events("admin.login"))[-1].detail
    assert (await office.post(SESSION, person=outside)).json["role"] == "auditor"


async def test_what_an_operator_signed_in_with_is_looked_at_with_every_request(office_of, people):
    office = office_of
    blocked, ending = await office.hire(office.token, "blocked", "auditor"), Person.of(people, "ending", days=(-1, 0.005))
    body = {"name": "ending", "role": "auditor", "certificate": ending.pem}
    assert (await office.post("/admin/operators", token=office.token, json=body)).status == 201
    tokens = [await office.sign_in(one) for one in (blocked, ending, office.root)]
    key = spki_sha256(x509.load_der_x509_certificate(blocked.der).public_key())
    host = office.service.host("ca-admin")
    await host.db.write(lambda tx: host.blocked_keys.block(tx, key, reason="keyCompromise", by="test"))

    assert [(await office.get(SESSION, token=token)).status for token in tokens] == [401, 200, 200]
    office.clock.advance(800)
    assert [(await office.get(SESSION, token=token)).status for token in tokens] == [401, 401, 200]
    assert [(event.sub, event.detail) for event in await office.events("admin.logout")] == [
        ("blocked", "the key of the certificate is blocked"), ("ending", "the certificate is not valid at this time"),
    ]  # fmt: skip


async def test_a_session_that_rests_is_locked_and_then_ends_and_no_clock_wakes_it(office_of):
    office = office_of
    other = await office.sign_in(office.root)
    office.clock.advance(890)
    assert (await office.get(SESSION, token=office.token)).status == 200
    office.clock.advance(11)
    assert (await office.get(SESSION, token=office.token)).status == 200

    locked = await office.get(SESSION, token=other)
    office.clock.step(-600)
    again = await office.get(SESSION, token=other)
    used = await office.get(SESSION, token=office.token)
    office.clock.advance(4300)
    ended = await office.get(SESSION, token=other)
    office.clock.step(-4300)

    assert (locked.status, again.status, used.status, ended.status) == (423, 423, 200, 401)
    assert (await office.get(SESSION, token=other)).status == 401


async def test_a_session_that_is_asked_for_after_its_end_is_gone_for_good(office):
    office.clock.advance(3600)
    ended = await office.get(SESSION, token=office.token)
    office.clock.step(-3600)

    assert (ended.status, (await office.get(SESSION, token=office.token)).status) == (401, 401)
    assert await office.rows(t.session) == []


async def test_sessions_that_nobody_asks_for_leave(office):
    parts = office.service.kernel.hooks.instances["ca-admin"]._parts
    await parts.sessions.sweep()
    assert len(await office.rows(t.session)) == 1
    office.clock.advance(8000)

    await parts.sessions.sweep()

    assert await office.rows(t.session) == []


async def test_of_too_many_sessions_the_one_that_rested_longest_ends(office):
    def fill(tx):
        for number in range(MOST - 1):
            tx.put(t.SESSION, digest_of(str(number)), operator_id="x", created_at=1, used_at=tx.now + number, locked=0)

    await office.service.kernel.store.write(fill)
    office.clock.advance(5)
    assert (await office.get(SESSION, token=office.token)).status == 200

    await office.sign_in(office.root)

    rows = {row.digest for row in await office.rows(t.session)}
    assert len(rows) == MOST
    assert digest_of("0") not in rows
    assert (await office.get(SESSION, token=office.token)).status == 200


async def test_an_address_may_try_so_often_and_no_more(open_office):
    office = await open_office(admin={"auth_rate_limit": 3})

    answers = await asyncio.gather(*(office.post(SESSION, person=office.root) for _ in range(5)))
    statuses = sorted(answer.status for answer in answers)
    office.clock.advance(301)

    assert statuses == [200, 200, 429, 429, 429]
    assert int(next(answer for answer in answers if answer.status == 429).headers["Retry-After"]) > 0
    assert (await office.post(SESSION, person=office.root)).status == 200


async def late(office, people, name="late"):
    """An operator whose certificate has just ended for the service, not for TLS: its clock is ahead."""
    person = Person.of(people, name, days=(-1, 30))
    made = await office.post("/admin/operators", token=office.token, json={"name": name, "role": "auditor", "certificate": person.pem})
    assert made.status == 201, made.text
    office.clock.step(40 * 86_400)
    return person


async def test_failures_in_parallel_lock_the_operator_exactly_once(open_office, people, database_url):
    office = await open_office(admin={"auth_rate_limit": 0}, database={"url": database_url})
    person = await late(office, people)

    answers = await asyncio.gather(*(office.post(SESSION, person=person) for _ in range(12)))
    statuses = sorted(answer.status for answer in answers)
    (row,) = [row for row in await office.rows(t.attempt) if row.locked_until is not None]

    assert statuses == [401] * 5 + [423] * 7
    assert (row.failed_attempts, row.locked_until) == (0, office.clock.now() + 1_800_000_000)
    assert len(await office.events("operator.lock", "security.violation")) == 2


async def test_a_lock_ends_by_its_time_and_by_an_administrator_and_by_no_clock(open_office, people):
    office = await open_office(admin={"auth_rate_limit": 0, "max_failed_auth": 2})
    person = await late(office, people)
    statuses = [(await office.post(SESSION, person=person)).status for _ in range(3)]
    office.clock.step(-40 * 86_400)  # now the certificate is well, and the lock of a clock that was ahead is none
    assert (statuses, (await office.post(SESSION, person=person)).status) == ([401, 401, 423], 200)

    office.clock.step(40 * 86_400)
    for _ in range(2):
        await office.post(SESSION, person=person)
    office.clock.step(-1)
    assert (await office.post(SESSION, person=person)).status == 423
    office.clock.step(1802)
    assert (await office.post(SESSION, person=person)).status == 401
    await office.post(SESSION, person=person)
    root = await office.sign_in_again()
    shown = await office.operator("late")
    unlocked = await office.post(f"/admin/operators/{shown['id']}/unlock", token=root)

    assert shown["locked_until"] > office.clock.now() // 1_000_000
    assert (unlocked.status, (await office.operator("late"))["locked_until"]) == (204, None)
    assert (await office.post(SESSION, person=person)).status == 401
    assert [event.principal for event in await office.events("operator.unlock")] == ["root"]


async def test_a_success_begins_the_count_anew(open_office, people):
    office = await open_office(admin={"auth_rate_limit": 0, "max_failed_auth": 2})
    person = await late(office, people)
    for status in (401, 200, 401, 200, 401):
        office.clock.step(-40 * 86_400 if status == 200 else 0)
        assert (await office.post(SESSION, person=person)).status == status
        office.clock.step(40 * 86_400 if status == 200 else 0)
    assert max(row.failed_attempts for row in await office.rows(t.attempt)) == 1


async def test_on_this_listener_a_certificate_is_that_of_the_connection_from_a_trusted_proxy_too(start_service, people):
    """Any program of the machine may ask from an address of `trusted_proxies`, and who has seen a certificate has no key."""
    root = Person.of(people, "root")
    service = await start_service("ca-admin", admin=admin_section(people, root), server={"trusted_proxies": ["127.0.0.0/8", "::1/128"]})
    async with forgetful() as http:
        office = OperatorDesk(service, http, people)

        told = await office.post(SESSION, headers={"Client-Cert": f":{b64encode(root.der).decode()}:"})
        shown = await office.post(SESSION, person=root)

    assert (told.status, shown.status) == (401, 200)


async def test_a_blocked_key_signs_nobody_in(office):
    ann = await office.hire(office.token, "ann", "auditor")
    key = spki_sha256(x509.load_der_x509_certificate(ann.der).public_key())
    host = office.service.host("ca-admin")
    await host.db.write(lambda tx: host.blocked_keys.block(tx, key, reason="keyCompromise", by="test"))

    assert (await office.post(SESSION, person=ann)).status == 401
    assert (await office.events("admin.login"))[-1].detail == "the key of the certificate is blocked"


def below_zero(certificate):
    """The same with another serial number."""
    tbs, *signature = der.children(certificate)
    version, serial, *rest = der.children(tbs)
    return der.sequence(der.sequence(version, serial[:2] + bytes([serial[2] | 0x80]) + serial[3:], *rest), *signature)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
async def test_a_certificate_of_a_key_that_is_not_accepted_proves_nobody(office):
    proofs = office.service.kernel.hooks.instances["ca-admin"]._parts.proofs

    strange = office.root.der.replace(bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d0209"))  # of no kind of key
    pem = x509.load_der_x509_certificate(strange).public_bytes(Encoding.PEM).decode()
    made = await office.post("/admin/operators", token=office.token, json={"name": "ann", "role": "auditor", "certificate": pem})

    assert (made.status, made.json["detail"]) == (
        400,
        "certificate: expected one in PEM, of a key that is accepted: Unknown key type: 1.2.840.10045.2.9",
    )
    assert "is not accepted" in await proofs.of_certificate(strange)
    assert await proofs.of_certificate(below_zero(office.root.der)) == "the certificate is not accepted: its serial number is not above 0"
    assert "is not accepted" in await proofs.of_certificate(b"x")
    assert await proofs.of_certificate(office.root.der) is None


async def test_an_operator_who_may_not_sign_in_is_refused(office):
    ann = await office.hire(office.token, "ann", "auditor")
    id = (await office.operator("ann"))["id"]
    token = await office.sign_in(ann)
    await office.service.kernel.store.write(lambda tx: tx.put(t.OPERATOR, id, active=0))  # and the listener still trusts the certificate

    assert ((await office.post(SESSION, person=ann)).status, (await office.get(SESSION, token=token)).status) == (401, 401)
    assert (await office.events("admin.login"))[-1].detail == "the operator is not active"


async def test_the_session_of_an_operator_who_is_gone_is_worth_nothing(office):
    ann = await office.hire(office.token, "ann", "auditor")
    id, token = (await office.operator("ann"))["id"], await office.sign_in(ann)
    await office.service.kernel.store.write(lambda tx: tx.remove(t.OPERATOR, id))

    assert (await office.get(SESSION, token=token)).status == 401
