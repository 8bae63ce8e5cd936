"""The page as a reply: by the service PAGES in its look, or without it, where the CA runs alone, in the look of the start page."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from greatseal.api.http import Call, Reply
from greatseal.api.languages import Language
from greatseal.api.look import style_of
from greatseal.api.services import PAGES
from greatseal.host import Host
from greatseal_mtc.page.settings import Look

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Renderer"]

PACKAGE, TEMPLATE, PLAIN = "greatseal_mtc", "greatseal_mtc/log.html", "plain.html"
_POLICY = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)


class Renderer:
    """Makes pages of values, which are in the language of the page already; everything is escaped."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pages = host.optional_service(PAGES)
        self._look = host.settings(Look)
        self._environments: dict[str, Environment] = {}

    def language(self, call: Call) -> Language:
        """That of the page, by the browser."""
        return self._host.languages.of(call.headers)

    def page(self, call: Call, *, status: int = 200, **values: Any) -> Reply:
        """The page of a log."""
        if self._pages is not None:
            return self._pages.page(call, TEMPLATE, status=status, **values)
        language = self.language(call)
        environment = self._environments.get(language.tag)
        if environment is None:
            environment = self._environments[language.tag] = self._environment(language)
        body = environment.get_template(TEMPLATE).render(values).encode("utf-8", "replace")
        return Reply(status=status, body=body, content_type="text/html; charset=utf-8", headers=_HEADERS)

    def _environment(self, language: Language) -> "Environment":
        from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined

        own = PackageLoader(PACKAGE)

        class Templates(BaseLoader):
            """Those of this package; ``base.html`` is the plain one."""

            def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
                return own.get_source(environment, PLAIN if template == "base.html" else template.rpartition("/")[2])

        made = Environment(
            loader=Templates(),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.i18n"],
        )
        made.policies["ext.i18n.trimmed"] = True
        install: Any = made
        install.install_gettext_callables(language.pattern, language.pattern, newstyle=True)
        prefix = urlsplit(self._host.base_url).path
        name = self._look.display_name or urlsplit(self._host.base_url).hostname or self._host.base_url
        style = prefix + style_of(self._look.accent_color).path
        made.globals.update(lang=language.tag, rtl=language.rtl, display_name=name, theme=self._look.default_theme, style_url=style)
        return made
