"""Pages as replies (service PAGES): templates with everything escaped, and the headers that keep them ours (RFC 9700 s4.16)."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from urllib.parse import quote, urlsplit

from greatseal.api.authorization import Wanted
from greatseal.api.http import Call, Parameters, Reply
from greatseal.api.identity import AccountRefused, Headers
from greatseal.api.languages import Language
from greatseal.api.look import style_of
from greatseal.api.pages import title_of
from greatseal.api.problems import Problem
from greatseal.host import Host
from greatseal_idp.cookie import SessionCookie
from greatseal_idp.pages.forms import Forms, origin_of
from greatseal_idp.pages.return_to import ACCOUNT, SIGN_IN, STEP_UP
from greatseal_idp.pages.templates import Templates
from greatseal_idp.settings import WebUi, Words

PROTECTED: Headers = (
    ("Cache-Control", "no-store"),
    ("Pragma", "no-cache"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)
NOTHING_POLICY = ("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class _Token:
    """The token of a page's forms. The cookie goes out with the page when a form of it is there."""

    def __init__(self, forms: Forms, call: Call) -> None:
        self._forms = forms
        self._call = call
        self.headers: Headers = ()
        self._value = ""

    def __str__(self) -> str:
        if not self._value:
            self._value, self.headers = self._forms.token(self._call)
        return self._value


class Pages:
    """See :class:`greatseal.api.pages.Pages`."""

    def __init__(self, host: Host) -> None:
        look = host.settings(WebUi)
        self._forms = Forms(host)
        self._cookie = SessionCookie(host)
        self.prefix = urlsplit(host.issuer).path
        """What stands before every path of ours where the issuer has a path."""
        self.display_name = look.display_name or urlsplit(host.issuer).hostname or host.issuer
        self._images = tuple(dict.fromkeys((*_images(look.logo_url), *_images(look.logo_url_dark))))
        self._languages = host.languages
        self._templates = Templates(
            partial(_words, look),
            display_name=self.display_name,
            logo_url=look.logo_url,
            logo_url_dark=look.logo_url_dark if look.logo_url is not None else None,
            theme=look.default_theme,
            prefix=self.prefix,
            account=ACCOUNT,
            sign_in=SIGN_IN,
            style_url=self.prefix + style_of(look.accent_color).path,
        )

    def page(
        self,
        call: Call,
        template: str,
        *,
        status: int = 200,
        headers: Headers = (),
        form_targets: Iterable[str] = (),
        frame_sources: Iterable[str] = (),
        wanted: Wanted | None = None,
        script: str | None = None,
        scripts: Iterable[str] = (),
        languages: Iterable[str] = (),
        **values: object,
    ) -> Reply:
        language = self._languages.of(call.headers, languages)
        token, scripts = _Token(self._forms, call), tuple(scripts)
        policy = self._policy(form_targets, self._scripts(script, scripts), frame_sources, wanted.image_sources if wanted else ())
        body = self._templates.body(language, template, **values, wanted=wanted, form_token=token, script=script, scripts=scripts)
        return _html(status, body, policy, (*token.headers, *headers))

    def see_other(self, path: str, *, status: int = 303, headers: Headers = ()) -> Reply:
        return Reply(status=status, headers=(*PROTECTED, NOTHING_POLICY, ("Location", self.prefix + path), *headers))

    def sign_in(self, return_to: str) -> Reply:
        return self.see_other(f"{SIGN_IN}?return_to={quote(self.prefix + return_to, safe='')}")

    def step_up(self, return_to: str) -> Reply:
        return self.see_other(f"{STEP_UP}?return_to={quote(self.prefix + return_to, safe='')}")

    def form_token(self, call: Call) -> tuple[str, Headers]:
        return self._forms.token(call)

    def check_form(self, call: Call, form: Parameters) -> None:
        self._forms.check(call, form)

    def refusal(self, problem: Problem, headers: Mapping[str, str]) -> Reply:
        more = tuple(problem.headers.items())
        if is_html(headers.get("Accept", "")):
            title, language = title_of(problem.status), self._languages.of(headers)
            # A session is good for signing out when its person may use nothing else.
            leaves = isinstance(problem, AccountRefused) and self._cookie.value_in(headers.get("Cookie", "")) is not None
            body = self._templates.body(language, "error.html", title=title, problem=problem, leaves=leaves, script=None, scripts=())
            return _html(problem.status, body, self._policy((), ()), more)
        said = {**problem.members, "error": problem.error, "error_description": problem.detail}
        return Reply.json(said, status=problem.status).with_headers(*PROTECTED, NOTHING_POLICY, *more)

    def _scripts(self, script: str | None, paths: tuple[str, ...]) -> tuple[str, ...]:
        """The CSP sources of a page's scripts: what is in it by its hash, a file by its URL and no other of this origin."""
        own = () if script is None else (f"'sha256-{_hash(script)}'",)
        return (*own, *(f"{origin}{self.prefix}{path}" for path in paths for origin in sorted(self._forms.own_origins)))

    def _policy(
        self,
        form_targets: Iterable[str],
        scripts: tuple[str, ...],
        frame_sources: Iterable[str] = (),
        image_sources: Iterable[str] = (),
    ) -> str:
        actions = " ".join(dict.fromkeys(("'self'", *form_targets)))
        images = " ".join((*self._images, *image_sources)) or "'none'"
        parts = ["default-src 'none'", "style-src 'self'", f"img-src {images}", f"form-action {actions}"]
        if frames := " ".join(frame_sources):
            parts.append(f"frame-src {frames}")
        if scripts:
            parts += [f"script-src {' '.join(scripts)}", "connect-src 'self'"]
        return "; ".join((*parts, "base-uri 'none'", "frame-ancestors 'none'"))


