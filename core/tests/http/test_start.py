"""The start page at /: what runs here, for people, without scripts (ruling R106)."""

import re
from types import SimpleNamespace

import aiohttp

from greatseal.api.look import style_of
from greatseal.api.pages import StartLine, StartPart
from greatseal.http.start import StartPage
from greatseal.kernel.languages import LanguagesImpl

STYLE = style_of(None)
CALL = SimpleNamespace(headers={})
EVIL = "<script>alert('1')</script>&\"\ud800"


async def shown(*parts, **look):
    page = StartPage(
        parts,
        base_url="https://id.example.org/under",
        **{"name": None, "theme": None, "languages": LanguagesImpl([]), "style": STYLE, **look},
    )
    front, style = page.routes()
    return await front.handler(CALL), await style.handler(None)


async def test_r106_every_part_is_a_heading_with_its_lines():
    lines = [
        StartLine(words="go", link="/account"),
        StartLine(words="far", link="https://x.example/"),
        StartLine(words="run", value="a\nb"),
    ]

    page, _ = await shown(StartPart(title="Sign in", lines=lambda: lines), StartPart(title="Nothing", lines=list))

    text = page.body.decode()
    assert "<h1>id.example.org</h1>" in text
    assert re.findall(r"<h2>(.*)</h2>", text) == ["Sign in"]
    assert '<a href="/under/account">go</a>' in text
    assert '<a href="https://x.example/">far</a>' in text
    assert "<code>a\nb</code>" in text


async def test_what_parts_say_is_text():
    line = StartLine(words=EVIL, link=EVIL, value=EVIL)

    page, _ = await shown(StartPart(title=EVIL, lines=lambda: [line]), name=EVIL)

    assert "<script" not in page.body.decode()
    assert "'1'" not in page.body.decode()


async def test_the_page_runs_nothing_and_loads_its_style_alone():
    page, style = await shown(theme="dark")

    policy = dict(page.headers)["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; ")
    assert "script" not in policy
    assert 'data-theme="dark"' in page.body.decode()
    (path,) = re.findall(r'rel="stylesheet" href="/under(/assets/greatseal-[0-9a-f]{16}\.css)"', page.body.decode())
    assert (style.body, style.content_type) == (STYLE.sheet, "text/css; charset=utf-8")
    assert "immutable" in dict(style.headers)["Cache-Control"]
    assert path


async def test_a_service_of_nothing_has_a_front_door_too(start_service):
    service = await start_service(webui={"display_name": "Example & Co"})

    async with aiohttp.ClientSession() as http, http.get(f"{service.url}/") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "<h1>Example &amp; Co</h1>" in await answer.text()
