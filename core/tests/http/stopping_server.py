"""A server for the test of the graceful stop: it serves, stops at each SIGTERM, and serves again somewhere else."""

import asyncio
import logging
import signal
import sys
from contextlib import suppress

import structlog

from greatseal.api.http import Reply, Route
from greatseal.http.dispatch import Dispatcher
from greatseal.http.listeners import ListenerConfig, open_listeners


async def main(address: str, rounds: int) -> None:
    log = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    term = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, term.set)
    for number in range(rounds):
        done: list[str] = []

        async def work(call, done=done):
            await call.raw()
            await asyncio.sleep(0.003)
            done.append(call.path["id"])
            return Reply.json({"id": call.path["id"]})

        routes = [Route("POST", "/work/{id}", work)]
        dispatcher = Dispatcher(routes, {}, base_url="http://localhost", max_body_bytes=1000, trusted_proxies=(), log=log)
        term.clear()
        async with open_listeners([ListenerConfig("main", address.format(number))], {"main": dispatcher}, log=log) as listeners:
            say(listeners.addresses["main"])
            await term.wait()
        say(" ".join(done))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run = asyncio.run
    with suppress(ImportError):
        import uvloop

        run = uvloop.run
    run(main(sys.argv[1], int(sys.argv[2])))
