"""Tickets of a real KDC at a running service: who is accepted, and who is not."""

import asyncio
from datetime import UTC, datetime, timedelta

import aiohttp
import gssapi
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from gssapi import raw
from rig.initiator import KERBEROS, NTLM_OID, OFFER, SPNEGO, SPNEGO_OID, Initiator, Legs, answered, header
from rig.kdc import Kdc
from rig.realm import OURS

from greatseal.der import element, explicit, octet_string, sequence
from greatseal.testing import FakeClock
from greatseal_gssapi import acceptor, exchange

ALICE = "alice@CHANCERY.TEST"
KERBEROS_OID = bytes.fromhex("06092a864886f712010202")


async def test_a_ticket_says_who_comes_and_the_client_verifies_the_answer(door, alice):
    context = alice.context()
    first = context.step()

    answer = await door.ask(header(first))

    assert (answer.status, answer.json) == (200, {"principal": ALICE, "indicators": []})
    context.step(answered(answer.answer))
    assert context.complete
    assert answer.headers["Cache-Control"] == "no-store"


async def test_a_token_of_kerberos_alone_is_accepted_too(door, alice):
    assert (await door.ask(header(alice.context(mech=KERBEROS).step()))).json["principal"] == ALICE


async def test_s082_the_scheme_is_compared_without_case(door, alice):
    for scheme in ("negotiate", "NEGOTIATE"):
        assert (await door.ask(alice.negotiate().replace("Negotiate", scheme))).status == 200
    assert (await door.ask("Basic YTpi")).json == {"absent": True}
    assert (await door.ask("Negotiation YTpi")).json == {"absent": True}
    assert (await door.ask()).json == {"absent": True}


NO_TOKENS = ["", " ", " ****", " YII", " YWJj ZGVm", " YI\xe4=", *(header(one)[9:] for one in (b"\x60", b"\x60\x03abc", bytes(700)))]


@pytest.mark.parametrize("value", NO_TOKENS)
async def test_s082_r70_what_is_no_token_is_refused(door, value):
    answer = await door.ask(f"Negotiate{value}")

    assert (answer.status, answer.json["error"]) == (403, "access_denied")
    assert answer.json["error_description"] == acceptor.REFUSED


async def test_s082_two_headers_are_refused(door, alice):
    assert (await door.ask("Basic YTpi", alice.negotiate())).status == 403
    assert (await door.ask(alice.negotiate(), alice.negotiate())).status == 403


async def test_s081_ntlm_is_neither_accepted_nor_offered(door):
    offer = explicit(0, sequence(explicit(0, sequence(NTLM_OID)), explicit(2, octet_string(OFFER))))

    for token in (OFFER, element(0x60, SPNEGO_OID + offer)):
        answer = await door.ask(header(token))
        assert (answer.status, answer.answer) == (403, "")


