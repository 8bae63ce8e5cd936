"""The service PAGES, as another plugin uses it: the plugin of docs/tutorial/pages.md."""

import re
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from greatseal.api.problems import BadRequest
from greatseal.api.services import PAGES
from greatseal.testing.desk import hidden_fields

TUTORIAL = (Path(__file__).parents[3] / "docs/tutorial/pages.md").read_text()
HTML = {"Accept": "text/html"}
CALL: Any = SimpleNamespace(headers={})


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """The plugin ``guest``, installed."""
    ((template,), (code,)) = (
        re.findall(rf"^```{language}\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE) for language in ("html", "python")
    )
    package = tmp_path / "site/greatseal_guest"
    (package / "templates").mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    (package / "templates/guest.html").write_text(template)
    meta = tmp_path / "site/greatseal_guest-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: greatseal-guest\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text("[greatseal.plugins]\nguest = greatseal_guest:Plugin\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    sys.modules.pop("greatseal_guest", None)
    return "guest"


@pytest.fixture
async def desk(open_idp, guest):
    return await open_idp(guest)


async def test_a_plugin_shows_a_page_in_the_look_of_the_service(desk):
    page = await desk.get("/guest?name=%3Cb%3E", headers=HTML)

    assert page.status == 200
    assert '<link rel="stylesheet" href="/assets/greatseal-' in page.text
    assert 'value="&lt;b&gt;"' in page.text
    assert page.headers["X-Frame-Options"] == "DENY"
    policy = page.headers["Content-Security-Policy"]
    assert policy == ("default-src 'none'; style-src 'self'; img-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
    assert page.headers["Set-Cookie"].startswith("greatseal_form=")


async def test_its_forms_come_from_its_pages_alone(desk):
    page = await desk.get("/guest", headers=HTML)
    cookie = page.headers["Set-Cookie"].partition(";")[0]
    form = {**hidden_fields(page), "name": "Olga"}

    good = await desk.post("/guest", data=form, cookie=cookie)
    bad = [
        await desk.post("/guest", data=form),
        await desk.post("/guest", data={**form, "form_token": "x"}, cookie=cookie),
        await desk.post("/guest", data=form, cookie=cookie, headers={"Origin": "https://evil.example"}),
    ]

    assert (good.status, good.location) == (303, "/guest")
    assert [answer.outcome for answer in bad] == [(403, "csrf")] * 3


async def test_the_kernel_has_the_service_say_a_refusal(desk):
    page = await desk.get("/guest", headers=HTML)
    cookie = page.headers["Set-Cookie"].partition(";")[0]
    form = hidden_fields(page)

    shown = await desk.post("/guest", data=form, cookie=cookie, headers=HTML)
    told = await desk.post("/guest", data=form, cookie=cookie)
    other = await desk.ask("DELETE", "/guest", headers=HTML)

    assert (shown.status, '<p role="alert">Say who your guest is.</p>' in shown.text) == (400, True)
    assert "Set-Cookie" not in shown.headers
    assert told.json == {"error": "invalid_request", "error_description": "say who your guest is"}
    assert (other.status, "<h1>This page does not take that request</h1>" in other.text) == (405, True)


async def test_a_page_runs_the_script_that_it_is_given_and_no_other(desk):
    pages = desk.service.host("guest").service(PAGES)

    reply = pages.page(CALL, "error.html", script="let a = 1 < 2 && '\"'", title="x", leaves=False, problem=BadRequest("y"))

    (policy,) = [value for name, value in reply.headers if name == "Content-Security-Policy"]
    digest = b64encode(sha256(b"let a = 1 < 2 && '\"'").digest()).decode()
    assert f"; script-src 'sha256-{digest}'; connect-src 'self';" in policy
    assert b"<script>let a = 1 < 2 && '\"'</script>" in reply.body


@pytest.mark.parametrize("script", ["'</script>'", "x = '<!--'"])
async def test_a_script_that_would_end_early_is_refused(desk, script):
    with pytest.raises(ValueError, match="which would end it"):
        desk.service.host("guest").service(PAGES).page(CALL, "error.html", script=script)


@pytest.mark.parametrize(
    "template", ["greatseal_guest/other.html", "no_such_package/a.html", "other.html", "greatseal_guest/../__init__.py"]
)
async def test_a_template_that_is_not_there_is_an_error_with_its_name(desk, template):
    with pytest.raises(LookupError, match="no_such_package" if "no_such" in template else re.escape(template.rpartition("/")[2])):
        desk.service.host("guest").service(PAGES).page(CALL, template)
