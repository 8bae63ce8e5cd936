"""What a profile asks at finalization: identifier patterns and the authorization hook (rulings R60, R61; security row S143)."""

import asyncio
import json
import os
import time

import pytest

from greatseal.api.acme import Identifier, Unauthorized
from greatseal.api.issuance import Finalization, FinalizeCheck, ProvenIdentifier
from greatseal.api.problems import Internal


async def check(desk, name: str, *names: str, profile: str = "p", order_id: str = "order-1") -> None:
    checks = desk.service.host("ca").components(FinalizeCheck)
    identifiers = tuple(Identifier(*one.split("/")) if "/" in one else Identifier("dns", one) for one in names)
    assert checks[name].phase == "authorize"
    request = desk.request("a.example.com", profile=profile)
    await checks[name].check(
        Finalization(
            order_id=order_id,
            profile=request.profile,
            identifiers=tuple(ProvenIdentifier(identifier=one, validated_by="http-01") for one in identifiers),
            account=request.account,
            csr=None,
            ca_id=request.ca_id,
            payload={},
        )
    )


KEYS = {"identifier-patterns": "allowed_identifier_patterns", "auth-hook": "auth_hook"}
"""The key of the profile that each check tells the client."""


async def denied(desk, name: str, *names: str, **more) -> str:
    with pytest.raises(Unauthorized) as refused:
        await check(desk, name, *names, **more)
    assert refused.value.status == 401
    assert refused.value.detail.startswith(f"{KEYS[name]}: ")
    return refused.value.detail


# ---- Patterns


PATTERNS = "allowed_identifier_patterns"


@pytest.fixture
def with_patterns(open_desk):
    async def start(*patterns: str, match: str = "all"):
        return await open_desk(profiles={"p": {PATTERNS: list(patterns), "identifier_match": match}})

    return start


async def test_ca_045_r61_a_pattern_matches_the_value_or_type_and_value_in_full(with_patterns):
    desk = await with_patterns(r"[a-z]+\.example\.com", r"ip:192\.0\.2\.[0-9]+")

    await check(desk, "identifier-patterns", "a.example.com", "ip/192.0.2.1")
    await denied(desk, "identifier-patterns", "a.example.com.evil.example")
    await denied(desk, "identifier-patterns", "b1.example.com")
    await denied(desk, "identifier-patterns", "dns/192.0.2.1")


async def test_ca_045_r61_every_identifier_needs_a_pattern(with_patterns):
    desk = await with_patterns(r"a\.example\.com")

    assert (
        await denied(desk, "identifier-patterns", "a.example.com", "b.example.com") == f"{PATTERNS}: profile p is not for dns:b.example.com"
    )


async def test_r61_any_asks_for_one_identifier_alone(with_patterns):
    desk = await with_patterns(r"a\.example\.com", match="any")

    await check(desk, "identifier-patterns", "a.example.com", "b.example.com")
    await denied(desk, "identifier-patterns", "b.example.com")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [(r"(([a-z0-9]+-?)+[.])+corp[.]test", "a" * 60), (r"(?:[a-z]|[a-z]{2})+[.]corp[.]test", f"{'x' * 60}.corp.test.test")],
)
async def test_a_pattern_that_takes_for_ever_refuses_and_lets_the_service_live(with_patterns, pattern, name):
    desk = await with_patterns(pattern)

    began = time.monotonic()
    assert await denied(desk, "identifier-patterns", *[name] * 100) == f"{PATTERNS}: profile p is not for dns:{name}"
    assert time.monotonic() - began < 5


async def test_a_pattern_that_takes_too_long_is_named_in_the_log(with_patterns, capfd):
    desk = await with_patterns(r"a\.example", r"(?:[a-z]|[a-z]{2})+\.corp\.test", match="any")

    await check(desk, "identifier-patterns", f"{'x' * 60}.corp.test.test", "a.example")
    said = [line for line in "".join(capfd.readouterr()).splitlines() if "too long" in line]

    assert len(said) == 1
    assert "(?:[a-z]|[a-z]{2})+" in said[0]
    assert "profile" in said[0]
    assert "xxxx" not in said[0]


