"""Pages in the language of their reader, and in the colours and words of their organisation."""

import re
from typing import Any

import pytest

from greatseal.api.problems import StartProblem
from greatseal.testing.catalogues import PSEUDO, catalogue, install_catalogue, pseudo
from greatseal.testing.service import document, serve

SIGN_IN = "/ui/auth/login"
GERMAN = {"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"}


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.mark.parametrize(("headers", "lang", "heading"), [
    ({}, "en", "Sign in"), (GERMAN, "de", "Anmelden"), ({"Accept-Language": "fr"}, "fr", "Se connecter"),
    ({"Accept-Language": "fi"}, "en", "Sign in"),
])  # fmt: skip
async def test_a_page_is_in_the_language_of_the_browser(open_idp: Any, headers: dict[str, str], lang: str, heading: str) -> None:
    page = await (await open_idp()).get(SIGN_IN, headers=headers)

    assert f'<html lang="{lang}">' in page.text
    assert f"<h1>{heading}</h1>" in page.text


async def test_ui_locales_of_the_request_go_before_the_browser(open_idp: Any, register_app: Any) -> None:
    """OpenID Connect Core s3.1.2.1."""
    desk = await open_idp()
    app = await register_app(desk)

    asked = await app.ask(headers=GERMAN, ui_locales="xx fr-CA de")
    page = await desk.get(asked.location, headers=GERMAN)
    wrong = await app.ask(headers=GERMAN, ui_locales="<b> " * 500)

    assert '<html lang="fr">' in page.text
    assert wrong.status == 303, "what cannot be had is no error"


async def test_the_languages_are_told_in_the_metadata(open_idp: Any) -> None:
    every = await (await open_idp()).get("/.well-known/openid-configuration")
    chosen = await (await open_idp(webui={"languages": ["fr", "en"]})).get("/.well-known/openid-configuration")

    assert every.json["ui_locales_supported"] == ["en", "de", "fr"]
    assert chosen.json["ui_locales_supported"] == ["fr", "en"]


async def test_refusals_are_translated_for_people_and_english_for_developers_and_programs(open_idp: Any) -> None:
    desk = await open_idp()
    html = {"Accept": "text/html", **GERMAN}

    wrong = await desk.get("/authorize?client_id=nobody", headers=html)
    page = await desk.get(SIGN_IN, headers=html)
    typed = {"username": "alice", "password": "not hers", "form_token": re.findall(r'name="form_token" value="([^"]+)"', page.text)[0]}
    refused = await desk.post("/login", data=typed, cookie=page.headers["Set-Cookie"].partition(";")[0], headers=html)
    program = await desk.post("/api/auth/login", json={"username": "alice", "password": "not hers"}, headers=GERMAN)

    assert "<h1>Diese Anfrage kann nicht ausgeführt werden</h1>" in wrong.text
    assert '<span lang="en" dir="ltr">client_id names no client' in wrong.text
    assert "Der Benutzername oder das Passwort ist falsch." in refused.text
    assert program.json["error_description"] == "the name or the password is wrong"


async def test_a_plugin_adds_a_language_from_right_to_left(open_idp: Any, site: Any) -> None:
    desk = await open_idp(install_catalogue(site, "greatseal-pseudo", {PSEUDO: pseudo(["greatseal", "greatseal_idp"])}))

    page = await desk.get(SIGN_IN, headers={"Accept-Language": PSEUDO})

    assert f'<html lang="{PSEUDO}" dir="rtl">' in page.text
    assert "<h1>⟦Sign in⟧</h1>" in page.text


async def test_a_translation_that_does_not_fit_is_passed_over(open_idp: Any, site: Any) -> None:
    said = {"to continue to <strong>%(client_name)s</strong>": "%(nobody)s", "Sign in": "Kirjaudu {{ 1 }}"}
    desk = await open_idp(install_catalogue(site, "greatseal-fi", {"fi": catalogue(said)}))

    page = await desk.get(SIGN_IN, headers={"Accept-Language": "fi"})

    assert page.status == 200
    assert "Kirjaudu {{ 1 }}" in page.text, "a catalogue is text, no template"


async def test_the_colour_the_logo_and_the_words_of_the_organisation(open_idp: Any) -> None:
    look = {
        "accent_color": "#7a1fa2",
        "logo_url": "/logo.svg",
        "logo_url_dark": "https://cdn.example.org/dark.svg",
        "sign_in_text": {"en": "For staff alone.", "de": "Nur für Angestellte."},
        "help_text": "Service desk: 1234 & 5678",
        "links": [{"words": {"en": "Imprint", "de": "Impressum"}, "url": "https://example.org/imprint"}, {"words": "Help", "url": "/help"}],
    }
    desk = await open_idp(webui=look)

    english, german = [(await desk.get(SIGN_IN, headers=headers)) for headers in ({}, GERMAN)]
    (style,) = re.findall(r'rel="stylesheet" href="([^"]+)"', english.text)
    sheet = await desk.get(style)
    start = await desk.get("/")

    assert "For staff alone." in english.text
    assert "Nur für Angestellte." in german.text
    assert "Service desk: 1234 &amp; 5678" in german.text
    assert '<a href="https://example.org/imprint" rel="noreferrer">Impressum</a>' in german.text
    assert "img-src 'self' https://cdn.example.org;" in english.headers["Content-Security-Policy"]
    assert "--accent:#7a1fa2" in sheet.text
    assert style in start.text


@pytest.mark.parametrize(("key", "value"), [
    ("accent_color", "red"), ("accent_color", "#12345"), ("sign_in_text", ""), ("help_text", "a\nb"), ("help_text", {}),
    ("links", [{"words": "x", "url": "javascript:alert(1)"}]),
    ("links", [{"words": "x", "url": "//evil.example"}]), ("links", [{"words": "x", "url": "/x"}] * 11),
    ("logo_url_dark", "x y"), ("languages", ["xx"]),
])  # fmt: skip
async def test_a_look_that_cannot_be_is_told_at_the_start(tmp_path: Any, key: str, value: Any) -> None:
    with pytest.raises(StartProblem, match=rf"\[webui\] {key}"):
        async with serve(document(tmp_path, ["idp"], webui={key: value})):
            pass
