"""The helper processes: what hangs, crashes and ends costs its helper, and nothing else."""

import asyncio
import os
import signal
import sys

import pytest

from greatseal.api.declarations import Secret
from greatseal.api.identity import Authenticated, Denied, Password
from greatseal.api.problems import Unavailable
from greatseal.testing.logins import context_of
from greatseal_pam import pool
from greatseal_pam.password import PamChanger, PamPassword

RIGHT = Password(username="ann", password=Secret("wonderland"))


async def attempt(asked):
    return await PamPassword(asked).attempt(RIGHT, context_of())


async def told(fifo):
    """What a script writes into it; it is waited for."""
    return (await asyncio.to_thread(fifo.read_text)).split()


async def gone(pid):
    """Wait until that process ends."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    await ended.wait()
    loop.remove_reader(handle)
    os.close(handle)


def hanging(stack):
    """A stack that hangs in a script, which writes its own number and that of the helper."""
    pids = stack.folder / "pids"
    os.mkfifo(pids)
    line = stack.script("hang", f'echo "$$ $PPID" > {pids}; exec sleep 600')
    stack.say(auth=[line, f"required {stack.matrix}"])
    return pids


async def test_a_module_that_hangs_is_ended_with_what_it_started_and_the_next_one_is_heard(stack, ask):
    pids = hanging(stack)
    asked = ask(most=1, seconds=0.5)
    under_way = asyncio.create_task(attempt(asked))
    found = [int(pid) for pid in await told(pids)]

    with pytest.raises(Unavailable) as refused:
        await under_way

    assert "no answer within 0.5 s" in refused.value.cause
    for pid in found:
        await gone(pid)
    stack.say()
    assert isinstance(await attempt(asked), Authenticated)


async def test_a_module_that_hangs_holds_up_its_helper_alone(stack, ask):
    pids = hanging(stack)
    asked = ask(most=2)
    hung = asyncio.create_task(attempt(asked))
    await told(pids)
    stack.say()

    assert isinstance(await attempt(asked), Authenticated)
    assert not hung.done()
    hung.cancel()


@pytest.mark.parametrize("end", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
async def test_a_module_that_crashes_is_an_outage_and_no_crash_of_ours(stack, ask, end):
    stack.say(auth=[stack.script("crash", f"kill -{end.value} $PPID"), f"required {stack.matrix}"])
    asked = ask(most=1)

    with pytest.raises(Unavailable) as refused:
        await attempt(asked)

    assert end.name in refused.value.cause
    assert refused.value.headers["Retry-After"]
    stack.say()
    assert isinstance(await attempt(asked), Authenticated)


async def test_a_helper_that_is_killed_in_the_middle_of_a_change_leaves_one_password_or_the_other(stack, ask):
    stack.say(password=[f"required {stack.matrix}", stack.script("crash", "kill -KILL $PPID")])
    asked = ask(most=1)

    with pytest.raises(Unavailable) as refused:
        await PamChanger(asked).change("ann", Secret("wonderland"), Secret("looking-glass"), context_of())

    assert "the new one, or with the old one" in refused.value.detail
    stack.say()
    outcomes = []
    for password in ("wonderland", "looking-glass"):
        try:
            outcomes.append(await PamPassword(asked).attempt(Password(username="ann", password=Secret(password)), context_of()))
        except Denied:
            outcomes.append(None)
    assert outcomes.count(None) == 1


SERVICE = """
import asyncio, structlog, sys
from greatseal_pam.pool import Helpers

async def main():
    helpers = Helpers("test", most=1, seconds=600, log=structlog.get_logger())
    question = {"service": sys.argv[1], "folder": sys.argv[2], "user": "ann", "password": "x", "remote": "", "min_uid": None, "decoy": "x"}
    await helpers.ask({"ask": "authenticate", **question}, object)

