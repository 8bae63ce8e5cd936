"""Where a sign-in returns to: a path of this origin, and nothing that a browser could read as another place."""

import re
from urllib.parse import unquote, urlsplit

ACCOUNT = "/account"
"""The path of the account page."""
SIGN_IN = "/ui/auth/login"
"""The path of the sign-in page."""
STEP_UP = "/ui/auth/step-up"
"""The path of the page where a person who is signed in proves more."""
CHANGE = "/login/change-password"
"""The path of the page for a password that has expired."""
PASSWORD = f"{ACCOUNT}/password"
"""The path of the page where who is signed in changes their password."""
MAIL = f"{ACCOUNT}/mail"
"""The path of the page that confirms a mail address."""
FORGOT, RESET = "/login/forgot", "/login/reset"
"""The paths of the page for a forgotten password, and of the one behind the link in the mail."""
_URI_CHARACTERS = re.compile(r"[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]{1,8192}")


def safe_return_to(value: str | None, *, default: str) -> str:
    """``value`` when it is a path of this origin, with its query; else ``default``.

    The path begins with one slash and has no empty or dot segments, backslashes or control characters, also after percent-decoding:
    browsers and proxies read those in more than one way.
    """
    if value is None or not _URI_CHARACTERS.fullmatch(value) or not value.startswith("/"):
        return default
    path = unquote(value.partition("?")[0], errors="replace")
    inner = path[1:].removesuffix("/").split("/")
    plain = path.isprintable() and "\\" not in path and "%" not in path
    segments = path == "/" or not any(segment in {"", ".", ".."} for segment in inner)
    return value if plain and segments else default


def default_return_to(issuer: str) -> str:
    """The account page, under the path of the issuer."""
    return urlsplit(issuer).path + ACCOUNT
