"""Pages as replies: templates with everything escaped, and the headers that keep them ours (RFC 9700 s4.16)."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined

from greatseal.api.http import Call, Reply
from greatseal.api.pages import STYLE_PATH
from greatseal.api.problems import Problem
from greatseal.host import Host
from greatseal_idp.pages.forms import Headers, origin_of
from greatseal_idp.pages.return_to import ACCOUNT
from greatseal_idp.settings import WebUi

SUBMIT = "document.forms[0].submit()"
"""The one script: it sends the form of a form_post response (OAuth 2.0 Form Post Response Mode)."""
_SUBMIT_HASH = b64encode(hashlib.sha256(SUBMIT.encode()).digest()).decode()

PROTECTED: Headers = (
    ("Cache-Control", "no-store"),
    ("Pragma", "no-cache"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)
NOTHING_POLICY = ("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")

TITLES = {
    400: "This request cannot be carried out",
    401: "You are not signed in",
    403: "You may not do this",
    404: "This is not here any more",
    409: "This has changed in the meantime",
    429: "Too many attempts",
    503: "Part of the service cannot be reached",
}


class Pages:
    """The pages of the identity provider."""

    def __init__(self, host: Host) -> None:
        look = host.settings(WebUi)
        self.prefix = urlsplit(host.issuer).path
        """What stands before every path of ours where the issuer has a path."""
        self.display_name = look.display_name or urlsplit(host.issuer).hostname or host.issuer
        self._images = _images(look.logo_url)
        self._templates = Environment(
            loader=PackageLoader("greatseal_idp"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters.update(day_and_time=day_and_time, sentence=sentence)
        self._templates.globals.update(
            display_name=self.display_name,
            logo_url=look.logo_url,
            theme=look.default_theme,
            prefix=self.prefix,
            account=ACCOUNT,
            style_url=self.prefix + STYLE_PATH,
            submit=SUBMIT,
        )

    def page(
        self,
        name: str,
        *,
        status: int = 200,
        form_targets: Iterable[str] = (),
        script: bool = False,
        headers: Headers = (),
        **values: object,
    ) -> Reply:
        """The template ``name``.html with ``values``. Its forms go to this origin and to ``form_targets`` (CSP sources)."""
        body = self._templates.get_template(f"{name}.html").render(values)
        policy = self._policy(form_targets, script=script)
        return Reply(
            status=status,
            body=body.encode("utf-8", "replace"),
            content_type="text/html; charset=utf-8",
            headers=(*PROTECTED, ("Content-Security-Policy", policy), *headers),
        )

    def refusal(self, call: Call, problem: Problem) -> Reply:
        """A refusal for whoever asked: a page for a browser, JSON for a program."""
        headers = tuple(problem.headers.items())
        if wants_html(call):
            title = TITLES.get(problem.status, "Something went wrong")
            return self.page("error", status=problem.status, headers=headers, title=title, problem=problem)
        body = {**problem.members, "error": problem.error, "error_description": problem.detail}
        return Reply.json(body, status=problem.status).with_headers(*PROTECTED, NOTHING_POLICY, *headers)

    def see_other(self, path: str, *, status: int = 303, headers: Headers = ()) -> Reply:
        """A redirect to a path of ours."""
        return Reply(status=status, headers=(*PROTECTED, NOTHING_POLICY, ("Location", self.prefix + path), *headers))

    def _policy(self, form_targets: Iterable[str], *, script: bool) -> str:
        actions = " ".join(dict.fromkeys(("'self'", *form_targets)))
        parts = ["default-src 'none'", "style-src 'self'", f"img-src {self._images}", f"form-action {actions}"]
        if script:
            parts.append(f"script-src 'sha256-{_SUBMIT_HASH}'")
        return "; ".join((*parts, "base-uri 'none'", "frame-ancestors 'none'"))


def wants_html(call: Call) -> bool:
    """Whether a browser asks: programs send no Accept, */* or a JSON type."""
    return "text/html" in call.headers.get("Accept", "").lower()


def form_sources(target: str) -> tuple[str, ...]:
    """The CSP sources that a form needs whose answer may lead to the redirect URI ``target``: its scheme.

    Not its host: browsers hold the whole chain of redirects behind a form to form-action, and many applications, brokers and
    authenticating proxies above all, go on from their redirect URI to another host.
    """
    return (f"{urlsplit(target).scheme}:",)


def day_and_time(moment: int) -> str:
    """A moment (microseconds) for people."""
    return datetime.fromtimestamp(moment / 1_000_000, UTC).strftime("%-d %B %Y, %H:%M UTC")


def sentence(text: str) -> str:
    """A detail of a refusal as a sentence; one that begins with the name of a parameter keeps it."""
    begin = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]
    return f"{begin}{text[1:]}{'' if text.endswith('.') else '.'}"


def _images(logo_url: str | None) -> str:
    if logo_url is None or logo_url.startswith("data:"):
        return "'none'" if logo_url is None else "data:"
    return origin_of(logo_url) if urlsplit(logo_url).netloc else "'self'"
