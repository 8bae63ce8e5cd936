"""The HTML page of a refusal: plain, accessible, complete in itself. Nothing of the request is in it but what a Problem says."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from string import Template

from greatseal.api.languages import Language
from greatseal.api.messages import Message, Text
from greatseal.api.pages import title_of
from greatseal.api.problems import Problem

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:1.125rem/1.6 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1.5rem}"
    "h1{font-size:1.75rem;line-height:1.25}"
    "p.id{opacity:.75;font-size:.9rem;overflow-wrap:anywhere}"
)

_PAGE = Template(
    '<!DOCTYPE html>\n<html lang="$lang"$direction>\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="robots" content="noindex">\n'
    "<title>$title</title>\n<style>$style</style>\n</head>\n"
    '<body>\n<main>\n<h1>$title</h1>\n<p role="alert"$english>$detail</p>\n<p class="id">$code</p>\n</main>\n</body>\n</html>\n'
)

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Of the page of a refusal."""


def error_page(problem: Problem, detail: Text, language: Language | None = None) -> bytes:
    """The page as UTF-8. What is for developers is in English in every language."""
    text = str if language is None else language.text
    foreign = language is not None and language.tag != "en" and isinstance(detail, str)
    code = Message("Error %(status)d: %(error)s", {"status": problem.status, "error": problem.error})
    parts = {
        "lang": "en" if language is None else language.tag,
        "direction": ' dir="rtl"' if language is not None and language.rtl else "",
        "title": escape(text(title_of(problem.status))),
        "english": ' lang="en" dir="ltr"' if foreign else "",
        "detail": escape(text(detail)),
        "code": escape(text(code)),
        "style": _STYLE,
    }
    return _PAGE.substitute(parts).encode("utf-8", "replace")
