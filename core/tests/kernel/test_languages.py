"""Languages of pages and mails: who gets which, and how catalogues are put together."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.languages import Catalogue, ranges_of, tags_of
from greatseal.api.messages import Message, Text, plural
from greatseal.api.moments import day_and_time
from greatseal.api.problems import BadRequest, StartProblem
from greatseal.http.render import render
from greatseal.kernel.languages import LanguagesImpl, is_right_to_left
from greatseal.testing.catalogues import PSEUDO, catalogue, install_catalogue, outside, pseudo

HELLO = Message("Hello %(name)s", {"name": "Ada"})
APPLES = {"One apple\0%(count)d apples": "Ein Apfel\0%(count)d Äpfel"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def languages(site: Path) -> LanguagesImpl:
    install_catalogue(site, "greatseal-first", {"de": catalogue({"Hello %(name)s": "Hallo %(name)s", "Only here": "Nur hier", **APPLES})})
    install_catalogue(site, "greatseal-second", {"de": catalogue({"Hello %(name)s": "Moin %(name)s"}), "pt-BR": catalogue({})})
    return LanguagesImpl([Catalogue("greatseal_first"), Catalogue("greatseal_second")])


def test_of_two_translations_that_of_the_later_plugin_counts(languages: LanguagesImpl) -> None:
    german = languages.best(["de"])

    assert (german.tag, german.rtl) == ("de", False)
    assert german.text(HELLO) == "Moin Ada"
    assert german.text(Message("Only here")) == "Nur hier"


def test_what_no_catalogue_has_is_english(languages: LanguagesImpl) -> None:
    german = languages.best(["de"])

    assert german.text(Message("Nowhere")) == german.known("Nowhere") == "Nowhere"
    assert german.text("Only here") == "Only here", "it is somebody's own words"
    assert german.known("Only here") == "Nur hier"
    assert german.known("") == ""


def test_english_can_be_said_in_other_words(site: Path) -> None:
    install_catalogue(site, "greatseal-words", {"en": catalogue({"Only here": "Here alone"})})
    english = LanguagesImpl([Catalogue("greatseal_words")]).best(["fi"])

    assert (english.tag, english.plain) == ("en", False)
    assert [english.text(Message(text)) for text in ("Only here", "Nowhere")] == ["Here alone", "Nowhere"]


@pytest.mark.parametrize(
    ("count", "english", "german"), [(1, "One apple", "Ein Apfel"), (0, "0 apples", "0 Äpfel"), (7, "7 apples", "7 Äpfel")]
)
def test_a_number_decides_the_form(languages: LanguagesImpl, count: int, english: str, german: str) -> None:
    message = plural("One apple", "%(count)d apples", count)

    assert str(message) == languages.best(["en"]).text(message) == english
    assert languages.best(["de"]).text(message) == german


def test_a_value_that_is_a_message_is_translated_too(languages: LanguagesImpl) -> None:
    assert languages.best(["de"]).text(Message("Hello %(name)s", {"name": Message("Only here")})) == "Moin Nur hier"


def test_a_message_can_be_kept(languages: LanguagesImpl) -> None:
    kept = msgspec.json.encode([plural("One %(what)s", "%(count)d %(what)s", 2, {"what": Message("pear")}), "plain"])

    message, text = msgspec.json.decode(kept, type=list[Text])

    assert (str(message), text) == ("2 pear", "plain")


def test_moments_are_written_as_people_of_the_language_do() -> None:
    moment = 1_790_000_000_000_000
    languages = LanguagesImpl([Catalogue("greatseal")])

    assert str(day_and_time(moment)) == "21 September 2026, 14:13 UTC"
    assert languages.best(["de"]).text(day_and_time(moment)) == "21. September 2026, 14:13 Uhr UTC"
    assert languages.best(["fr"]).text(day_and_time(moment)) == "21 septembre 2026 à 14:13 UTC"


@pytest.mark.parametrize(("accept", "tag"), [
    ("", "en"), ("*", "en"), ("de", "de"), ("DE", "de"), ("de-AT,de;q=0.9", "de"), ("fi,de;q=0.5,en;q=0.1", "de"), ("en;q=0.4,de", "de"),
    ("de;q=0,en;q=0", "en"), ("pt", "pt-BR"), ("pt-PT", "pt-BR"), ("zh-Hant-TW", "en"), ("de;q=2", "en"), (",,;q=1,de", "de"),
    ("de" + ",de" * 5000, "de"), ("\0", "en"), ("e" * 10_000, "en"),
])  # fmt: skip
def test_the_browser_says_which(languages: LanguagesImpl, accept: str, tag: str) -> None:
    """RFC 9110 s12.5.4, RFC 4647 s3.4."""
    assert languages.of({"Accept-Language": accept}).tag == tag


def test_what_the_application_asks_for_goes_before_the_browser(languages: LanguagesImpl) -> None:
    headers = {"Accept-Language": "de"}

    assert languages.of(headers, ["pt-BR", "en"]).tag == "pt-BR"
    assert languages.of(headers, ["fi"]).tag == "de", "what is not offered is no choice"


def test_the_configuration_says_what_is_offered_and_what_is_usual(site: Path, languages: LanguagesImpl) -> None:
    chosen = LanguagesImpl([Catalogue("greatseal_first"), Catalogue("greatseal_second")], ["DE", "en"])

    assert languages.offered == ("en", "de", "pt-BR")
    assert chosen.offered == ("de", "en")
    assert chosen.of({"Accept-Language": "pt-BR"}).tag == "de"


@given(st.text())
def test_no_header_and_no_parameter_is_too_strange(text: str) -> None:
    assert all(isinstance(tag, str) and tag for tag in (*ranges_of(text), *tags_of(text)))


def test_tags_of_a_parameter() -> None:
    assert tags_of("fr-CA fr en") == ("fr-CA", "fr", "en")
    assert tags_of("de; <b> " + "en " * 100) == ("en",) * 8


@pytest.mark.parametrize(
    ("tag", "rtl"), [("ar", True), ("fa-IR", True), ("he", True), ("uz-Arab", True), ("ks-Deva", False), ("de", False), ("ar-XB", True)]
)
def test_languages_from_right_to_left(tag: str, rtl: bool) -> None:
    assert is_right_to_left(tag) is rtl


def test_a_broken_catalogue_leaves_english(site: Path) -> None:
    install_catalogue(site, "greatseal-broken", {"xx": b"\xde\x12\x04\x95 nothing", "yy": b""})
    broken = LanguagesImpl([Catalogue("greatseal_broken")])

    assert [broken.best([tag]).text(HELLO) for tag in ("xx", "yy")] == ["Hello Ada"] * 2


async def test_a_language_that_there_is_not_is_told_at_the_start(start_service) -> None:
    with pytest.raises(StartProblem, match="no enabled plugin has a catalogue for 'xx'; there are: en, de, fr"):
        await start_service(webui={"languages": ["de", "xx"]})


async def test_a_package_that_there_is_not_is_told_at_the_start(start_service, site: Path) -> None:
    feature = install_catalogue(site, "greatseal-lost", {})
    (site / "greatseal_lost/__init__.py").write_text((site / "greatseal_lost/__init__.py").read_text().replace("greatseal_lost", "no_such"))

    with pytest.raises(StartProblem, match="there is no package 'no_such'"):
        await start_service(feature)


@pytest.fixture
async def in_pseudo(start_service, site: Path):
    return await start_service(install_catalogue(site, "greatseal-pseudo", {PSEUDO: pseudo(["greatseal"])}))


async def test_the_start_page_says_nothing_outside_a_catalogue(in_pseudo) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{in_pseudo.url}/", headers={"Accept-Language": PSEUDO}) as answer:
        page = await answer.text()

    assert answer.headers["Vary"] == "Accept-Language"
    _is_pseudo(page, besides=["localhost"])


def test_a_plain_refusal_says_nothing_outside_a_catalogue(site: Path) -> None:
    install_catalogue(site, "greatseal-pseudo", {PSEUDO: pseudo(["greatseal"])})
    language = LanguagesImpl([Catalogue("greatseal_pseudo")]).best([PSEUDO])

    for_people = render(BadRequest(Message("there is nothing under this URL")), "page", language).body.decode()
    for_developers = render(BadRequest("max_age: expected a number of seconds"), "page", language).body.decode()

    _is_pseudo(for_people)
    assert '<p role="alert" lang="en" dir="ltr">max_age: expected a number of seconds</p>' in for_developers


def _is_pseudo(page: str, besides: Sequence[str] = ()) -> None:
    assert f'<html lang="{PSEUDO}" dir="rtl"' in page
    said = [text for text in _texts(page.partition("<main")[2].partition("</main>")[0]) if text.strip()]
    assert said
    assert [text for text in said if outside(text)] == [*besides]


def _texts(html: str) -> Iterator[str]:
    for part in html.split("<"):
        yield part.partition(">")[2]
