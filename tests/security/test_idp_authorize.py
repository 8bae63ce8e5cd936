"""The authorization endpoint and its pages against S001 to S021, S071 to S073, S076, B1 to B9, B15 to B21 and B24."""

import asyncio
import hashlib
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import aiohttp
import msgspec
import pytest
from yarl import URL

from greatseal.testing.service import Service, document, serve
from greatseal_users_file.edit import add

PASSWORD = "correct horse battery"
CALLBACK = "https://app.example/callback"
VERIFIER = "correct-horse-battery-staple-correct-horse-battery"
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
PARALLEL = 50
BROWSER = {"Accept": "text/html,application/xhtml+xml"}
XSS = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
TEMPLATE = "{{7*7}}{% if 1 %}{{''.__class__}}{% endif %}${7*7}#{7*7}"


class Answer(msgspec.Struct, frozen=True):
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]
    cookies: tuple[str, ...]
    text: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.text)

    @property
    def location(self) -> str:
        return self.headers["Location"]

    @property
    def members(self) -> dict[str, str]:
        """The authorization response of a redirect to the application."""
        assert self.location.startswith(CALLBACK), self.location
        pairs = parse_qsl(urlsplit(self.location).query, strict_parsing=True)
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    @property
    def shown(self) -> bool:
        """Refused here, and nobody is sent anywhere."""
        return 400 <= self.status < 500 and "Location" not in self.headers


class Desk:
    """The server, a client, and requests that carry what the test says and nothing else."""

    def __init__(self, service: Service, http: aiohttp.ClientSession) -> None:
        self.service = service
        self.url = service.url
        self._http = http
        self.admin = ""
        self.client: dict[str, Any] = {}

    async def ask(self, method: str, path: str, *, cookie: str = "", headers: Mapping[str, str] | None = None, **body: Any) -> Answer:
        sent = {**({"Cookie": cookie} if cookie else {}), **(headers or {})}
        url = URL(self.url + path, encoded=True)
        async with self._http.request(method, url, headers=sent, allow_redirects=False, **body) as response:
            cookies = tuple(response.headers.getall("Set-Cookie", ()))
            return Answer(response.status, response.headers, cookies, await response.text())

    async def login(self, username: str) -> str:
        answer = await self.ask("POST", "/api/auth/login", json={"username": username, "password": PASSWORD})
        return next(one.partition(";")[0] for one in answer.cookies if "session" in one)

    async def register(self, **fields: Any) -> Answer:
        body = {
            "client_name": "The app",
            "redirect_uris": [CALLBACK],
            "scopes": ["openid", "profile", "email", "offline_access"],
            "token_endpoint_auth_method": "client_secret_basic",
            "client_secret": "s" * 43,
            **fields,
        }
        if body["token_endpoint_auth_method"] == "none":
            del body["client_secret"]
        return await self.ask("POST", "/api/admin/clients", cookie=self.admin, json=body)

    def query(self, **changes: str | None) -> str:
        asked = {
            "client_id": self.client["client_id"],
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid profile",
            "state": "state-1",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changes,
        }
        return urlencode({name: value for name, value in asked.items() if value is not None}, quote_via=quote)

    async def authorize(self, cookie: str = "", *, headers: Mapping[str, str] | None = None, **changes: str | None) -> Answer:
        return await self.ask("GET", f"/authorize?{self.query(**changes)}", cookie=cookie, headers=headers)

    async def consent(self, cookie: str, **changes: str | None) -> tuple[Answer, dict[str, str]]:
        """The consent page of a request, and the hidden fields of its form."""
        asked = await self.authorize(cookie, **changes)
        page = await self.ask("GET", asked.location, cookie=cookie, headers=BROWSER)
        return page, hidden(page)

    async def approve(self, cookie: str, fields: Mapping[str, str]) -> Answer:
        return await self.ask("POST", "/api/auth/consent", cookie=cookie, data={**fields, "decision": "approve"})

    async def code(self, cookie: str, **changes: str | None) -> str:
        _, fields = await self.consent(cookie, **changes)
        return (await self.approve(cookie, fields)).members["code"]

    async def redeem(self, code: str, **changes: str | None) -> Answer:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, **changes}
        sent = {name: value for name, value in form.items() if value is not None}
        return await self.ask("POST", "/token", data=sent, headers=self.credentials)

    @property
    def credentials(self) -> dict[str, str]:
        return {"Authorization": "Basic " + b64encode(f"{self.client['client_id']}:{'s' * 43}".encode()).decode()}


