"""The page as a reply: by the service PAGES in its look, or without it, where the CA runs alone, in the look of the start page."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from greatseal.api.http import Call, Reply
from greatseal.api.look import style_of
from greatseal.api.services import PAGES
from greatseal.host import Host
from greatseal_mtc.page.settings import Look

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Renderer"]

TEMPLATE, PLAIN = "greatseal_mtc.page/log.html", "plain.html"
_POLICY = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)


class Renderer:
    """Makes pages of values; everything is escaped."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pages = host.optional_service(PAGES)
        self._look = host.settings(Look)

    def page(self, call: Call, *, status: int = 200, **values: Any) -> Reply:
        """The page of a log."""
        if self._pages is not None:
            return self._pages.page(call, TEMPLATE, status=status, **values)
        body = self._templates.get_template(TEMPLATE).render(values).encode("utf-8", "replace")
        return Reply(status=status, body=body, content_type="text/html; charset=utf-8", headers=_HEADERS)

    @cached_property
    def _templates(self) -> "Environment":
        from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined

        own = PackageLoader("greatseal_mtc.page")

        class Templates(BaseLoader):
            """Those of this package; ``base.html`` is the plain one."""

            def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
                return own.get_source(environment, PLAIN if template == "base.html" else template.rpartition("/")[2])

        made = Environment(loader=Templates(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        prefix = urlsplit(self._host.base_url).path
        name = self._look.display_name or urlsplit(self._host.base_url).hostname or self._host.base_url
        made.globals.update(display_name=name, theme=self._look.default_theme, style_url=prefix + style_of(self._look.accent_color).path)
        return made
