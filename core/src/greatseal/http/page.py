"""The HTML page of a refusal: plain, accessible, complete in itself. Nothing of the request is in it but what a Problem says."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from string import Template

from greatseal.api.pages import title_of

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:1.125rem/1.6 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1.5rem}"
    "h1{font-size:1.75rem;line-height:1.25}"
    "p.id{opacity:.75;font-size:.9rem;overflow-wrap:anywhere}"
)

_PAGE = Template(
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="robots" content="noindex">\n'
    "<title>$title</title>\n<style>$style</style>\n</head>\n"
    '<body>\n<main>\n<h1>$title</h1>\n<p role="alert">$detail</p>\n<p class="id">Error $status: $error</p>\n</main>\n</body>\n</html>\n'
)

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Of the page of a refusal."""


def error_page(*, status: int, error: str, detail: str) -> bytes:
    """The page as UTF-8."""
    parts = {"title": title_of(status), "detail": escape(detail), "error": escape(error), "status": str(status), "style": _STYLE}
    return _PAGE.substitute(parts).encode("utf-8", "replace")
