"""When lines are written."""

import asyncio

import pytest

from greatseal.kernel.logs import Lines


class Stream(list):
    """What was written, each write by itself."""

    write = list.append

    def flush(self):
        """Everything is written already."""


@pytest.fixture
def stream():
    return Stream()


@pytest.fixture
def lines(stream):
    return Lines(stream)


async def test_the_lines_of_one_turn_are_written_together(lines, stream):
    lines.msg(b"a")
    lines.msg(b"b")
    assert stream == []
    await asyncio.sleep(0)

    assert stream == [b"a\nb\n"]


async def test_a_thread_does_not_wait_for_the_turn_of_the_loop(lines, stream):
    lines.msg(b"a")
    await asyncio.get_running_loop().run_in_executor(None, lines.msg, b"b")

    assert b"".join(stream) == b"a\nb\n"


def test_a_loop_that_ends_before_it_has_written_holds_nobody_up(lines, stream):
    loop = asyncio.new_event_loop()
    loop.call_soon(lambda: (loop.stop(), lines.msg(b"a")))
    loop.run_forever()
    loop.close()
    assert stream == []

    async def more():
        lines.msg(b"b")
        await asyncio.sleep(0)

    asyncio.run(more())
    assert stream == [b"a\nb\n"]
    lines.msg(b"c")
    assert stream == [b"a\nb\n", b"c\n"]