async def test_a_token_that_is_cut_short_or_changed_is_refused(door, alice):
    token = alice.token()

    for wrong in (token[:-1], token[: len(token) // 2], token[:-1] + bytes((token[-1] ^ 1,))):
        assert (await door.ask(header(wrong))).status == 403


async def test_s083_a_token_counts_once(door, alice):
    value = alice.negotiate()

    assert [(await door.ask(value)).status for _ in range(3)] == [200, 403, 403]


async def test_s083_of_many_uses_of_one_token_at_a_time_one_succeeds(door, alice):
    async with aiohttp.ClientSession() as http:

        async def use(value):
            async with http.get(door.url, headers={"Authorization": value}) as answer:
                return answer.status

        for _ in range(5):
            value = alice.negotiate()
            assert sorted(await asyncio.gather(*(use(value) for _ in range(8)))) == [200] + [403] * 7


async def test_s084_a_ticket_for_another_service_of_the_keytab_is_refused(kdc, door_of, alice):
    door = await door_of(kdc.folder / "web1.keytab")

    assert (await door.ask(alice.negotiate("HTTP@web1.chancery.test"))).status == 200
    assert (await door.ask(alice.negotiate("host@web1.chancery.test"))).status == 403


async def test_s084_one_host_of_the_keytab_can_be_named(kdc, door_of, alice):
    door = await door_of(kdc.folder / "http.keytab", gssapi={"service_name": "HTTP@idp.chancery.test"})

    assert (await door.ask(alice.negotiate("HTTP@idp.chancery.test"))).status == 200
    assert (await door.ask(alice.negotiate("HTTP@localhost"))).status == 403


def request_for(*name):
    """A token with a ticket for a service of that name, which nobody has made."""
    text, number = (lambda said: element(0x1B, said)), (lambda value: element(0x02, bytes((value,))))
    service = sequence(explicit(0, number(2)), explicit(1, sequence(*map(text, name))))
    sealed = sequence(explicit(0, number(18)), explicit(2, octet_string(bytes(64))))
    ticket = element(0x61, sequence(explicit(0, number(5)), explicit(1, text(b"CHANCERY.TEST")), explicit(2, service), explicit(3, sealed)))
    flags = explicit(2, element(0x03, bytes(5)))
    asked = sequence(explicit(0, number(5)), explicit(1, number(14)), flags, explicit(3, ticket), explicit(4, sealed))
    return element(0x60, KERBEROS_OID + b"\x01\x00" + element(0x6E, asked))


@pytest.mark.parametrize("name", [(b"HTTP", b"A" * 35_000), (b"HTTP", *[b"q"] * 6_000), (b"HTTP", b"a\n\xff\x1b[2J"), (b"", b"")])
async def test_s082_what_a_stranger_writes_into_a_token_makes_no_long_line_of_the_log(door, name):
    token = request_for(*name)

    with pytest.raises(ValueError, match=r".") as caught:
        exchange.accept(door.plugin.credential(door.host).get(), token, None)

    assert len(str(caught.value)) <= 2 * exchange.LONGEST_REASON
    assert str(caught.value).isprintable()
    assert (await door.ask(header(token))).status == 403


async def test_a_service_comes_with_its_own_name(kdc, door):
    web1 = Initiator(kdc, "host/web1.chancery.test", keytab="web1.keytab")

    assert (await door.ask(web1.negotiate())).json["principal"] == "host/web1.chancery.test@CHANCERY.TEST"


async def test_s086_names_that_look_alike_are_others(kdc, door):
    kdc.admin("addprinc -pw x Alice\naddprinc -pw x al\\@ice\n")

    assert (await door.ask(Initiator(kdc, "Alice", password="x").negotiate())).json["principal"] == "Alice@CHANCERY.TEST"
    assert (await door.ask(Initiator(kdc, "al\\@ice", password="x").negotiate())).json["principal"] == "al\\@ice@CHANCERY.TEST"


def certified(folder):
    """What a KDC needs for PKINIT, by which alone somebody can be nobody: a certificate of its own for ``krbtgt``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kdc")])
    texts = [element(0x1B, one.encode()) for one in ("krbtgt", "CHANCERY.TEST")]
    principal = sequence(explicit(0, element(0x02, b"\x02")), explicit(1, sequence(*texts)))
    krbtgt = x509.OtherName(x509.ObjectIdentifier("1.3.6.1.5.2.2"), sequence(explicit(0, texts[1]), explicit(1, principal)))
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(hours=1), now + timedelta(hours=1))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made = made.add_extension(x509.SubjectAlternativeName([krbtgt]), critical=False)
    made = made.add_extension(x509.ExtendedKeyUsage([x509.ObjectIdentifier("1.3.6.1.5.2.3.5")]), critical=False)
    pem = made.sign(key, SHA256()).public_bytes(Encoding.PEM)
    for file in ("root.pem", "issuing.pem", "kdc.pem"):
        (folder / file).write_bytes(pem)
    (folder / "kdc.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@pytest.mark.parametrize("flags", [raw.RequirementFlag.mutual_authentication, raw.RequirementFlag.anonymity])
async def test_s084_an_anonymous_ticket_is_refused(kdc, door_of, tmp_path, monkeypatch, flags):
    own = Kdc(tmp_path)
    certified(tmp_path)
    with own.running(), monkeypatch.context() as patch:
        for name in OURS:
            patch.setenv(name, own.environ[name])
        own.admin("addprinc -randkey WELLKNOWN/ANONYMOUS\n")
        asked = own.run("kinit", "-n")
        assert asked.returncode == 0, asked.stderr
        door = await door_of(tmp_path / "http.keytab")
        nobody = gssapi.Credentials(usage="initiate", store={"ccache": f"FILE:{tmp_path / 'cc'}"})
        target = gssapi.Name("HTTP@localhost", gssapi.NameType.hostbased_service)

        with structlog.testing.capture_logs() as lines:
            context = gssapi.SecurityContext(name=target, creds=nobody, mech=SPNEGO, flags=flags, usage="initiate")
            answer = await door.ask(header(context.step()))

    assert answer.status == 403
    assert [line["reason"] for line in lines if "reason" in line] == ["the ticket is anonymous"]


@pytest.mark.parametrize("size", [9_000, 40_000])
async def test_a_long_token_is_read(door, size):
    assert (await door.ask(header(b"\x60" + bytes(size)))).status == 403


async def test_r72_a_token_above_the_limit_is_too_large(kdc, door_of, alice):
    door = await door_of(kdc.folder / "http.keytab", gssapi={"max_token_bytes": 1024})

    assert [(await door.ask(header(bytes(size)))).status for size in (1024, 1025)] == [403, 413]
    assert (await door.ask(alice.negotiate())).status == 200


async def test_s082_a_megabyte_ends_at_the_limit_of_heads(door):
    assert (await door.ask(header(bytes(1_000_000)))).status == 431


# ---- Several legs


async def test_an_exchange_of_three_legs_ends_on_its_connection(door, alice):
    legs = Legs(alice.context(mech=KERBEROS))

    first = await door.ask(header(legs.first()))
    second = await door.ask(header(legs.second()))
    third = await door.ask(header(legs.third(answered(second.answer))))

    assert (first.status, second.status) == (401, 401)
    assert (third.status, third.json["principal"]) == (200, ALICE)


async def test_nobody_is_known_before_the_last_leg(door, alice):
    legs = Legs(alice.context(mech=KERBEROS))
    await door.ask(header(legs.first()))

    second = await door.ask(header(legs.second()))

    assert (second.status, second.json) == (401, {})
    assert (await door.ask()).json == {"absent": True}


async def test_a_wrong_last_leg_is_refused(door, alice):
    legs = Legs(alice.context(mech=KERBEROS))
    await door.ask(header(legs.first()))
    answer = await door.ask(header(legs.second()))
    last = legs.third(answered(answer.answer))

    assert (await door.ask(header(last[:-1] + bytes((last[-1] ^ 1,))))).status == 403
    assert (await door.ask(header(last))).status == 403


async def test_another_connection_has_no_part_in_an_exchange(door, alice):
    legs = Legs(alice.context(mech=KERBEROS))
    await door.ask(header(legs.first()))

    async with aiohttp.ClientSession() as http, http.get(door.url, headers={"Authorization": header(legs.second())}) as answer:
        assert answer.status == 403


async def test_a_leg_that_takes_a_minute_comes_too_late(kdc, door_of, alice):
    clock = FakeClock()
    door = await door_of(kdc.folder / "http.keytab", clock=clock)
    legs = Legs(alice.context(mech=KERBEROS))
    await door.ask(header(legs.first()))

    clock.advance(acceptor.HALF_OPEN_SECONDS + 1)

    assert (await door.ask(header(legs.second()))).status == 403


async def test_a_client_that_begins_again_is_accepted_and_the_first_exchange_is_over(door, alice):
    legs = Legs(alice.context(mech=KERBEROS))
    await door.ask(header(legs.first()))

    assert (await door.ask(alice.negotiate())).status == 200
    assert (await door.ask(header(legs.second()))).status == 403


async def test_s085_r63_behind_a_trusted_proxy_no_exchange_waits(kdc, door_of, alice):
    door = await door_of(kdc.folder / "http.keytab", server={"trusted_proxies": ["127.0.0.1/32"]})
    forwarded, legs = [("X-Forwarded-For", "192.0.2.7")], Legs(alice.context(mech=KERBEROS))

    first = await door.ask(header(legs.first()), more=forwarded)
    second = await door.ask(header(legs.second()), more=forwarded)

    assert (first.status, first.answer) == (401, "Negotiate")
    assert second.status == 403
    assert (await door.ask(alice.negotiate(), more=[("X-Forwarded-For", "192.0.2.8")])).json["principal"] == ALICE


async def test_half_open_exchanges_are_bounded(kdc, door_of, alice, monkeypatch):
    monkeypatch.setattr(acceptor, "MOST_HALF_OPEN", 2)
    clock = FakeClock()
    door = await door_of(kdc.folder / "http.keytab", clock=clock)
    first = {"Authorization": header(Legs(alice.context(mech=KERBEROS)).first())}

    async with aiohttp.ClientSession() as one, aiohttp.ClientSession() as two:
        for session in (one, two):
            async with session.get(door.url, headers=first) as answer:
                assert answer.status == 401
        assert (await door.ask(first["Authorization"])).status == 503
        clock.advance(acceptor.HALF_OPEN_SECONDS + 1)
        assert (await door.ask(first["Authorization"])).status == 401
