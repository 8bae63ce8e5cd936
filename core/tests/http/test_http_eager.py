"""A request that came alone and whole is answered without a task; a handler must not see a difference, whenever it begins to wait."""

import asyncio
from contextvars import ContextVar

import pytest

from greatseal.api.http import Reply, Route
from greatseal.http.eager import begin

seen: ContextVar[list[str] | None] = ContextVar("seen", default=None)


async def answered(serve, handler, **more):
    served = await serve([Route("GET", "/a", handler)], **more)
    return await asyncio.wait_for(served.ask("GET", "/a"), 10)


async def test_a_timeout_that_begins_before_the_first_wait_ends_the_wait(serve):
    async def handler(_call):
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return Reply.json({"timed_out": True})

    assert (await answered(serve, handler)).json == {"timed_out": True}


async def at_once():
    """Awaited without a wait."""


async def test_a_timeout_that_is_not_needed_leaves_nothing_behind(serve):
    async def handler(_call):
        async with asyncio.timeout(0.01):
            await at_once()
        await asyncio.sleep(0.02)
        return Reply.json({})

    assert (await answered(serve, handler)).status == 200


async def test_a_group_of_tasks_works_from_the_first_step_on(serve):
    async def part(number):
        await asyncio.sleep(0)
        return number

    async def handler(_call):
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(part(number)) for number in range(3)]
        return Reply.json([each.result() for each in parts])

    assert (await answered(serve, handler)).json == [0, 1, 2]


async def test_a_failing_group_of_tasks_cancels_its_handler_and_no_more(serve):
    async def fail():
        raise ValueError

    async def handler(_call):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.Event().wait()
        except* ValueError:
            pass
        await asyncio.sleep(0)
        return Reply.json({})

    assert (await answered(serve, handler)).status == 200


async def test_handlers_may_wait_for_the_same_future(serve):
    shared, came = asyncio.get_running_loop().create_future(), asyncio.Semaphore(0)

    async def handler(_call):
        came.release()
        return Reply.text(await shared)

    served = await serve([Route("GET", "/a", handler)])
    clients = [await served.client() for _ in range(4)]
    for client in clients:
        client.writer.write(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in clients:
        await came.acquire()
    shared.set_result("one for all")

    assert [(await client.answer()).body for client in clients] == [b"one for all"] * 4


async def test_context_variables_end_with_their_request(serve):
    async def handler(_call):
        before = seen.get()
        seen.set(["set"])
        await asyncio.sleep(0)
        return Reply.json([before, seen.get()])

    served = await serve([Route("GET", "/a", handler)])
    client = await served.client()

    assert [(await client.ask("GET", "/a")).json for _ in range(2)] == [[None, ["set"]]] * 2


async def test_what_comes_while_a_handler_waits_is_answered_behind_it(serve):
    may_end = asyncio.Event()
    began = asyncio.Event()

    async def slow(_call):
        began.set()
        await may_end.wait()
        return Reply.text("slow")

    async def quick(_call):
        return Reply.text("quick")

    served = await serve([Route("GET", "/slow", slow), Route("GET", "/quick", quick)])
    client = await served.client()
    await client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    await began.wait()
    await client.send(b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
    await client.send(b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await served.ask("GET", "/quick")).body == b"quick"
    may_end.set()

    assert [(await client.answer()).body for _ in range(3)] == [b"slow", b"quick", b"quick"]


async def test_a_client_that_leaves_does_not_end_what_its_handler_does(serve):
    may_end, began, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(_call):
        began.set()
        await may_end.wait()
        ended.set()
        return Reply.text("nobody reads this")

    served = await serve([Route("GET", "/a", handler)])
    client = await served.client()
    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    await began.wait()
    await client.close()
    may_end.set()

    await asyncio.wait_for(ended.wait(), 5)


async def test_a_handler_that_outlives_the_stop_is_cancelled(serve):
    cancelled, began = asyncio.Event(), asyncio.Event()

    async def handler(_call):
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    served = await serve([Route("GET", "/a", handler)], shutdown_timeout=0.1)
    client = await served.client()
    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    await began.wait()
    await served.listeners.stop()

    await asyncio.wait_for(cancelled.wait(), 5)


async def test_s145_a_client_that_never_reads_is_not_answered_without_end(serve):
    answers = 0

    async def handler(_call):
        nonlocal answers
        answers += 1
        return Reply(body=b"x" * 262_144)

    served = await serve([Route("GET", "/a", handler)])
    client = await served.client()
    asked = 2000

    async def ask():
        for _ in range(asked):
            await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            await asyncio.sleep(0)

    sending = asyncio.create_task(ask())
    while True:
        before = answers
        await asyncio.sleep(0.1)
        if answers == before and answers:
            break
    sending.cancel()

    assert answers < asked / 4


async def test_a_task_that_cancels_itself_early_is_cancelled_at_its_first_wait():
    loop, found = asyncio.get_running_loop(), asyncio.Queue()

    async def work():
        current = asyncio.current_task()
        current.cancel()
        found.put_nowait(current.cancelling())
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            found.put_nowait("cancelled")
            raise

    loop.call_soon(lambda: found.put_nowait(begin(loop, work())))

    assert await found.get() == 1
    task = await found.get()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await found.get() == "cancelled"


async def test_within_a_task_it_is_a_task():
    done = asyncio.Event()

    async def work():
        done.set()

    task = begin(asyncio.get_running_loop(), work())

    assert task is not None
    assert not done.is_set()
    await task
    assert done.is_set()


async def test_the_rest_is_closed_with_its_task():
    loop, found, closed = asyncio.get_running_loop(), asyncio.Queue(), []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    loop.call_soon(lambda: found.put_nowait(begin(loop, work())))
    task = await found.get()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert closed == [True]


@pytest.mark.parametrize(
    "head", [b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"]
)
async def test_what_would_change_the_protocol_does_not(serve, head):
    async def handler(_call):
        return Reply.text("as before")

    client = await (await serve([Route("GET", "/a", handler)])).client()
    await client.send(head)
    await client.answer()

    assert (await asyncio.wait_for(client.ask("GET", "/a"), 5)).body == b"as before"


@pytest.mark.parametrize("last", [b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"GET /a HTTP/1.0\r\nHost: a\r\n\r\n"])
async def test_pipelined_answers_are_sent_before_the_connection_ends(serve, last):
    """From Python 3.12 on aiohttp answers all of them within one turn of the event loop."""

    async def handler(_call):
        return Reply.text("a")

    client = await (await serve([Route("GET", "/a", handler)])).client()
    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" * 3 + last)

    assert [(await client.answer()).body for _ in range(4)] == [b"a"] * 4
    assert await client.is_ended()


async def test_an_interim_answer_stays_behind_the_answers_before_it(serve):
    async def handler(call):
        return Reply(body=await call.raw())

    client = await (await serve([Route("GET", "/a", handler), Route("POST", "/a", handler)])).client()
    asks = b"Host: a\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    await client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" * 2 + b"POST /a HTTP/1.1\r\n" + asks)

    assert [(await client.answer()).status for _ in range(3)] == [200, 200, 100]
    await client.send(b"{}")
    assert (await client.answer()).body == b"{}"