def _html(status: int, body: bytes, policy: str, headers: Headers) -> Reply:
    guarded = (*PROTECTED, ("Content-Security-Policy", policy), *headers)
    return Reply(status=status, body=body, content_type="text/html; charset=utf-8", headers=guarded)


@lru_cache(64)
def _hash(script: str) -> str:
    if "</" in script or "<!--" in script:
        raise ValueError("a script of a page holds neither '</' nor '<!--', which would end it; write '<\\/' in its texts")
    return b64encode(hashlib.sha256(script.encode()).digest()).decode()


def wants_html(call: Call) -> bool:
    """Whether a browser asks."""
    return is_html(call.headers.get("Accept", ""))


def is_html(accept: str) -> bool:
    """Whether it is the Accept of a browser: programs send none, */* or a JSON type."""
    return "text/html" in accept.lower()


def form_sources(target: str) -> tuple[str, ...]:
    """The CSP sources that a form needs whose answer may lead to the redirect URI ``target``: its scheme.

    Not its host: browsers hold the whole chain of redirects behind a form to form-action, and many applications, brokers and
    authenticating proxies above all, go on from their redirect URI to another host.
    """
    return (f"{urlsplit(target).scheme}:",)


def _images(logo_url: str | None) -> tuple[str, ...]:
    if logo_url is None or logo_url.startswith("data:"):
        return () if logo_url is None else ("data:",)
    return (origin_of(logo_url),) if urlsplit(logo_url).netloc else ("'self'",)


def _words(look: WebUi, language: Language) -> Mapping[str, object]:
    """What the organisation says itself, in that language."""
    return {
        "sign_in_text": _said(look.sign_in_text, language.tag),
        "help_text": _said(look.help_text, language.tag),
        "links": [(_said(one.words, language.tag), one.url) for one in look.links],
    }


def _said(words: Words | None, tag: str) -> str | None:
    """The text of a language, else of a near one, else the first."""
    if words is None or isinstance(words, str):
        return words
    return words.get(tag) or words.get(tag.partition("-")[0]) or next(iter(words.values()))
