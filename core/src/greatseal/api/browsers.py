"""What a program says of itself (RFC 9110 s10.1.5), in words for people: on the account page and in notices.

Anybody may say anything: it helps a person to know their own devices again, and proves nothing.
"""

import re

__all__ = ["browser_of", "is_browser"]

_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
"""By what a browser is known: the first that fits, since most of them name those before them too."""
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "an iPhone"),
    ("iPad", "an iPad"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Macintosh", "a Mac"),
    ("Linux", "Linux"),
)
_PRODUCT = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,31}", re.ASCII)


def is_browser(user_agent: str | None) -> bool:
    """Whether it says what every browser says."""
    return user_agent is not None and user_agent.startswith("Mozilla/")


def browser_of(user_agent: str | None) -> str:
    """Such as ``Firefox on Linux``; of what is no browser, the name that it gives itself."""
    agent = user_agent or ""
    if not is_browser(agent):
        product = _PRODUCT.match(agent)
        return "Unknown program" if product is None else f"Program {product[0]}"
    browser = next((name for mark, name in _BROWSERS if mark in agent), "Browser")
    system = next((name for mark, name in _SYSTEMS if mark in agent), None)
    return browser if system is None else f"{browser} on {system}"
