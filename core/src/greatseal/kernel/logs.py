"""Structured logs on stderr: one line an event, without secrets, control characters escaped."""

import asyncio
import atexit
import json
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import IO, Any

import orjson
import structlog

REQUEST_ID: ContextVar[str] = ContextVar("structlog_request_id")
"""Of the request that is being answered; by its name structlog puts it into every line (merge_contextvars)."""

SECRET_WORDS = ("secret", "password", "token", "authorization", "cookie", "private", "hmac")


def configure(*, level: int = logging.INFO) -> None:
    """Set up structlog for this process: coloured lines on a terminal, JSON lines elsewhere."""
    wrapper = structlog.make_filtering_bound_logger(level)
    if sys.stderr.isatty():
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                redact,
                structlog.dev.ConsoleRenderer(),
            ],
            wrapper_class=wrapper,
            logger_factory=structlog.WriteLoggerFactory(file=_Lossy(sys.stderr)),  # type: ignore[arg-type]  # write and flush are all it uses
            cache_logger_on_first_use=True,
        )
    else:
        lines = Lines(_Lossy(sys.stderr.buffer))
        atexit.register(lines.flush)
        structlog.configure(processors=[json_line], wrapper_class=wrapper, logger_factory=lambda *_: lines, cache_logger_on_first_use=True)


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide values whose name says that they are secret; escape what could forge or hide a line."""
    for key, value in event.items():
        kind = type(value)
        if kind is int or kind is float or kind is bool:
            continue
        if _is_secret(key):
            event[key] = "[hidden]"
        elif kind is str and value.isprintable():
            continue
        elif key == "exception" and isinstance(value, str):
            event[key] = "\n".join(map(printable, value.split("\n")))
        else:
            event[key] = _shown(value)
    return event


def _shown(value: Any) -> Any:
    """The value with every text in it printable."""
    match value:
        case str():
            return printable(value)
        case list() | tuple():
            return [_shown(one) for one in value]
        case dict():
            return {printable(str(name)): "[hidden]" if _is_secret(str(name)) else _shown(one) for name, one in value.items()}
        case bool() | int() | float() | None:
            return value
    return printable(repr(value))


@lru_cache(1000)
def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in SECRET_WORDS)


def json_line(logger: object, method: str, event: MutableMapping[str, Any]) -> bytes:
    """The event as one JSON object: all that the processors of a terminal do, in one call, because every request has a line."""
    structlog.contextvars.merge_contextvars(logger, method, event)
    event["level"] = method
    event["timestamp"] = _moment(time.time())
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    redact(logger, method, event)
    try:
        return orjson.dumps(event)
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(event).encode()


def brief(log: structlog.stdlib.BoundLogger, event: str) -> Callable[[dict[str, Any]], None]:
    """How one event of level info is logged very often.

    Its fields are all that the line says, printable and no secrets, so that JSON needs no look at them.
    """
    bound = log.bind()
    lines: Any = getattr(bound, "_logger", None)
    context = dict(structlog.get_context(bound))

    def straight(fields: dict[str, Any]) -> None:
        whole = {**context, **fields, "event": event, "level": "info", "timestamp": _moment(time.time())}
        lines.msg(orjson.dumps(whole))

    def by_structlog(fields: dict[str, Any]) -> None:
        log.info(event, **fields)

    return straight if isinstance(lines, Lines) else by_structlog


def _moment(now: float) -> str:
    """RFC 3339 in UTC, with microseconds."""
    second = int(now)
    return f"{_second(second)}.{int((now - second) * 1e6):06d}Z"


@lru_cache(2)
def _second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


class Lines:
    """Takes lines from every thread. On the event loop they are written together, once a turn; elsewhere at once."""

    def __init__(self, stream: "_Lossy") -> None:
        self._stream = stream
        self._waiting: deque[bytes] = deque()
        self._promised: asyncio.AbstractEventLoop | None = None
        """Who will write. A loop may end before it does; the next one, or nobody's loop, does not rely on it."""

    def msg(self, line: bytes) -> None:
        """One line more."""
        self._waiting.append(line)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        if loop is not self._promised:
            self._promised = loop
            loop.call_soon(self.flush)

    debug = info = warning = error = critical = exception = fatal = msg

    def flush(self) -> None:
        """Write what waits."""
        self._promised = None
        lines = []
        with suppress(IndexError):
            while True:
                lines.append(self._waiting.popleft())
        if lines:
            self._stream.write(b"\n".join(lines) + b"\n")
            self._stream.flush()


class _Lossy:
    """A stream that takes what it can: the disk of the log may be full while the service goes on. What counts is in the audit table."""

    def __init__(self, stream: IO[Any]) -> None:
        self._stream = stream

    def write(self, text: Any) -> None:
        try:
            self._stream.write(text)
        except OSError:
            return

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            return


def printable(text: str) -> str:
    """``text`` with control, bidirectional and other unprintable characters as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
