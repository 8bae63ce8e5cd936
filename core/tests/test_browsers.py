"""What programs say of themselves, in words for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.browsers import browser_of, is_browser, kept_browser

MOZILLA = "Mozilla/5.0"
WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
SAID = [
    (f"{MOZILLA} (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
    (f"{MOZILLA} (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/142.0.0.0 Safari/537.36", "Chrome on Windows"),
    (f"{MOZILLA} (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0", "Edge on Windows"),
    (f"{MOZILLA} (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.1 Safari/605.1.15", "Safari on a Mac"),
    (f"{MOZILLA} (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 Version/18.1 Safari/604.1", "Safari on an iPhone"),
    (f"{MOZILLA} (Linux; Android 15; K) {WEBKIT} SamsungBrowser/28.0 Chrome/130.0.0.0 Safari/537.36", "Samsung Internet on Android"),
    (f"{MOZILLA} (compatible; something)", "Browser"),
    ("curl/8.5.0", "Program curl"),
    ("python-requests/2.34.2", "Program python-requests"),
    ("<script>", "Unknown program"),
    ("", "Unknown program"),
    (None, "Unknown program"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "words"), SAID, ids=[words for _, words in SAID[:-2]] + ["empty", "none"])
def test_a_program_is_named_in_words(said: str | None, words: str) -> None:
    assert str(browser_of(said)) == words
    assert is_browser(said) is (words.split(maxsplit=1)[0] not in {"Program", "Unknown"})


@pytest.mark.parametrize("said", [said for said, words in SAID if not words.startswith("Program ")])
def test_what_was_kept_in_english_is_said_in_every_language(said: str | None) -> None:
    assert kept_browser(str(browser_of(said))) == browser_of(said)


@pytest.mark.parametrize("words", ["", "Program curl", "Firefox on", "Firefox on <b>", "on Linux"])
def test_other_words_stay_as_they_are(words: str) -> None:
    assert kept_browser(words) == words


@given(st.text(max_size=300))
def test_whatever_is_said_is_short_and_one_line(said: str) -> None:
    words = str(browser_of(said))

    assert 0 < len(words) <= 50
    assert words.isprintable()
    assert not set("<>&\"'") & set(words)
