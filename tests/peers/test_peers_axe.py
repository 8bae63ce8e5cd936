"""axe-core over every page that the documentation has a picture of: in a wide window by day, and on a phone by night in a language that
runs from right to left and shows what is not translated."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rig import screenshots
from rig.browser import CHROMIUM, Browser, Page
from rig.studio import Studio

from greatseal.testing.catalogues import PSEUDO, outside

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

AXE = Path(__file__).parent / "node/node_modules/axe-core/axe.min.js"
FOUND = """
axe.run(document, {resultTypes: ['violations']}).then(said => said.violations.map(one =>
  [one.impact, one.id, one.help, one.nodes.map(node => node.target.join(' ') + ': ' + node.html.slice(0, 120)).slice(0, 3)]))
"""

SAID = """
(() => {
  const said = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const script = (node) => node.parentElement.closest('script, noscript, [lang=en], .code, code, time, .hash, ul.tags, #key');
  while (walker.nextNode()) if (!script(walker.currentNode)) said.push(walker.currentNode.data.trim());
  for (const one of document.querySelectorAll('[aria-label], [title], [placeholder]')) if (!one.closest('[lang=en]'))
    said.push(...['aria-label', 'title', 'placeholder'].map((name) => one.getAttribute(name)).filter(Boolean));
  const root = document.documentElement;
  return [root.lang, root.dir, said.filter(Boolean)];
})()
"""
"""The language of a page, and each text on it."""
OF_PEOPLE = {
    "Ada Example", "Blue security key", "Example Bank", "Example Organisation", "Example Partner", "Example School",
    "Example Wiki", "My phone", "Payment W4SCT",
    "Living room TV", "Pay 123.50 EUR to “Merchant A”", "The account of the receiver is “DE02100100109307118603”",
    "actions: initiate, status", "XXXX-XXXX",
    "SHA-256, plants-05,", "mail.localhost", "www.localhost", *(f"host{number}.localhost" for number in range(6)),
    "ada", "ada@example.org", "administrators, staff", "email", "groups", "offline_access", "openid", "profile",
}  # fmt: skip
"""What people and administrators wrote themselves."""

for _what, _there in (("chromium", CHROMIUM is not None), ("axe-core", AXE.exists())):
    if not _there and not os.environ.get("CI"):
        pytest.skip(f"{_what} is not installed: make peers", allow_module_level=True)


async def found(page: Page) -> list[list[Any]]:
    await page.run(AXE.read_text() + ";0")
    faults: list[list[Any]] = await page.run(FOUND)
    return faults


async def test_a_picture_without_words_is_found(page: Page) -> None:
    await page.goto("data:text/html,<title>A page</title><main><img src=data:,></main>")

    assert "image-alt" in [fault[1] for fault in await found(page)]


class Two(Studio):
    """A wide window by day in English, and a phone by night in the pseudo language."""

    async def windows(self) -> AsyncIterator[tuple[Page, str]]:
        yield await self.browser.page(width=960, height=600), "wide-light"
        yield await self.browser.page(width=360, height=700, dark=True, language=self.language), "narrow-dark"


async def test_no_page_has_an_accessibility_fault(browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Web Content Accessibility Guidelines 2.2, as far as a program can tell."""
    seen: list[str] = []
    faults: list[str] = []
    untranslated: set[str] = set()

    async def look(page: Page, path: Path, *, whole: bool = False) -> None:
        seen.append(path.stem)
        faults.extend(f"{path.stem}: {msgspec.json.encode(one).decode()}" for one in await found(page))
        language, direction, texts = await page.run(SAID)
        assert (language, direction) in {("en", ""), (PSEUDO, "rtl")}
        if language == PSEUDO:
            untranslated.update(text for text in outside("\n".join(texts)) if text not in OF_PEOPLE)

    monkeypatch.setattr(Page, "picture", look)

    await screenshots.main(Two(browser, tmp_path, PSEUDO))

    assert len(seen) >= 130
    assert faults == []
    assert untranslated == set()