asyncio.run(main())
"""


async def test_a_service_that_is_killed_takes_its_helpers_with_it_also_in_the_middle_of_a_conversation(stack):
    pids = hanging(stack)
    service = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVICE, str(stack.settings["service"]), str(stack.folder))
    found = [int(pid) for pid in await told(pids)]

    service.kill()
    await service.wait()

    for pid in found:
        await gone(pid)


async def test_a_helper_that_somebody_ends_between_two_sign_ins_is_replaced(stack, ask, helpers):
    asked = ask(most=1)
    await attempt(asked)
    (helper,) = asked._helpers._idle
    os.kill(helper._process.pid, signal.SIGKILL)
    await helper.gone()

    assert isinstance(await attempt(asked), Authenticated)


async def test_a_helper_serves_many_and_makes_room_in_the_end(stack, ask, monkeypatch):
    monkeypatch.setattr(pool, "CONVERSATIONS", 3)
    asked = ask(most=1)
    pids = []
    for _ in range(4):
        await attempt(asked)
        pids += [helper._process.pid for helper in asked._helpers._idle]

    assert len(pids) == 3  # two of the first, which is not kept after its third, and the second
    assert pids[0] == pids[1] != pids[2]
    await gone(pids[0])


async def test_who_goes_away_leaves_the_conversation_to_its_end(stack, ask):
    begun, go = stack.folder / "begun", stack.folder / "go"
    os.mkfifo(begun)
    os.mkfifo(go)
    stack.say(auth=[stack.script("wait", f"echo > {begun}; read line < {go}"), f"required {stack.matrix}"])
    asked = ask(most=1)
    left = asyncio.create_task(attempt(asked))
    await told(begun)
    (helper,) = asked._helpers._busy
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    with await asyncio.to_thread(go.open, "w") as pipe:
        pipe.write("\n")

    stack.say()
    assert isinstance(await attempt(asked), Authenticated)
    assert asked._helpers._idle == [helper]


async def test_no_more_than_a_few_wait(stack, ask, monkeypatch):
    monkeypatch.setattr(pool, "MAX_WAITING", 2)
    pids = hanging(stack)
    asked = ask(most=1)
    tasks = [asyncio.create_task(attempt(asked)) for _ in range(3)]
    await told(pids)

    with pytest.raises(Unavailable) as refused:
        await attempt(asked)

    assert "2 wait" in refused.value.cause
    for task in tasks:
        task.cancel()


async def test_nobody_waits_for_a_helper_for_ever(stack, ask):
    pids = hanging(stack)
    asked = ask(most=1, seconds=0.3)
    first = asyncio.create_task(attempt(asked))
    await told(pids)

    refused = await asyncio.gather(first, *(attempt(asked) for _ in range(3)), return_exceptions=True)

    assert all(isinstance(one, Unavailable) for one in refused)
    assert any("no helper was free" in one.cause for one in refused)


async def test_s160_a_helper_has_neither_the_files_nor_the_environment_of_the_service(stack, ask, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVICE", "classified")
    monkeypatch.setenv("KRB5_CONFIG", "/nowhere/krb5.conf")
    seen = stack.folder / "seen"
    script = f"""tr '\\0' '\\n' < /proc/$PPID/environ > {seen}; tr '\\0' ' ' < /proc/$PPID/cmdline >> {seen}
ls -l /proc/$PPID/fd >> {seen}; grep 'Max core' /proc/$PPID/limits >> {seen}"""
    stack.say(auth=[stack.script("see", script), f"required {stack.matrix}"])
    with (tmp_path / "database").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        await attempt(ask())

    text = seen.read_text()
    assert "KRB5_CONFIG=/nowhere/krb5.conf" in text
    for secret in ("classified", "wonderland", "ann", "database", "socket:", ".db"):
        assert secret not in text.replace(str(stack.folder), ""), secret
    assert text.count("pipe:") == 2
    assert "Max core file size        0                    0" in text


async def test_the_service_takes_its_helpers_with_it_in_the_middle_of_a_conversation(stack, ask):
    pids = hanging(stack)
    asked = ask(most=1)
    under_way = asyncio.create_task(attempt(asked))
    found = [int(pid) for pid in await told(pids)]

    await asked._helpers.close()

    with pytest.raises(Unavailable):
        await under_way
    for pid in found:
        await gone(pid)
    with pytest.raises(Unavailable):
        await attempt(asked)
