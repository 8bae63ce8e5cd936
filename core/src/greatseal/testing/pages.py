"""PAGES for unit tests."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from greatseal.api.http import Call, Parameters, Reply
from greatseal.api.identity import Headers
from greatseal.api.moments import day_and_time
from greatseal.api.problems import Problem
from greatseal.http.csrf import ForeignOrigin, refuse_foreign

if TYPE_CHECKING:
    from jinja2 import Environment

    from greatseal.api.authorization import Wanted

__all__ = ["FakePages"]

BASE = """<title>{% block title %}{% endblock %}</title>{% block main %}{% endblock %}{% block footer %}{% endblock %}
{% for path in scripts %}<script src="{{ prefix }}{{ path }}"></script>{% endfor %}
{% if script %}<script>{{ script | safe }}</script>{% endif %}"""


class FakePages:
    """PAGES (:class:`greatseal.api.pages.Pages`) without a look: templates are those of their packages, under a ``base.html`` of blocks.

    ``shown`` has the values of each page by its template. The form token is ``token``, in every browser; the issuer's path is ``prefix``.
    Needs jinja2, as every plugin with templates does.
    """

    token = "a-token-of-forms"  # noqa: S105

    def __init__(self, *, prefix: str = "", origin: str = "https://issuer.example") -> None:
        self.prefix = prefix
        self.origin = origin
        self.shown: dict[str, Mapping[str, object]] = {}

    def page(
        self,
        call: Call,  # noqa: ARG002  every browser has the same token
        template: str,
        *,
        status: int = 200,
        headers: Headers = (),
        form_targets: Iterable[str] = (),
        frame_sources: Iterable[str] = (),
        wanted: "Wanted | None" = None,
        script: str | None = None,
        scripts: Iterable[str] = (),
        languages: Iterable[str] = (),  # noqa: ARG002  all is English
        **values: object,
    ) -> Reply:
        """As the contract says; of the headers, Content-Security-Policy alone."""
        self.shown[template] = values
        body = self._templates.get_template(template).render(
            **values, wanted=wanted, form_token=self.token, script=script, scripts=tuple(scripts), prefix=self.prefix
        )
        policy = " ".join(
            (
                "default-src 'none'; form-action 'self'",
                *form_targets,
                "; frame-src 'none'",
                *frame_sources,
                "; img-src 'none'",
                *(wanted.image_sources if wanted else ()),
            )
        )
        reply = Reply(status=status, body=body.encode(), content_type="text/html; charset=utf-8")
        return reply.with_headers(("Content-Security-Policy", policy), *headers)

    def see_other(self, path: str, *, status: int = 303, headers: Headers = ()) -> Reply:
        """As the contract says."""
        return Reply(status=status, headers=(("Location", self.prefix + path), *headers))

    def step_up(self, return_to: str) -> Reply:
        """Leads to the page where one proves more."""
        return self.see_other(f"/ui/auth/step-up?return_to={return_to}")

    def sign_in(self, return_to: str) -> Reply:
        """To ``/sign-in``."""
        return self.see_other(f"/sign-in?return_to={quote(self.prefix + return_to, safe='')}")

    def form_token(self, call: Call) -> tuple[str, Headers]:  # noqa: ARG002  as above
        """The same one for everybody."""
        return self.token, (("Set-Cookie", "greatseal_form=test; Path=/; HttpOnly; SameSite=Lax"),)

    def check_form(self, call: Call, form: Parameters) -> None:
        """As the contract says; no form is ever too old."""
        refuse_foreign(
            origin=call.headers.get("Origin"), fetch_site=call.headers.get("Sec-Fetch-Site"), own_origins=frozenset({self.origin})
        )
        if form.get("form_token") != self.token:
            raise ForeignOrigin("the form is of no page of ours")

    def refusal(self, problem: Problem, headers: Mapping[str, str]) -> Reply:
        """The words of the problem."""
        if "text/html" in headers.get("Accept", ""):
            return Reply.text(problem.detail, status=problem.status, content_type="text/html; charset=utf-8")
        return Reply.json({"error": problem.error, "error_description": problem.detail}, status=problem.status)

    @cached_property
    def _templates(self) -> "Environment":
        from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined, TemplateNotFound

        class Packages(BaseLoader):
            def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
                package, slash, file = template.partition("/")
                if not slash and template == "base.html":
                    return BASE, None, None
                try:
                    return PackageLoader(package).get_source(environment, file)
                except (ImportError, ValueError) as error:
                    raise TemplateNotFound(template, f"the package {package} has no folder templates: {error}") from None

        environment = Environment(
            loader=Packages(),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.i18n"],
        )
        translations: Any = environment
        translations.install_null_translations(newstyle=True)
        environment.filters.update(day_and_time=day_and_time, sentence=str, known=str, text=str)
        return environment
