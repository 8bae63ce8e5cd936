"""The life of a session: its cookie, its ends, and what keeps other sites from using it (reference 17.1)."""

import hashlib
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.http import AuthScheme, Permission, Route, Session
from greatseal.api.services import LOGIN
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.distributions import install
from greatseal.testing.schemes import AuthSchemeContract
from greatseal_idp import tables as t
from greatseal_idp.pages.return_to import safe_return_to

START = 1_800_000_000_000_000
HOUR = 3600


@pytest.fixture
async def idp(open_idp):
    return await open_idp(clock=FakeClock(START))


class TestSessions(AuthSchemeContract):
    """The schemes of sessions and permissions keep the promises of the contract."""

    auth = Session()

    @pytest.fixture(autouse=True)
    async def _desk(self, open_idp):
        self.desk = await open_idp(rbac={"role": [{"name": "r", "permissions": ["keys:read"], "users": ["alice"]}]})
        self.right, self.wrong = await self.desk.cookie("alice"), f"greatseal_session=se_n1_{'x' * 43}"

    def scheme(self):
        return self.desk.service.host("idp").components(AuthScheme)[type(self.auth).__name__]

    async def call(self, *, right):
        return FakeCall(route=Route("GET", "/x", None, auth=self.auth), headers=[("Cookie", self.right if right else self.wrong)])


class TestPermissions(TestSessions):
    auth = Permission("keys:read")

    @pytest.fixture(autouse=True)
    async def _bob(self, _desk):
        self.wrong = await self.desk.cookie("bob")


async def test_the_cookie_is_a_handle_and_only_its_digest_is_stored(idp):
    cookie = await idp.cookie()

    value = cookie.partition("=")[2]
    kind, node, random = value.split("_", 2)
    assert (kind, node, len(random)) == ("se", "n1", 43)
    (row,) = await idp.rows(t.session)
    assert row.digest == hashlib.sha256(value.encode()).digest()
    assert (row.subject, row.username, row.realm, row.remote) == ("alice@LOCALHOST", "alice", "LOCALHOST", "127.0.0.1")
    assert value not in str(row)


async def test_s065_an_https_issuer_gets_the_host_prefix_and_secure(open_idp):
    idp = await open_idp(server={"issuer": "https://idp.example"})

    answer = await idp.login()

    header = answer.headers["Set-Cookie"]
    assert header.startswith("__Host-greatseal_session=se_n1_")
    assert header.endswith("; Path=/; Max-Age=28800; HttpOnly; SameSite=Lax; Secure")
    assert (await idp.get("/api/auth/me", cookie=answer.cookie)).status == 200
    assert (await idp.get("/api/auth/me", cookie=answer.cookie.removeprefix("__Host-"))).status == 401


async def test_without_a_session_401_and_no_challenge(idp):
    for path in ("/api/auth/me", "/api/auth/profile"):
        answer = await idp.get(path)
        assert (answer.status, answer.json["error"]) == (401, "unauthenticated")
        assert "WWW-Authenticate" not in answer.headers


async def test_a_session_ends_after_its_time_whatever_happens_in_it(open_idp):
    clock = FakeClock(START)
    idp = await open_idp(clock=clock, session={"ttl": 2 * HOUR})
    cookie = await idp.cookie()
    for _ in range(3):
        clock.advance(0.5 * HOUR)
        assert (await idp.get("/api/auth/me", cookie=cookie)).status == 200

    clock.advance(0.5 * HOUR)

    assert (await idp.get("/api/auth/me", cookie=cookie)).status == 401


async def test_an_idle_session_ends_and_no_clock_that_is_set_back_wakes_it(idp):
    clock = idp.service.host("idp").clock
    cookie = await idp.cookie()
    clock.advance(HOUR)

    assert (await idp.get("/api/auth/me", cookie=cookie)).status == 401

    clock.step(-HOUR)
    assert (await idp.get("/api/auth/me", cookie=cookie)).status == 401
    assert await idp.rows(t.session) == []


async def test_a_session_ends_idle_in_time_although_the_clock_was_set_back(idp):
    clock = idp.service.host("idp").clock
    cookie = await idp.cookie()
    clock.step(-5 * HOUR)
    assert (await idp.get("/api/auth/me", cookie=cookie)).status == 200

    clock.advance(HOUR)

    assert (await idp.get("/api/auth/me", cookie=cookie)).status == 401


