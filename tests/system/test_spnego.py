"""Sign-in by tickets of a real KDC: at /authorize, at the sign-in page, behind a proxy, at /register, and with an authority token."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from json import loads
from typing import Any

import aiohttp
import pytest
from rig.kdc import REALM, Kdc
from rig.realm import need_kerberos, realm_in

from greatseal.api.clients import Client, Registration
from greatseal.jose.compact import b64url_decode
from greatseal.testing.desk import Answer, Desk, forgetful
from greatseal.testing.plugin import StartService

PEOPLE = '[[user]]\nusername = "alice"\ndisplay_name = "Alice"\n[[user]]\nusername = "bob"\ngroups = ["admins"]\n'
PAGE = "/ui/auth/login"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
DeskOf = Callable[..., Awaitable[Desk]]


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    need_kerberos()
    with realm_in(tmp_path_factory.mktemp("realm")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def alice(kdc: Kdc) -> Any:
    from rig.initiator import Initiator

    return Initiator(kdc, "alice", password="alicepw")


@pytest.fixture
async def desk_of(kdc: Kdc, start_service: StartService, tmp_path: Any) -> AsyncIterator[DeskOf]:
    people = tmp_path / "users.toml"
    people.write_text(PEOPLE)
    people.chmod(0o600)
    async with forgetful() as http:

        async def start(*more: str, **sections: Any) -> Desk:
            server = {"realm": REALM, **sections.pop("server", {})}
            gssapi = sections.pop("gssapi", {"keytab_file": str(kdc.folder / "http.keytab")})
            features = ("idp", "resolver", "users-file", "gssapi", "spnego", *more)
            service = await start_service(*features, server=server, gssapi=gssapi, users={"file": str(people)}, **sections)
            return Desk(service, http)

        yield start


@pytest.fixture
async def desk(desk_of: DeskOf) -> Desk:
    return await desk_of()


async def come(desk: Desk, who: Any, path: str = PAGE, **more: Any) -> Answer:
    headers = {"Authorization": who.negotiate(), "Accept": "text/html", **more.pop("headers", {})}
    return await desk.get(path, headers=headers, **more)


async def subject(desk: Desk, answer: Answer) -> str:
    sub: str = (await desk.get("/api/auth/me", cookie=answer.cookie)).json["sub"]
    return sub


async def test_idp_007_idp_223_idp_224_idp_348_a_ticket_signs_in_and_the_client_verifies_the_answer(desk: Desk, alice: Any) -> None:
    from rig.initiator import answered, header

    context = alice.context()
    first = context.step()

    answer = await desk.get(f"{PAGE}?return_to=%2Faccount", headers={"Authorization": header(first)})

    assert (answer.status, answer.location) == (302, "/account")
    context.step(answered(answer.headers["WWW-Authenticate"]))
    assert context.complete
    assert await subject(desk, answer) == f"alice@{REALM}"
    (event,) = await desk.events("login_success")
    assert event.sub == f"alice@{REALM}"


async def test_s083_a_replayed_token_is_the_page(desk: Desk, alice: Any) -> None:
    headers = {"Authorization": alice.negotiate()}

    assert [(await desk.get(PAGE, headers=headers)).status for _ in range(2)] == [302, 200]


async def test_idp_199_idp_207_idp_348_the_header_counts_before_the_query(desk: Desk, alice: Any) -> None:
    answer = await desk.post("/authorize", data=b"", headers={"Authorization": alice.negotiate(), **FORM})

    assert (answer.status, answer.json) == (400, {"error": "invalid_request", "error_description": "client_id required"})
    assert await subject(desk, answer) == f"alice@{REALM}"


async def test_idp_201_idp_225_three_legs_at_both_endpoints(desk: Desk, alice: Any) -> None:
    from rig.initiator import KERBEROS, Legs, answered, header

    for path, last in ((f"{PAGE}?return_to=%2Faccount", 302), ("/authorize", 400)):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1), cookie_jar=aiohttp.DummyCookieJar()) as http:
            one, legs = Desk(desk.service, http), Legs(alice.context(mech=KERBEROS))
            first = await one.get(path, headers={"Authorization": header(legs.first())})
            second = await one.get(path, headers={"Authorization": header(legs.second())})
            assert (first.status, second.status) == (401, 401)
            assert not first.cookies
            assert not second.cookies
            third = await one.get(path, headers={"Authorization": header(legs.third(answered(second.headers["WWW-Authenticate"])))})
            assert third.status == last
            assert await subject(desk, third) == f"alice@{REALM}"


async def test_s085_r63_behind_a_trusted_proxy_each_request_stands_alone(desk_of: DeskOf, kdc: Kdc, alice: Any) -> None:
    from rig.initiator import KERBEROS, Initiator, Legs, header

    desk = await desk_of(server={"trusted_proxies": ["127.0.0.1/32"]})
    bob, legs = Initiator(kdc, "bob", password="bobpw"), Legs(alice.context(mech=KERBEROS))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1), cookie_jar=aiohttp.DummyCookieJar()) as http:
        proxy = Desk(desk.service, http)
        first = await proxy.get(PAGE, headers={"Authorization": header(legs.first()), "X-Forwarded-For": "192.0.2.1"})
        between = await come(proxy, bob, headers={"X-Forwarded-For": "192.0.2.2"})
        stranger = await proxy.get(PAGE, headers={"X-Forwarded-For": "192.0.2.3"})
        second = await proxy.get(PAGE, headers={"Authorization": header(legs.second()), "X-Forwarded-For": "192.0.2.1"})

    assert (first.status, first.headers["WWW-Authenticate"], first.cookies) == (401, "Negotiate", ())
    assert await subject(desk, between) == f"bob@{REALM}"
    assert (stranger.status, second.status) == (200, 200)
    assert not any(cookie.startswith("greatseal_session") for answer in (stranger, second) for cookie in answer.cookies)


async def test_idp_213_a_host_registers_a_client_with_the_session_of_its_ticket(desk_of: DeskOf, kdc: Kdc) -> None:
    from rig.initiator import Initiator

    desk = await desk_of("registration")
    host = await come(desk, Initiator(kdc, "host/web1.chancery.test", keytab="web1.keytab"))
    person = await come(desk, Initiator(kdc, "bob", password="bobpw"))
    wanted = {"redirect_uris": ["https://web1.chancery.test/callback"], "client_name": "web1"}

    made, refused = [await desk.post("/register", json=wanted, cookie=one.cookie) for one in (host, person)]

    assert made.status == 201, made.text
    assert refused.status == 404, refused.text  # no token is configured, so for people there is nothing


async def asked(desk: Desk, *authorization: str) -> Answer:
    """The answer of the token authority."""
    body = {"atc": {"tktype": "JWTClaimConstraints", "tkvalue": "", "fingerprint": "SHA256 " + ":".join(["AB"] * 32)}}
    return await desk.post("/at/account/1/token", json=body, headers=dict(zip(["Authorization"], authorization, strict=False)))


async def test_idp_017_idp_313_idp_314_idp_348_the_token_authority_takes_the_ticket_of_the_keytab(desk_of: DeskOf, alice: Any) -> None:
    desk = await desk_of("token-authority")

    bare = await asked(desk)
    given = await asked(desk, alice.negotiate())

    assert (bare.status, bare.headers["WWW-Authenticate"]) == (401, "Negotiate")
    assert given.status == 200, given.text
    claims = loads(b64url_decode(given.json["token"].split(".")[1]))
    assert (claims["sub"], claims["iss"]) == (f"alice@{REALM}", desk.service.host("idp").issuer)
    discovered = (await desk.get("/.well-known/oauth-authorization-server")).json
    assert discovered["token_authority_endpoint"].endswith("/at/account/{id}/token")


async def test_a_person_of_another_realm_is_not_signed_in(desk_of: DeskOf, alice: Any) -> None:
    desk = await desk_of(server={"realm": "OTHER.TEST"})

    answer = await come(desk, alice)

    assert (answer.status, any(one.startswith("greatseal_session") for one in answer.cookies)) == (200, False)


EVERYWHERE = ("token-authority", "client-auth-kerberos", "eab")
"""What takes tickets beside the sign-in."""


async def at_each(desk: Desk, tickets: Iterator[str]) -> list[Answer]:
    """The answers of every endpoint that takes a ticket: sign-in page, /authorize, token authority, /token and /acme/eab."""

    def sent() -> dict[str, str]:
        return {"Authorization": next(tickets), "Accept": "text/html"}

    asked = {"atc": {"tktype": "JWTClaimConstraints", "tkvalue": "", "fingerprint": "x"}}
    return [
        await desk.get(PAGE, headers=sent()),
        await desk.get("/authorize", headers=sent()),
        await desk.post("/at/account/1/token", json=asked, headers=sent()),
        await desk.post("/token", data={"grant_type": "client_credentials", "scope": "profile"}, headers=sent()),
        await desk.get("/acme/eab", headers=sent()),
    ]


async def nobody(desk: Desk, tickets: Iterator[str], good: Iterator[str]) -> None:
    """A page, no session, 403, 401 and 403, where a good ticket signs in and gets tokens and its name."""
    asked = Client(
        client_id="", token_endpoint_auth_method="kerberos_client_auth", kerberos_principal_pattern=f"*@{REALM}",
        scopes=("profile",), grant_types=("client_credentials",),
    )  # fmt: skip
    provider = desk.service.kernel.hooks.instances["idp"].assembly(desk.service.host("idp"))
    await provider.clients.register(Registration(client=asked, open=False), by="test")

    answers = await at_each(desk, tickets)

    assert [answer.status for answer in answers] == [200, 400, 403, 401, 403]
    assert not any(one.startswith("greatseal_session") for answer in answers for one in answer.cookies)
    assert (answers[3].error, answers[3].headers["WWW-Authenticate"]) == ("invalid_client", "Negotiate")
    assert "principal" not in answers[4].json
    assert [answer.status for answer in await at_each(desk, good)] == [302, 400, 200, 200, 200]


async def test_a_token_of_a_clock_that_is_an_hour_ahead_proves_nobody(desk_of: DeskOf, alice: Any) -> None:
    need_kerberos(clocks=True)
    desk = await desk_of(*EVERYWHERE, ipa={"gssapi": True})
    alice.token()  # the KDC would notice the clock

    await nobody(desk, (alice.negotiate_at("+1h") for _ in count()), (alice.negotiate() for _ in count()))


@pytest.mark.parametrize("life", ["1h", "1d"])
async def test_an_expired_ticket_and_one_of_a_clock_that_is_two_hours_behind_prove_nobody(
    start_service: StartService, tmp_path: Any, life: str
) -> None:
    need_kerberos(clocks=True)
    from rig.initiator import Initiator

    (tmp_path / "past").mkdir()
    with realm_in(tmp_path / "past", clock="-2h") as past:
        alice = Initiator(past, "alice", password="alicepw", life=life)
        bob = Initiator(past, "bob", password="bobpw")
        bob.negotiate_at("-2h")  # from here on it has a ticket for the service, which is good for a day
        gssapi = {"keytab_file": str(past.folder / "http.keytab")}
        features = ("idp", "resolver", "gssapi", "spnego", *EVERYWHERE)
        service = await start_service(*features, server={"realm": REALM}, gssapi=gssapi, ipa={"gssapi": True})
        async with forgetful() as http:
            late, good = ((alice.negotiate_at("-2h") for _ in count()), (bob.negotiate() for _ in count()))
            await nobody(Desk(service, http), late, good)


async def test_s083_idp_332_r70_a_replayed_ticket_and_garbage_are_403_at_the_token_authority(desk_of: DeskOf, alice: Any) -> None:
    desk = await desk_of("token-authority")
    header = alice.negotiate()

    assert [(await asked(desk, one)).status for one in (header, header, "Negotiate YWJj", "Negotiate")] == [200, 403, 403, 403]


async def test_refused_tickets_shut_the_token_authority_for_their_address(desk_of: DeskOf, alice: Any) -> None:
    desk = await desk_of("token-authority", server={"auth_rate_limit": 1})

    answers = [await asked(desk, one) for one in (alice.negotiate(), "Negotiate YWJj", alice.negotiate())]

    assert [answer.status for answer in answers] == [200, 403, 429]
    assert (answers[2].error, int(answers[2].headers["Retry-After"]) > 0) == ("rate_limited", True)


async def test_idp_312_idp_333_r67_the_token_authority_waits_for_its_keytab(desk_of: DeskOf, kdc: Kdc, alice: Any, tmp_path: Any) -> None:
    keytab = tmp_path / "late.keytab"
    desk = await desk_of("token-authority", gssapi={"keytab_file": str(keytab)})

    for authorization in ((), (alice.negotiate(),)):
        assert (await asked(desk, *authorization)).outcome == (503, "unavailable")
    assert (await desk.get(PAGE)).status == 200
    assert "token_authority_endpoint" not in (await desk.get("/.well-known/oauth-authorization-server")).json

    shutil.copy(kdc.folder / "http.keytab", keytab)
    assert (await asked(desk, alice.negotiate())).status == 200