def hidden(page: Answer) -> dict[str, str]:
    """The hidden fields of a page's form."""
    return {name: unescape(value) for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page.text)}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    users = tmp_path / "users.toml"
    for name in ("ann", "ben", "admin"):
        add(users, name, PASSWORD, display_name=f"{name} {XSS}")
    role = {"name": "admin", "permissions": ["*"], "users": ["admin"]}
    config = document(tmp_path, ["idp", "users-file"], users={"file": str(users)}, rbac={"role": [role]})
    async with serve(config) as service, aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        desk = Desk(service, http)
        desk.admin = await desk.login("admin")
        registered = await desk.register()
        assert registered.status == 201, registered.text
        desk.client = registered.json
        yield desk


@pytest.fixture
async def ann(desk) -> str:
    return await desk.login("ann")


# ---- A redirect is for the registered URI alone


SIMILAR = (
    CALLBACK + "/more",
    CALLBACK + "/",
    CALLBACK + "?x=1",
    CALLBACK + "?",
    CALLBACK + "#x",
    CALLBACK + "#",
    "https://app.example./callback",
    "https://app.example/Callback",
    "https://APP.example/callback",
    "HTTPS://app.example/callback",
    "https://app.example:443/callback",
    "http://app.example/callback",
    "https://app.example/callbac%6b",
    "https://app.example/callback%2f",
    "https://app.example/callbac",
    "https://app.example",
)
USERINFO = (
    "https://app.example@evil.example/callback",
    "https://app.example:x@evil.example/callback",
    "https://a@b@app.example/callback",
    "https://app.example%40evil.example/callback",
    "https://user@app.example/callback",
)
ODD = (
    "https://app.example\\@evil.example/callback",
    "https:\\\\app.example/callback",
    "https://app.example/callback\t",
    "https://app.example/call\nback",
    "https://app.example/callback\x00",
    " https://app.example/callback",
    "\x01https://app.example/callback",
    "https://app.example/callback ",
    "https://app.example/\uff43allback",
    "https://\uff41pp.example/callback",
)
TRAVERSAL = (
    "https://app.example/callback/..",
    "https://app.example/callback/../../evil",
    "https://app.example/x/../callback",
    "https://app.example/%2e%2e/callback",
    "https://app.example/callback/..;/evil",
    "https://app.example//callback",
    "https://app.example/./callback",
)
HOSTS = (
    "https://app.example.evil.example/callback",
    "https://evilapp.example/callback",
    "http://localhost.evil.example/callback",
    "http://127.0.0.1.evil.example/callback",
)
SCHEMES = ("javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "app.example:/callback")


async def refused_here(desk: Desk, uri: str) -> bool:
    """With a session or without, for browsers and programs, alone and together with other errors."""
    cookie = await desk.login("ann")
    for sent, headers, changes in (
        ("", None, {}),
        (cookie, BROWSER, {}),
        (cookie, None, {"prompt": "none"}),
        (cookie, None, {"response_type": "token", "scope": None, "response_mode": "fragment"}),
    ):
        answer = await desk.authorize(sent, headers=headers, redirect_uri=uri, **changes)
        if not (answer.shown and answer.status == 400) or uri in answer.text:
            return False
    pushed = await desk.ask("POST", "/par", data=dict(parse_qsl(desk.query(redirect_uri=uri))), headers=desk.credentials)
    return pushed.status == 400 and "Location" not in pushed.headers


@pytest.mark.parametrize("uri", SIMILAR)
async def test_s001_b1_a_similar_redirect_uri_is_not_the_registered_one(desk, uri):
    assert await refused_here(desk, uri)


@pytest.mark.parametrize("uri", USERINFO)
async def test_s002_user_information_in_the_redirect_uri(desk, uri):
    assert await refused_here(desk, uri)
    assert (await desk.register(redirect_uris=[uri])).status == 400


@pytest.mark.parametrize("uri", ODD)
async def test_s003_odd_characters_in_the_redirect_uri(desk, uri):
    assert await refused_here(desk, uri)
    assert (await desk.register(redirect_uris=[uri])).status == 400


@pytest.mark.parametrize("uri", TRAVERSAL)
async def test_s004_paths_that_lead_elsewhere(desk, uri):
    assert await refused_here(desk, uri)


@pytest.mark.parametrize("uri", HOSTS)
async def test_s005_hosts_that_look_alike(desk, uri):
    assert await refused_here(desk, uri)
    if uri.startswith("http:"):
        assert (await desk.register(redirect_uris=[uri])).status == 400


@pytest.mark.parametrize(
    "uri",
    [
        "http://0.0.0.0/cb",
        "http://127.1/cb",
        "http://2130706433/cb",
        "http://[::ffff:127.0.0.1]/cb",
        "http://LOCALHOST/cb",
        "http://127.0.0.2/cb",
        "http://app.example/cb",
    ],
)
async def test_s006_b15_only_three_hosts_may_have_plain_http(desk, uri):
    put = f"/api/admin/clients/{desk.client['client_id']}"

    assert (await desk.register(redirect_uris=[uri])).status == 400
    assert (await desk.ask("PUT", put, cookie=desk.admin, json={"redirect_uris": [uri]})).status == 400
    assert await refused_here(desk, uri)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_s006_b2_the_port_of_a_loopback_uri_may_vary_and_nothing_else(desk, ann, host):
    registered = await desk.register(redirect_uris=[f"http://{host}:3000/cb?a=1"])
    desk.client = registered.json

    other_port = await desk.authorize(ann, redirect_uri=f"http://{host}:51004/cb?a=1")
    assert other_port.location.startswith("/api/auth/consent")
    for uri in (f"http://{host}:51004/cb", f"http://{host}:51004/cb?a=2", f"http://{host}:51004/cb/?a=1", f"https://{host}:51004/cb?a=1"):
        assert (await desk.authorize(ann, redirect_uri=uri)).shown
    for elsewhere in {"localhost", "127.0.0.1", "[::1]"} - {host}:
        assert (await desk.authorize(ann, redirect_uri=f"http://{elsewhere}:3000/cb?a=1")).shown
    for port in ("0", "99999", "x", "80@evil.example"):
        assert (await desk.authorize(ann, redirect_uri=f"http://{host}:{port}/cb?a=1")).shown


@pytest.mark.parametrize("uri", SCHEMES)
async def test_s007_other_schemes(desk, uri):
    put = f"/api/admin/clients/{desk.client['client_id']}"

    assert (await desk.register(redirect_uris=[uri])).status == 400
    assert (await desk.ask("PUT", put, cookie=desk.admin, json={"redirect_uris": [uri]})).status == 400
    assert await refused_here(desk, uri)


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "scope", "state", "response_type", "prompt"])
async def test_s008_a_parameter_twice(desk, ann, name):
    twice = f"{desk.query(prompt='login')}&{name}=x"
    quoted = twice.replace(f"{name}=", f"%{ord(name[0]):02x}{name[1:]}=", 1)

    for query in (twice, quoted):
        answer = await desk.ask("GET", f"/authorize?{query}", cookie=ann)
        assert (answer.status, answer.json["error"], answer.shown) == (400, "invalid_request", True)
    posted = await desk.ask("POST", "/authorize", cookie=ann, data=twice, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert (posted.status, posted.shown) == (400, True)
    mixed = await desk.ask("POST", f"/authorize?{name}=x", cookie=ann, data=dict(parse_qsl(desk.query())))
    assert (mixed.status, mixed.shown) == (400, True)


@pytest.mark.parametrize("client_id", [None, "", "nobody", "x" * 5000, "' OR 1=1 --", "\x00", "../../x", "é"])
async def test_s009_b21_idp_358_an_unknown_client_is_never_redirected(desk, ann, client_id):
    for changes in ({}, {"response_type": "token"}, {"prompt": "none"}, {"redirect_uri": "https://evil.example/"}):
        for headers in (None, BROWSER):
            answer = await desk.authorize(ann, headers=headers, **{"client_id": client_id, **changes})
            assert (answer.status, answer.shown) == (400, True)
            assert answer.headers["Content-Type"].startswith("text/html" if headers else "application/json")
    program = await desk.authorize(ann, client_id=client_id)
    assert program.json["error"] == "invalid_request"


@pytest.mark.parametrize("response_type", ["token", "id_token token", "none", "token code", "code token", "CODE", "code ", "x" * 2000])
async def test_s010_b9_the_only_response_type_is_code(desk, ann, response_type):
    assert (await desk.authorize(ann, response_type=response_type)).members["error"] == "unsupported_response_type"


async def test_s011_scopes_are_cut_to_the_clients(desk, ann):
    assert (await desk.authorize(ann, scope="phone groups")).members["error"] == "invalid_scope"
    for scope in ('openid "', "openid \x00", "openid\n", "openid é", "\\"):
        assert (await desk.authorize(ann, scope=scope)).members["error"] == "invalid_scope"
    code = await desk.code(ann, scope="openid groups directory.read profile")
    assert (await desk.redeem(code)).json["scope"] == "openid profile"


async def test_s012_scopes_reduced_between_page_and_approval(desk, ann):
    _, fields = await desk.consent(ann, scope="openid profile email")
    put = f"/api/admin/clients/{desk.client['client_id']}"
    assert (await desk.ask("PUT", put, cookie=desk.admin, json={"scopes": ["openid", "email"]})).status == 200

    code = (await desk.approve(ann, fields)).members["code"]

    assert (await desk.redeem(code)).json["scope"] == "openid email"


async def test_s013_a_consent_is_bound_to_its_session_and_answered_once(desk, ann):
    _, fields = await desk.consent(ann, scope="openid")
    ben = await desk.login("ben")
    form_of_ben = {"consent_id": fields["consent_id"], "decision": "approve"}

    assert (await desk.approve(ben, fields)).status == 403  # the form's token is of another session
    assert (await desk.ask("POST", "/api/auth/consent", cookie=ben, json=form_of_ben)).status == 404
    assert (await desk.ask("POST", "/api/auth/consent", json=form_of_ben)).status == 401
    forged = {**fields, "scope": "openid email", "client_id": "x", "redirect_uri": "https://evil.example/"}
    answers = await asyncio.gather(*(desk.approve(ann, forged) for _ in range(PARALLEL)))
    won = [answer for answer in answers if answer.status == 303]
    assert len(won) == 1
    assert (await desk.redeem(won[0].members["code"])).json["scope"] == "openid"


async def answers_of_authorize(desk: Desk, ann: str) -> list[Answer]:
    """Every sort of answer that the endpoint gives."""
    _, fields = await desk.consent(ann, prompt="consent")
    approved = await desk.approve(ann, fields)
    return [
        approved,
        await desk.authorize(ann),
        await desk.authorize(ann, response_mode="form_post"),
        await desk.authorize(ann, response_mode="fragment"),
        await desk.authorize(),
        await desk.authorize(ann, prompt="consent"),
        await desk.authorize(ann, scope="phone"),
        await desk.authorize(ann, prompt="none login"),
        await desk.authorize(ann, client_id="nobody"),
        await desk.authorize(ann, client_id="nobody", headers=BROWSER),
        await desk.authorize(ann, redirect_uri="https://evil.example/"),
        await desk.ask("GET", "/authorize?transaction=si_n1_x", cookie=ann),
        await desk.ask("POST", "/authorize", data=dict(parse_qsl(desk.query()))),
        await desk.ask("POST", "/authorize", json={"client_id": "x"}),
        await desk.ask("POST", "/authorize", data="x" * 100_000),
        await desk.ask("DELETE", "/authorize"),
        await desk.ask("GET", "/authorize?state=%ff"),
    ]


async def test_s014_s015_b17_b24_idp_206_every_answer_keeps_frames_and_referrers_out(desk, ann):
    page, _ = await desk.consent(ann)
    login = await desk.ask("GET", "/ui/auth/login")

    for answer in (*await answers_of_authorize(desk, ann), page, login):
        assert answer.headers["Referrer-Policy"] == "no-referrer", answer
        assert answer.headers["X-Frame-Options"] == "DENY", answer
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"], answer
        assert answer.headers["Cache-Control"] == "no-store", answer
        assert "unsafe" not in answer.headers["Content-Security-Policy"]


async def test_s016_b20_iss_is_the_issuer_of_the_metadata_in_every_response(desk, ann):
    metadata = (await desk.ask("GET", "/.well-known/oauth-authorization-server")).json
    assert metadata["authorization_response_iss_parameter_supported"] is True
    code = await desk.code(ann)
    assert code

    for changes in ({}, {"scope": "phone"}, {"response_type": "token"}, {"prompt": "none login"}, {"code_challenge_method": "plain"}):
        answer = await desk.authorize(ann, **changes)
        assert answer.members["iss"] == metadata["issuer"] == desk.url
    assert metadata["issuer"] in (await desk.authorize(ann, response_mode="form_post")).text


async def test_s017_b4_no_307_or_308_after_credentials(desk, ann):
    asked = await desk.authorize()
    page = await desk.ask("GET", asked.location, headers=BROWSER)
    cookie = page.cookies[0].partition(";")[0]

    signed_in = await desk.ask("POST", "/login", data={**hidden(page), "username": "ann", "password": PASSWORD}, cookie=cookie)
    _, fields = await desk.consent(ann)
    approved = await desk.approve(ann, fields)
    posted = await desk.ask("POST", "/authorize", data=dict(parse_qsl(desk.query())), cookie=ann)

    assert [one.status for one in (signed_in, approved, posted)] == [303, 303, 303]
    assert [one.status for one in await answers_of_authorize(desk, ann) if one.status in {307, 308}] == []


@pytest.mark.parametrize("url", ["//evil.example/", "/\\evil.example", "/%09/evil.example", "https:evil.example", "/x/..//evil.example"])
async def test_s018_b3_no_parameter_chooses_another_place(desk, ann, url):
    for path in ("/login", "/ui/auth/login", "/logout", "/ui/", "/", "/authorize"):
        for name in ("return_to", "next", "RelayState", "redirect", "transaction", "post_logout_redirect_uri"):
            answer = await desk.ask("GET", f"{path}?{urlencode({name: url})}", cookie=ann, headers=BROWSER)
            place = urlsplit(answer.headers.get("Location", "/"))
            assert (place.scheme, place.netloc) == ("", ""), (path, name)


async def test_s019_prompt_none_max_age_and_hints(desk, ann):
    tokens = (await desk.redeem(await desk.code(ann))).json
    ben = await desk.login("ben")

    assert (await desk.authorize(prompt="none")).members["error"] == "login_required"
    assert (await desk.authorize(ann, max_age="0")).location.startswith("/ui/auth/login")
    assert (await desk.authorize(ann, max_age="0", prompt="none")).members["error"] == "login_required"
    assert (await desk.authorize(ben, prompt="none", id_token_hint=tokens["id_token"])).members["error"] == "login_required"
    assert (await desk.authorize(ben, id_token_hint=tokens["id_token"])).location.startswith("/ui/auth/login")
    assert "code" in (await desk.authorize(ann, prompt="none", id_token_hint=tokens["id_token"])).members


async def test_s020_a_request_uri_is_its_clients_and_gives_one_code(desk, ann):
    await desk.code(ann, scope="openid profile email")
    pushed = await desk.ask("POST", "/par", data=dict(parse_qsl(desk.query(scope="openid"))), headers=desk.credentials)
    where = f"/authorize?client_id={desk.client['client_id']}&request_uri={quote(pushed.json['request_uri'])}"
    other = (await desk.register()).json["client_id"]

    foreign = await desk.ask("GET", where.replace(desk.client["client_id"], other), cookie=ann)
    assert (foreign.status, foreign.json["error"]) == (400, "invalid_request_uri")
    conflicting = f"{where}&scope=email&redirect_uri=https%3A%2F%2Fevil.example&state=evil&response_type=token"
    answers = await asyncio.gather(*(desk.ask("GET", conflicting, cookie=ann) for _ in range(PARALLEL)))

    won = [answer for answer in answers if answer.status == 302]
    assert len(won) == 1
    assert won[0].members["state"] == "state-1"
    assert (await desk.redeem(won[0].members["code"])).json["scope"] == "openid"
    assert all(answer.json["error"] == "invalid_request_uri" for answer in answers if answer is not won[0])


async def test_s021_request_objects_are_refused_and_nothing_is_fetched(desk, ann):
    fetched: list[bytes] = []

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(trap, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    unsigned = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0."
    try:
        assert (await desk.authorize(ann, request=unsigned)).members["error"] == "request_not_supported"
        for uri in (f"http://127.0.0.1:{port}/r", "http://169.254.169.254/latest", f"https://localhost:{port}/r"):
            assert (await desk.authorize(ann, request_uri=uri)).members["error"] == "request_uri_not_supported"
            form = {**dict(parse_qsl(desk.query())), "request_uri": uri}
            assert (await desk.ask("POST", "/par", data=form, headers=desk.credentials)).status == 400
    finally:
        server.close()
        await server.wait_closed()
    assert fetched == []


# ---- Pages say, and never do, what others wrote


@pytest.mark.parametrize("text", [XSS, TEMPLATE])
async def test_s071_s072_what_others_wrote_is_text(desk, ann, text):
    scope = await desk.ask("PUT", "/api/admin/scopes/odd", cookie=desk.admin, json={"description": text, "claims": []})
    assert scope.status == 201, scope.text
    registered = await desk.register(client_name=text, scopes=["openid", "odd"])
    assert registered.status == 201, registered.text
    desk.client = registered.json

    asked = await desk.authorize(login_hint=text)
    login = await desk.ask("GET", asked.location, headers=BROWSER)
    cookie = login.cookies[0].partition(";")[0]
    failed = await desk.ask("POST", "/login", data={**hidden(login), "username": text, "password": "x"}, cookie=cookie)
    consent, fields = await desk.consent(ann, scope="openid odd")
    await desk.approve(ann, fields)
    account = await desk.ask("GET", "/ui/", cookie=ann)
    posted = await desk.authorize(ann, scope="openid", response_mode="form_post", state=text)
    logout = await desk.ask("GET", f"/logout?{urlencode({'state': text})}", cookie=ann)
    error = await desk.authorize(ann, headers=BROWSER, redirect_uri=text)

    pages = {"login": login, "failed": failed, "consent": consent, "account": account, "posted": posted, "logout": logout, "error": error}
    for name, page in pages.items():
        assert page.headers["Content-Type"] == "text/html; charset=utf-8", name
        assert "<script>alert" not in page.text, name
        assert "<img src=x" not in page.text, name
        assert not re.search(r"\b49\b|&lt;class|<class", page.text), name
        assert "'unsafe" not in page.headers["Content-Security-Policy"], name
    for name in ("login", "failed", "consent", "account", "posted"):
        assert text in unescape(pages[name].text), name


@pytest.mark.parametrize("text", ["a\r\nSet-Cookie: x=y", "a\nLocation: https://evil.example", "a\r\n\r\n<script>", "\x00\x1b[2J\u202e"])
async def test_s073_line_ends_split_nothing(desk, ann, text, capfd):
    await desk.code(ann)
    capfd.readouterr()

    answers = [
        await desk.authorize(ann, state=text),
        await desk.authorize(ann, state=text, scope=text),
        await desk.authorize(ann, state=text, response_mode="fragment"),
        await desk.authorize(state=text, login_hint=text),
        await desk.authorize(ann, client_id=text),
        await desk.ask("GET", f"/login?{urlencode({'return_to': '/' + text})}"),
        await desk.ask("GET", f"/ui/auth/login?{urlencode({'return_to': '/' + text})}"),
    ]

    assert answers[0].members["state"] == text
    for answer in answers:
        assert not [one for one in answer.cookies if one.startswith("x=")]
        assert "evil.example" not in urlsplit(answer.headers.get("Location", "")).netloc
    lines = capfd.readouterr().out.splitlines()
    assert len([line for line in lines if "/authorize" in line or "login" in line]) == len(answers)


async def test_s076_nothing_of_it_is_kept_by_caches(desk, ann):
    _, fields = await desk.consent(ann)
    approved = await desk.approve(ann, fields)
    tokens = await desk.redeem(approved.members["code"])
    userinfo = await desk.ask("GET", "/userinfo", headers={"Authorization": f"Bearer {tokens.json['access_token']}"})
    introspected = await desk.ask("POST", "/introspect", data={"token": tokens.json["access_token"]}, headers=desk.credentials)
    pushed = await desk.ask("POST", "/par", data=dict(parse_qsl(desk.query())), headers=desk.credentials)
    login = await desk.ask("GET", "/ui/auth/login")
    account = await desk.ask("GET", "/ui/", cookie=ann)
    json_login = await desk.ask("POST", "/api/auth/login", json={"username": "ann", "password": PASSWORD})

    for answer in (approved, tokens, userinfo, introspected, pushed, login, account, json_login):
        assert answer.status < 400
        assert answer.headers["Cache-Control"] == "no-store"


# ---- The rest of RFC 9700


async def test_b5_pkce_s256(desk, ann):
    wrong = await desk.redeem(await desk.code(ann), code_verifier="x" * 43)
    await_code = (await desk.authorize(ann)).members["code"]
    missing = await desk.redeem(await_code, code_verifier=None)
    right = await desk.redeem((await desk.authorize(ann)).members["code"])

    assert (wrong.status, wrong.json["error"]) == (400, "invalid_grant")
    assert (missing.status, missing.json["error"]) == (400, "invalid_grant")
    assert right.status == 200


async def test_b6_a_verifier_without_a_challenge_is_a_downgrade(desk, ann):
    code = await desk.code(ann, code_challenge=None, code_challenge_method=None)

    answer = await desk.redeem(code)

    assert (answer.status, answer.json["error"]) == (400, "invalid_grant")


async def test_b7_pkce_is_in_the_metadata(desk):
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"):
        assert (await desk.ask("GET", path)).json["code_challenge_methods_supported"] == ["S256"]


async def test_b8_a_public_client_needs_pkce(desk, ann):
    desk.client = (await desk.register(token_endpoint_auth_method="none")).json

    assert (await desk.authorize(ann, code_challenge=None, code_challenge_method=None)).members["error"] == "invalid_request"
    assert (await desk.authorize(ann, code_challenge_method="plain")).members["error"] == "invalid_request"


async def test_b16_no_cors_where_people_are(desk, ann):
    foreign = {"Origin": "https://evil.example"}
    page, _ = await desk.consent(ann)
    consent = await desk.ask("GET", "/api/auth/consent", cookie=ann, headers=foreign)

    answers = [page, consent, await desk.authorize(ann, headers=foreign)]
    answers += [await desk.ask("GET", path, cookie=ann, headers=foreign) for path in ("/ui/auth/login", "/login", "/ui/", "/logout")]
    answers += [await desk.ask("OPTIONS", path, headers=foreign) for path in ("/authorize", "/login", "/api/auth/consent")]

    for answer in answers:
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
    discovery = await desk.ask("GET", "/.well-known/openid-configuration", headers=foreign)
    assert discovery.headers["Access-Control-Allow-Origin"] == "*"


async def test_b18_a_code_is_used_once_and_the_second_use_revokes(desk, ann):
    code = await desk.code(ann)
    tokens = (await desk.redeem(code)).json

    again = await desk.redeem(code)

    assert (again.status, again.json["error"]) == (400, "invalid_grant")
    introspected = await desk.ask("POST", "/introspect", data={"token": tokens["access_token"]}, headers=desk.credentials)
    assert introspected.json == {"active": False}


async def test_b19_s149_no_code_and_no_handle_in_the_logs(desk, ann, capfd):
    asked = await desk.authorize()
    back = unquote(asked.location.partition("return_to=")[2])
    await desk.ask("GET", back, cookie=ann)
    pushed = (await desk.ask("POST", "/par", data=dict(parse_qsl(desk.query())), headers=desk.credentials)).json["request_uri"]
    await desk.ask("GET", f"/authorize?client_id={desk.client['client_id']}&request_uri={quote(pushed)}", cookie=ann)
    _, fields = await desk.consent(ann)
    code = (await desk.approve(ann, fields)).members["code"]
    await desk.redeem(code)

    logged = "".join(capfd.readouterr())
    assert "route=/authorize" in logged
    for secret in (code, fields["consent_id"], fields["form_token"], pushed, back.partition("=")[2], ann.partition("=")[2], PASSWORD):
        assert secret[-20:] not in logged


async def test_b30_handles_and_codes_rest_as_digests(desk, ann):
    from greatseal_idp import tables

    asked = await desk.authorize()
    _, fields = await desk.consent(ann)
    code = (await desk.approve(ann, fields)).members["code"]

    rows = await desk.service.host("idp").db.read(
        lambda tx: [repr(tx.all(table.select())) for table in (tables.authorization, tables.code, tables.consent, tables.session)]
    )
    for secret in (code, fields["consent_id"], asked.location.partition("%3D")[2], ann.partition("=")[2]):
        assert len(secret) > 40
        assert secret not in "".join(rows)
