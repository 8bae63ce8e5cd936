"""Settings that make no sense stop the start: every one is named with what was found and what was expected."""

from pathlib import Path

import pytest

from greatseal.api.problems import StartProblem
from greatseal.testing.service import Kernel, document


def report(folder: Path, **sections) -> tuple[str, ...]:
    with pytest.raises(StartProblem) as refused:
        Kernel(document(folder, ["idp"], **sections))
    return refused.value.messages


def role(*permissions: str, name: str = "operator") -> dict[str, object]:
    return {"name": name, "permissions": list(permissions), "users": ["alice"]}


@pytest.mark.parametrize(
    ("section", "key", "value", "expected"),
    [
        *((section, key, value, ">= 1") for section, key in [("session", "ttl"), ("session", "idle_ttl")] for value in (0, -5)),
        *(
            ("tokens", f"{key}_ttl", value, ">= 1")
            for key in ("access_token", "id_token", "code", "par", "refresh_idle", "refresh_absolute", "consent")
            for value in (0, -5)
        ),
        ("tokens", "access_token_ttl", 10**15, "<= 315360000"),
        ("tokens", "refresh_grace_seconds", -1, ">= 0"),
        ("tokens", "refresh_grace_seconds", 11, "<= 10"),
        ("server", "auth_rate_limit", -1, ">= 0"),
    ],
)
def test_durations_and_limits_have_bounds(tmp_path, section, key, value, expected):
    assert report(tmp_path, **{section: {key: value}}) == (f"[{section}] {key}: expected an integer {expected}, found {value}",)


def test_r104_no_limit_and_the_smallest_durations_are_right(tmp_path):
    Kernel(
        document(tmp_path, ["idp"], server={"auth_rate_limit": 0}, session={"ttl": 1}, tokens={"code_ttl": 1, "refresh_grace_seconds": 0})
    )


def test_several_are_told_at_once(tmp_path):
    told = report(tmp_path, session={"ttl": 0, "idle_ttl": -1}, tokens={"code_ttl": 0}, webui={"logo_url": "x y"})

    assert [message.partition(":")[0] for message in told] == [
        "[session] ttl",
        "[session] idle_ttl",
        "[tokens] code_ttl",
        "[webui] logo_url",
    ]


@pytest.mark.parametrize(
    "url",
    [
        "https://a; script-src *",
        "https://a;script-src",
        "https://a,b/logo.svg",
        "https://a/logo svg",
        "https://a/'logo'",
        'https://a/"logo"',
        "https://a/\nlogo",
        "https://a/\u00e4",
        "https://*/logo.svg",
        "https://user@a/logo.svg",
        "https://",
        "https:///logo.svg",
        "https://a:x/logo.svg",
        "//a/logo.svg",
        "/\\a/logo.svg",
        "javascript:alert(1)",
        "data:text/html,x",
        "data:image/svg+xml,<svg/>",
        "logo.svg",
        "",
    ],
)
def test_a_logo_that_would_write_into_the_policy_of_the_pages_is_refused(tmp_path, url):
    (message,) = report(tmp_path, webui={"logo_url": url})

    assert message.startswith(f"[webui] logo_url: {url!r}: expected https://host/path or /path")


@pytest.mark.parametrize(
    "url",
    [
        "/logo.svg",
        "https://cdn.example/logo.svg",
        "https://cdn.example:8443/a%20b.svg?v=1&x=(2)#top",
        "http://[::1]:80/l",
        "https://a",
        "data:image/png;base64,iVBO+/=",
    ],
)
def test_a_url_or_a_path_of_ours_is_a_logo(tmp_path, url):
    Kernel(document(tmp_path, ["idp"], webui={"logo_url": url}))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("clients:wirte", "did you mean 'clients:write'?"),
        ("CLIENTS:READ", "did you mean 'clients:read'?"),
        ("client:*", "did you mean 'clients:*'?"),
        ("clients", "did you mean 'clients:*'?"),
        ("nonsense", "expected *, <resource>:* or one of audit:read, clients:read, "),
        ("", "expected *, <resource>:* or one of audit:read, clients:read, "),
    ],
)
def test_idp_344_a_permission_that_no_plugin_declares_stops_the_start(tmp_path, name, hint):
    (message,) = report(tmp_path, rbac={"role": [role("clients:read", name)]})

    assert message.startswith(f"[[rbac.role]] 'operator': permissions: no enabled plugin knows {name!r}; {hint}")


def test_every_wrong_permission_of_every_role_is_told(tmp_path):
    told = report(tmp_path, rbac={"role": [role("audit:raed", "keys:rotat"), role("*"), role("users:*", "users:wriet", name="desk")]})

    assert [message.partition(" knows ")[2].partition(";")[0] for message in told] == ["'audit:raed'", "'keys:rotat'", "'users:wriet'"]
    assert "[[rbac.role]] 'desk'" in told[2]


def test_permissions_of_other_plugins_can_be_granted(tmp_path, monkeypatch):
    from greatseal.testing.distributions import install

    monkeypatch.syspath_prepend(tmp_path)
    paint = install(tmp_path, "greatseal-paint", PAINT)

    Kernel(document(tmp_path, ["idp", paint], rbac={"role": [role("paint:mix"), role("paint:*")]}))


PAINT = """
from greatseal import hookimpl
from greatseal.api.declarations import PermissionName


class Plugin:
    @hookimpl
    def permissions(self):
        return [PermissionName("paint:mix", "Mix paint.")]
"""


async def test_an_identity_provider_without_people_says_so_at_the_start(start_service, capsys):
    await start_service("idp")

    told = capsys.readouterr().out
    assert "nobody can sign in here: enable a plugin" in told
    assert "no directory knows any people" in told