async def test_the_loop_runs_between_the_identifiers(with_patterns):
    desk = await with_patterns(r"(?:[a-z]|[a-z]{2})+\.corp\.test", match="any")
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    meanwhile = asyncio.create_task(others())
    await denied(desk, "identifier-patterns", *[f"{'x' * 60}.corp.test.test"] * 5)
    meanwhile.cancel()

    assert turns >= 5


async def test_wildcards_are_matched_with_their_prefix(with_patterns):
    desk = await with_patterns(r"dns:[^*]*\.example\.com")

    await check(desk, "identifier-patterns", "a.example.com")
    await denied(desk, "identifier-patterns", "*.example.com")


async def test_a_profile_without_patterns_allows_any_identifier(open_desk, tmp_path):
    (hook := tmp_path / "hook").touch(0o755)  # not run: nothing could execute it
    desk = await open_desk(profiles={"p": {}, "other": {PATTERNS: ["other.example"], "auth_hook": str(hook)}})

    await check(desk, "identifier-patterns", "anything.example")
    await check(desk, "auth-hook", "anything.example")


async def test_a_check_that_no_profile_needs_is_not_made(desk):
    assert list(desk.service.host("ca").components(FinalizeCheck)) == ["blocked-keys"]


# ---- The hook


@pytest.fixture
def with_hook(open_desk, tmp_path):
    async def start(script: str, timeout: float = 30.0):
        hook = tmp_path / "hook"
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)
        return await open_desk(profiles={"p": {"auth_hook": str(hook), "auth_hook_timeout_secs": timeout}})

    return start


async def test_ca_046_the_hook_gets_the_order_and_permits_with_exit_code_0(with_hook, tmp_path):
    seen = tmp_path / "seen.json"
    desk = await with_hook(f"cat > {seen}")
    await check(desk, "auth-hook", "a.example.com", "ip/192.0.2.1")

    identifiers = [{"type": "dns", "value": "a.example.com"}, {"type": "ip", "value": "192.0.2.1"}]
    assert json.loads(seen.read_bytes()) == {"account_id": "account-1", "profile": "p", "identifiers": identifiers}


async def test_ca_046_another_exit_code_denies_with_the_trimmed_output(with_hook):
    desk = await with_hook("echo; echo '  not on the'; echo ' list  '; echo ignored >&2; exit 3")

    assert await denied(desk, "auth-hook", "a.example.com") == "auth_hook: not on the list"


async def test_a_silent_denial_says_so(with_hook):
    assert await denied(await with_hook("exit 1"), "auth-hook", "a.example.com") == "auth_hook: refused without a reason"


async def test_s143_a_hook_that_hangs_denies_at_its_limit_and_is_gone(with_hook, tmp_path):
    desk = await with_hook(f"echo $$ > {tmp_path}/pid; sleep 60 & wait", timeout=0.5)

    began = time.monotonic()
    assert await denied(desk, "auth-hook", "a.example.com") == "auth_hook: no answer within 0.5 seconds"
    assert time.monotonic() - began < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_s143_much_output_is_shortened(with_hook):
    desk = await with_hook("yes 'no\001 way' | head -c 3000000; exit 1")
    detail = await denied(desk, "auth-hook", "a.example.com")

    assert len(detail) <= 320
    assert detail.isprintable()


async def test_s143_no_shell_reads_the_names(with_hook, tmp_path):
    seen = tmp_path / "seen.json"
    desk = await with_hook(f"[ $# = 0 ] && cat > {seen}")
    await check(desk, "auth-hook", "$(id >&1).example;`id`|id")

    assert json.loads(seen.read_bytes())["identifiers"] == [{"type": "dns", "value": "$(id >&1).example;`id`|id"}]


async def test_s143_the_environment_is_empty(with_hook, tmp_path, monkeypatch):
    monkeypatch.setenv("MARKER_SECRET", "x")
    desk = await with_hook(f"/usr/bin/env > {tmp_path}/environment")
    await check(desk, "auth-hook", "a.example.com")

    assert "MARKER_SECRET" not in (tmp_path / "environment").read_text()


async def test_a_hook_that_cannot_be_run_refuses_without_telling_its_path(with_hook, tmp_path):
    desk = await with_hook("exit 0")
    (tmp_path / "hook").unlink()

    with pytest.raises(Internal) as refused:
        await check(desk, "auth-hook", "a.example.com")
    assert refused.value.detail == ""
    assert "hook" in refused.value.cause
