"""The authorization endpoint and its pages: S008 to S018, S021, S071 to S073, S076, B3, B4, B16 to B21 and B24."""

import asyncio
import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from html import unescape
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec
import pytest
import pytest_asyncio
from security.idp_desk import BROWSER, PASSWORD, Desk, open_desk

from greatseal.testing.desk import Answer, hidden_fields, told

XSS = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
TEMPLATE = "{{7919*7907}}{% if 1 %}{{''.__class__}}{% endif %}${7919*7907}#{7919*7907}"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path_factory.mktemp("idp"), shown=XSS) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def desk(provider: Desk) -> Desk:
    """With a client of its own, which nobody has allowed anything."""
    provider.client = await provider.registered(consent="explicit")
    return provider


@pytest_asyncio.fixture(loop_scope="module")
async def ann(desk) -> str:
    return await desk.cookie("ann")


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
    others = [await desk.ask("GET", path, cookie=ann) for path in ("/ui/auth/login", "/login", "/logout", "/account", "/")]
    failed = await desk.ask("POST", "/login", data={"username": "ann", "password": "x"})

    for answer in (*await answers_of_authorize(desk, ann), page, failed, *others):
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
        assert told(answer)["iss"] == metadata["issuer"] == desk.url
    assert metadata["issuer"] in (await desk.authorize(ann, response_mode="form_post")).text


async def test_s017_b4_idp_187_no_307_or_308_after_credentials(desk, ann):
    asked = await desk.authorize()
    page = await desk.ask("GET", asked.location, headers=BROWSER)
    cookie = page.cookies[0].partition(";")[0]

    signed_in = await desk.ask("POST", "/login", data={**hidden_fields(page), "username": "ann", "password": PASSWORD}, cookie=cookie)
    _, fields = await desk.consent(ann)
    approved = await desk.approve(ann, fields)
    posted = [
        await desk.ask("POST", "/authorize", data=dict(parse_qsl(desk.query(scope=scope))), cookie=ann) for scope in ("openid", "phone")
    ]

    assert [one.status for one in (signed_in, approved, *posted)] == [303] * 4
    assert [one.status for one in await answers_of_authorize(desk, ann) if one.status in {307, 308}] == []


@pytest.mark.parametrize("url", ["//evil.example/", "/\\evil.example", "/%09/evil.example", "https:evil.example", "/x/..//evil.example"])
async def test_s018_b3_no_parameter_chooses_another_place(desk, ann, url):
    for path in ("/login", "/ui/auth/login", "/logout", "/account", "/", "/authorize"):
        for name in ("return_to", "next", "RelayState", "redirect", "transaction", "post_logout_redirect_uri"):
            answer = await desk.ask("GET", f"{path}?{urlencode({name: url})}", cookie=ann, headers=BROWSER)
            place = urlsplit(answer.headers.get("Location", "/"))
            assert (place.scheme, place.netloc) == ("", ""), (path, name)


