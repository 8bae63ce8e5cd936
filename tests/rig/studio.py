"""Where pictures of pages are taken: in two sizes, by day and by night, in one language."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rig import messages
from rig.browser import Browser, Page

from greatseal.testing.catalogues import PSEUDO, install_catalogue, pseudo
from greatseal.testing.service import document

PASSWORD = "correct horse battery"  # of a person who is gone after the picture
LOOK = {"display_name": "Example Organisation"}
SIZES = {"wide": (960, 600), "narrow": (360, 700)}


class Studio:
    """Pictures go to ``folder``. The language ``ar-XB`` is a pseudo one from right to left, which marks what is translated."""

    def __init__(self, browser: Browser, folder: Path, language: str = "en") -> None:
        self.browser, self.folder, self.language = browser, folder, language

    def document(self, state: Path, features: list[str], **sections: Any) -> dict[str, Any]:
        """A configuration, with the pseudo language where pictures are in it."""
        self.import_from(state)
        if self.language == PSEUDO:
            packages = [package.name for package in messages.packages()]
            name = f"greatseal-pseudo-{state.name.lower().replace('_', '-')}"
            features = [*features, install_catalogue(state, name, {PSEUDO: pseudo(packages)})]
        return document(state, features, **{"webui": LOOK, **sections})

    def import_from(self, folder: Path) -> None:
        """Let distributions in a folder be found."""
        sys.path.insert(0, str(folder))

    async def windows(self) -> AsyncIterator[tuple[Page, str]]:
        """Each has no cookies, and a name."""
        for dark in (False, True):
            for size, (width, height) in SIZES.items():
                page = await self.browser.page(width=width, height=height, dark=dark, language=self.language)
                yield page, f"{size}-{'dark' if dark else 'light'}"

    async def picture(self, page: Page, name: str, kind: str) -> None:
        """A whole page in the window of that name."""
        await page.picture(self.folder / f"{name}-{kind}.png", whole=True)


async def sign_in(page: Page, username: str, to: str, password: str = PASSWORD) -> None:
    """Fill in the sign-in page that is there."""
    await page.fill("#username", username)
    await page.fill("#password", password)
    await page.click("#sign-in", to=to)


def no_complaints(page: Page) -> None:
    """Raises AssertionError for what the browser found wrong."""
    if page.complaints:
        raise AssertionError(page.complaints)