async def test_the_time_of_the_last_request_is_written_once_a_minute(idp):
    clock = idp.service.host("idp").clock
    cookie = await idp.cookie()
    seen = []
    for _ in range(5):
        clock.advance(25)
        await idp.get("/api/auth/me", cookie=cookie)
        (row,) = await idp.rows(t.session)
        seen.append((row.last_seen_at - START) // 1_000_000)

    assert seen == [0, 0, 75, 75, 75]


async def test_s064_signing_in_again_gives_a_new_cookie_to_the_same_session(idp):
    first = await idp.cookie()
    (before,) = await idp.rows(t.session)
    idp.service.host("idp").clock.advance(10)

    second = (await idp.login(cookie=first)).cookie

    (row,) = await idp.rows(t.session)
    assert (row.id, row.auth_time) == (before.id, START + 10_000_000)
    assert first != second
    assert (await idp.get("/api/auth/me", cookie=first)).status == 401
    assert (await idp.get("/api/auth/me", cookie=second)).status == 200


async def test_s064_somebody_else_signing_in_ends_the_session_of_the_browser(idp):
    first = await idp.cookie("alice")

    second = (await idp.login("bob", cookie=first)).cookie

    assert (await idp.get("/api/auth/me", cookie=first)).status == 401
    assert (await idp.get("/api/auth/me", cookie=second)).json["username"] == "bob"
    (event,) = await idp.events("logout")
    assert event.sub == "alice@LOCALHOST"


async def test_idp_242_logout_ends_the_session_and_takes_the_cookie(idp):
    cookie = await idp.cookie()
    other = await idp.cookie()

    answer = await idp.post("/api/auth/logout", cookie=cookie)

    assert answer.status == 204
    assert "greatseal_session=; Path=/; Max-Age=0" in answer.headers["Set-Cookie"]
    assert (await idp.get("/api/auth/me", cookie=cookie)).status == 401
    assert (await idp.get("/api/auth/me", cookie=other)).status == 200
    (event,) = await idp.events("logout")
    assert event.sub == "alice@LOCALHOST"


async def test_others_end_sessions_by_id(idp):
    login = idp.service.kernel.service(LOGIN)
    cookies = {name: await idp.cookie() for name in ("a", "b")}
    first = (await idp.rows(t.session))[0].id

    assert await login.end(first)
    assert not await login.end(first)
    assert len(await live(idp, cookies)) == 1
    assert len(await idp.events("session_revoked")) == 1


async def live(idp, cookies: Mapping[str, str]) -> set[str]:
    return {name for name, cookie in cookies.items() if (await idp.get("/api/auth/me", cookie=cookie)).status == 200}


async def test_a_job_removes_sessions_whose_time_is_over(idp):
    clock = idp.service.host("idp").clock
    await idp.cookie()
    clock.advance(4 * HOUR)
    kept = await idp.cookie()
    clock.advance(4 * HOUR)

    await idp.provider.sessions.sweep()

    (row,) = await idp.rows(t.session)
    assert row.digest == hashlib.sha256(kept.partition("=")[2].encode()).digest()


async def test_idp_243_me_and_idp_244_profile(idp):
    cookie = await idp.cookie()

    me = (await idp.get("/api/auth/me", cookie=cookie)).json
    profile = (await idp.get("/api/auth/profile", cookie=cookie)).json

    assert (me["username"], me["groups"], me["amr"], me["permissions"]) == ("alice", ["staff"], ["pwd"], [])
    assert profile == {
        "username": "alice",
        "display_name": "Alice",
        "given_name": None,
        "family_name": None,
        "email": "alice@example.com",
        "email_verified": None,
        "phone": None,
        "groups": ["staff"],
        "uid_number": 7,
        "gid_number": None,
        "source": "people",
    }
    idp.people.down = True
    assert (await idp.get("/api/auth/profile", cookie=cookie)).status == 503


async def test_idp_245_info_tells_what_is_there(open_idp):
    idp = await open_idp(webui={"logo_url": "/logo.svg", "default_theme": "dark", "display_name": "Example"})

    info = (await idp.get("/api/auth/info")).json

    features = info.pop("features")
    assert info == {"issuer": idp.url, "realm": "LOCALHOST", "display_name": "Example", "logo_url": "/logo.svg", "default_theme": "dark"}
    assert {name for name, on in features.items() if on} == {"password", "otp", "change_password"}
    assert set(features) == {
        "password",
        "otp",
        "passkey",
        "kerberos",
        "federation",
        "device_flow",
        "registration",
        "spiffe",
        "token_authority",
        "change_password",
    }


FEATURE = """
from greatseal import hookimpl
from greatseal.api.http import Discovery


class Plugin:
    @hookimpl
    def discovery(self):
        return [Discovery("features", lambda: {"device_flow": True, "password": False})]
"""


async def test_info_has_the_features_that_plugins_tell(open_idp, tmp_path):
    idp = await open_idp(install(tmp_path / "installed", "greatseal-devices", FEATURE))

    features = (await idp.get("/api/auth/info")).json["features"]

    assert (features["device_flow"], features["passkey"], features["password"]) == (True, False, True)


async def test_idp_249_providers_are_the_links_and_a_failing_one_is_left_out(idp):
    shown = [{"id": "other", "display_name": "Other place", "login_url": "/auth/external/other", "source": "config"}]
    assert (await idp.get("/api/auth/providers")).json == shown
    idp.people.down = True
    assert (await idp.get("/api/auth/providers")).json == []


async def test_idp_250_s078_federated_hint(idp):
    assert (await idp.get("/api/auth/federated-hint?username=olga")).json == {"upstream_id": "other"}
    for name in ("alice", "nobody"):
        assert (await idp.get(f"/api/auth/federated-hint?username={name}")).text == '{"upstream_id":null}'
    missing = await idp.get("/api/auth/federated-hint")
    assert (missing.status, missing.json["error"]) == (400, "invalid_request")
    for _ in range(27):
        await idp.get("/api/auth/federated-hint?username=x")
    assert (await idp.get("/api/auth/federated-hint?username=olga")).status == 429


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_s066_r54_a_body_that_a_form_can_send_is_refused(idp, content_type):
    headers = {"Content-Type": content_type}
    data = b'{"username":"alice","password":"wonderland"}'

    answer = await idp.post("/api/auth/login", data=data, headers=headers)

    assert (answer.status, answer.json["error"]) == (403, "csrf")


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin", "Origin": "own"}])
async def test_r54_our_own_pages_and_programs_without_origin_pass(idp, headers):
    cookie = await idp.cookie()
    sent = {name: idp.url if value == "own" else value for name, value in headers.items()}

    assert (await idp.post("/api/auth/logout", cookie=cookie, headers=sent)).status == 204


async def test_an_expired_password_ticket_is_sealed_and_short(idp):
    from greatseal.api.identity import ExpiredTicket
    from greatseal_idp.sessions.ticket import change_tickets

    tickets = change_tickets(idp.service.host("idp"))
    ticket = ExpiredTicket(username="alice", realm="LOCALHOST", changer="people", return_to="/account")
    header = (await tickets.set(ticket))[1]
    cookie = header.partition(";")[0]

    assert "HttpOnly" in header
    assert "alice" not in header
    assert await tickets.of(Sent(cookie)) == ticket
    assert await tickets.of(Sent("")) is None
    assert await tickets.of(Sent(cookie[:-2])) is None
    assert await tickets.of(Sent("greatseal_change=AAAA")) is None
    assert await tickets.of(Sent("greatseal_change=!")) is None
    idp.service.host("idp").clock.advance(300)
    assert await tickets.of(Sent(cookie)) is None


class Sent(msgspec.Struct):
    """A call of which only the cookie counts."""

    cookie: str

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Cookie": self.cookie}


@pytest.mark.parametrize("path", ["/", "/account", "/authorize?a=b&c=%2F%2Fx//y", "/a/b/", "/ui/auth/login?return_to=https://x"])
def test_a_path_of_this_origin_is_returned_to(path):
    assert safe_return_to(path, default="default") == path


@pytest.mark.parametrize(
    "place",
    [
        "//evil", "/\\evil", "/%09/evil", "/%5cevil", "/%2fevil", "https:evil", "https://evil", "/x/..//evil",
        "/x/%2e%2e//evil", "/../evil", "http://user@localhost/", "javascript:alert(1)", "\t//evil", " /account",
        "/a\r\nSet-Cookie: x=y", "evil", "", "///evil", "/\u2028/evil", "http://localhost/account",
    ],
)  # fmt: skip
def test_s018_no_other_place_is_returned_to(place):
    assert safe_return_to(place, default="default") == "default"


@given(st.text(max_size=40).map(lambda text: "/" + text) | st.text(max_size=40))
def test_no_browser_reads_a_return_to_as_another_place(text):
    from yarl import URL

    found = safe_return_to(text, default="/account")

    joined = URL("https://idp.example/login").join(URL(found, encoded=True))
    assert (joined.scheme, joined.raw_authority) == ("https", "idp.example")
    assert found[0] == "/"
    assert found[1:2] not in {"/", "\\"}
    assert found.isascii()
    assert found.isprintable()
