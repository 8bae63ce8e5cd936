"""GET / for people: what runs here and where to go from here. Plain, without scripts; every service says its own part."""

from collections.abc import Iterable, Sequence
from html import escape
from string import Template
from urllib.parse import urlsplit

from greatseal.api.http import Call, Reply, Route
from greatseal.api.languages import Language, Languages
from greatseal.api.look import Style
from greatseal.api.messages import Message
from greatseal.api.pages import StartLine, StartPart

_PAGE = Template(
    '<!DOCTYPE html>\n<html lang="$lang"$theme>\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>$name</title>\n'
    '<link rel="icon" href="data:,">\n<link rel="stylesheet" href="$style">\n</head>\n<body class="wide">\n'
    '<main id="main">\n<h1>$name</h1>\n<p class="lead">$lead</p>\n$parts</main>\n</body>\n</html>\n'
)
_POLICY = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


RUNS = Message("This service runs Greatseal.")
NOTHING = Message("This service runs Greatseal. It has nothing to show here.")


class StartPage:
    """The page, and the style sheet of all pages. ``name`` is what the service calls itself."""

    def __init__(
        self, parts: Sequence[StartPart], *, base_url: str, name: str | None, theme: str | None, languages: Languages, style: Style
    ) -> None:
        self._parts = tuple(parts)
        self._languages = languages
        self._style = style
        self._prefix = urlsplit(base_url).path
        self._name = name or urlsplit(base_url).hostname or base_url
        self._theme = f' data-theme="{theme}"' if theme else ""

    def routes(self) -> list[Route]:
        """Both routes."""
        return [
            Route("GET", "/", self._page, style="page", summary="What runs here, for people."),
            Route("GET", self._style.path, self._sheet, style="page", summary="The style sheet of the pages; its name changes with it."),
        ]

    async def _page(self, call: Call) -> Reply:
        language = self._languages.of(call.headers)
        written = [(language.text(part.title), lines) for part in self._parts if (lines := part.lines())]
        lead = language.text(RUNS if written else NOTHING)
        text = _PAGE.substitute(
            lang=language.tag + ('" dir="rtl' if language.rtl else ""),
            theme=self._theme,
            name=escape(self._name),
            style=self._prefix + self._style.path,
            lead=escape(lead),
            parts="".join(
                f"<section>\n<h2>{escape(title)}</h2>\n{''.join(self._lines(lines, language))}</section>\n" for title, lines in written
            ),
        )
        headers = (("Content-Security-Policy", _POLICY), ("Vary", "Accept-Language"))
        return Reply(body=text.encode("utf-8", "replace"), content_type="text/html; charset=utf-8", headers=headers)

    async def _sheet(self, _call: Call) -> Reply:
        headers = (("Cache-Control", "public, max-age=31536000, immutable"), ("Cross-Origin-Resource-Policy", "same-origin"))
        return Reply(body=self._style.sheet, content_type="text/css; charset=utf-8", headers=headers)

    def _lines(self, lines: Iterable[StartLine], language: Language) -> Iterable[str]:
        for line in lines:
            words = escape(language.text(line.words))
            if line.link is not None:
                target = self._prefix + line.link if line.link.startswith("/") else line.link
                words = f'<a href="{escape(target)}">{words}</a>'
            yield f"<p>{words}</p>\n"
            if line.value is not None:
                yield f"<pre><code>{escape(line.value)}</code></pre>\n"
