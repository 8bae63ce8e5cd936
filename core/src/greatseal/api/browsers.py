"""What a program says of itself (RFC 9110 s10.1.5), in words for people: on the account page and in notices.

Anybody may say anything: it helps a person to know their own devices again, and proves nothing.
"""

import re

from greatseal.api.messages import Message, Text

__all__ = ["browser_of", "is_browser", "kept_browser"]

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
_SYSTEMS: tuple[tuple[str, Text], ...] = (
    ("Android", "Android"),
    ("iPhone", Message("an iPhone")),
    ("iPad", Message("an iPad")),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Macintosh", Message("a Mac")),
    ("Linux", "Linux"),
)
_ANY, _UNKNOWN = Message("Browser"), Message("Unknown program")
_PRODUCT = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,31}", re.ASCII)


def is_browser(user_agent: str | None) -> bool:
    """Whether it says what every browser says."""
    return user_agent is not None and user_agent.startswith("Mozilla/")


def browser_of(user_agent: str | None) -> Text:
    """Such as ``Firefox on Linux``; of what is no browser, the name that it gives itself."""
    agent = user_agent or ""
    if not is_browser(agent):
        product = _PRODUCT.match(agent)
        return _UNKNOWN if product is None else Message("Program %(name)s", {"name": product[0]})
    browser: Text = next((name for mark, name in _BROWSERS if mark in agent), _ANY)
    system = next((name for mark, name in _SYSTEMS if mark in agent), None)
    return browser if system is None else Message("%(browser)s on %(system)s", {"browser": browser, "system": system})


def kept_browser(words: str) -> Text:
    """What :func:`browser_of` said, from its words in English: for what keeps these, and nothing else that a program says of itself."""
    if (known := {str(one): one for one in (_ANY, _UNKNOWN)}.get(words)) is not None:
        return known
    name, _, on = words.partition(" on ")
    system = next((one for _, one in _SYSTEMS if str(one) == on), None)
    browser: Text = _ANY if name == str(_ANY) else name
    return words if system is None else Message("%(browser)s on %(system)s", {"browser": browser, "system": system})