async def test_s021_request_objects_are_refused_and_nothing_is_fetched(desk, ann):
    fetched: list[bytes] = []

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append(await reader.read(100))
        writer.close()

    def signed(alg: str, **claims: str) -> str:
        parts = (msgspec.json.encode(one) for one in ({"alg": alg}, {**dict(parse_qsl(desk.query())), **claims}))
        return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."

    server = await asyncio.start_server(trap, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    other = (await desk.register()).json["client_id"]
    try:
        for request in (signed("none"), signed("none", iss=other), signed("ES256", aud="https://other.example"), "x"):
            assert told(await desk.authorize(ann, request=request))["error"] == "request_not_supported"
            assert (await desk.push(request=request)).outcome == (400, "request_not_supported")
        for uri in (f"http://127.0.0.1:{port}/r", "http://169.254.169.254/latest", f"https://localhost:{port}/r"):
            assert told(await desk.authorize(ann, request_uri=uri))["error"] == "request_uri_not_supported"
            assert (await desk.push(request_uri=uri)).status == 400
    finally:
        server.close()
        await server.wait_closed()
    assert fetched == []


# ---- Pages say, and never do, what others wrote


@pytest.mark.parametrize("text", [XSS, TEMPLATE])
async def test_s071_s072_what_others_wrote_is_text(desk, ann, text):
    scope = await desk.ask("PUT", "/api/admin/scopes/odd", cookie=desk.admin, json={"description": text, "claims": []})
    assert scope.status in {200, 201}, scope.text
    registered = await desk.register(client_name=text, scopes=["openid", "odd"])
    assert registered.status == 201, registered.text
    desk.client = registered.json

    asked = await desk.authorize(login_hint=text)
    login = await desk.ask("GET", asked.location, headers=BROWSER)
    cookie = login.cookies[0].partition(";")[0]
    failed = await desk.ask("POST", "/login", data={**hidden_fields(login), "username": text, "password": "x"}, cookie=cookie)
    consent, fields = await desk.consent(ann, scope="openid odd")
    await desk.approve(ann, fields)
    account = await desk.ask("GET", "/account", cookie=ann)
    posted = await desk.authorize(ann, scope="openid", response_mode="form_post", state=text)
    logout = await desk.ask("GET", f"/logout?{urlencode({'state': text})}", cookie=ann)
    error = await desk.authorize(ann, headers=BROWSER, redirect_uri=text)

    pages = {"login": login, "failed": failed, "consent": consent, "account": account, "posted": posted, "logout": logout, "error": error}
    for name, page in pages.items():
        assert page.headers["Content-Type"] == "text/html; charset=utf-8", name
        assert "<script>alert" not in page.text, name
        assert "<img src=x" not in page.text, name
        assert not re.search(r"62615533|&lt;class|<class", page.text), name
        assert "'unsafe" not in page.headers["Content-Security-Policy"], name
    for name in ("login", "failed", "consent", "account", "posted"):
        assert text in unescape(pages[name].text), name


async def test_s073_line_ends_split_nothing(tmp_path, capfd):
    async with open_desk(tmp_path) as desk:
        ann = await desk.cookie("ann")
        for text in ("a\r\nSet-Cookie: x=y", "a\nLocation: https://evil.example", "a\r\n\r\n<script>", "\x00\x1b[2J\u202e"):
            capfd.readouterr()
            answers = [
                await desk.authorize(ann, state=text),
                await desk.authorize(ann, state=text, scope=text),
                await desk.authorize(ann, state=text, response_mode="fragment"),
                await desk.authorize(state=text, login_hint=text),
                await desk.authorize(ann, client_id=text),
                await desk.ask("GET", f"/login?{urlencode({'return_to': '/' + text})}"),
                await desk.ask("GET", f"/ui/auth/login?{urlencode({'return_to': '/' + text})}"),
                await desk.ask("GET", f"/logout?{urlencode({'state': text})}", cookie=ann),
            ]

            assert told(answers[0])["state"] == text
            for answer in answers:
                assert not [one for one in answer.cookies if one.startswith("x=")]
                assert "evil.example" not in urlsplit(answer.headers.get("Location", "")).netloc
            lines = capfd.readouterr().out.splitlines()
            assert len([line for line in lines if "/authorize" in line or "login" in line or "/logout" in line]) == len(answers)


async def test_s076_nothing_of_it_is_kept_by_caches(desk, ann):
    _, fields = await desk.consent(ann)
    approved = await desk.approve(ann, fields)
    tokens = await desk.redeem(told(approved)["code"])
    userinfo = await desk.ask("GET", "/userinfo", headers={"Authorization": f"Bearer {tokens.json['access_token']}"})
    introspected = await desk.ask("POST", "/introspect", data={"token": tokens.json["access_token"]}, headers=desk.credentials)
    pushed = await desk.ask("POST", "/par", data=dict(parse_qsl(desk.query())), headers=desk.credentials)
    login = await desk.ask("GET", "/ui/auth/login")
    account = await desk.ask("GET", "/account", cookie=ann)
    json_login = await desk.ask("POST", "/api/auth/login", json={"username": "ann", "password": PASSWORD})

    for answer in (approved, tokens, userinfo, introspected, pushed, login, account, json_login):
        assert answer.status < 400
        assert answer.headers["Cache-Control"] == "no-store"


# ---- The rest of RFC 9700


async def test_b16_no_cors_where_people_are(desk, ann):
    foreign = {"Origin": "https://evil.example"}
    page, _ = await desk.consent(ann)
    consent = await desk.ask("GET", "/api/auth/consent", cookie=ann, headers=foreign)

    answers = [page, consent, await desk.authorize(ann, headers=foreign)]
    answers += [
        await desk.ask("GET", path, cookie=ann, headers=foreign)
        for path in ("/ui/auth/login", "/login", "/account", "/logout", "/api/auth/me")
    ]
    answers += [
        await desk.ask("OPTIONS", path, headers=foreign) for path in ("/authorize", "/par", "/login", "/logout", "/api/auth/consent")
    ]

    for answer in answers:
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
    discovery = await desk.ask("GET", "/.well-known/openid-configuration", headers=foreign)
    assert discovery.headers["Access-Control-Allow-Origin"] == "*"


async def test_b19_s149_no_code_and_no_handle_in_the_logs(tmp_path, capfd):
    async with open_desk(tmp_path) as desk:
        desk.client = await desk.registered(consent="explicit")
        secrets = await everything_secret(desk, await desk.cookie("ann"))

    logged = "".join(capfd.readouterr())
    assert "route=/authorize" in logged
    for secret in secrets:
        assert secret[-20:] not in logged


async def everything_secret(desk: Desk, ann: str) -> list[str]:
    """What passes through the service on the way of one sign-in to its end."""
    asked = await desk.authorize()
    back = unquote(asked.location.partition("return_to=")[2])
    await desk.ask("GET", back, cookie=ann)
    pushed = (await desk.ask("POST", "/par", data=dict(parse_qsl(desk.query())), headers=desk.credentials)).json["request_uri"]
    await desk.ask("GET", f"/authorize?client_id={desk.client['client_id']}&request_uri={quote(pushed)}", cookie=ann)
    _, fields = await desk.consent(ann)
    code = told(await desk.approve(ann, fields))["code"]
    tokens = (await desk.redeem(code)).json
    await desk.userinfo(tokens["access_token"])
    for path in ("/userinfo", "/introspect", "/token", "/authorize"):
        await desk.ask("GET", f"{path}?access_token={tokens['access_token']}&code={code}")
    await desk.form("/revoke", {"token": tokens["id_token"]})
    handles = [code, fields["consent_id"], fields["form_token"], pushed, back.partition("=")[2], ann.partition("=")[2], PASSWORD]
    return [*handles, tokens["access_token"], tokens["id_token"]]
