"""Structured logs on stderr: one line an event, without secrets, control characters escaped."""

import json
import logging
import sys
from collections.abc import MutableMapping
from functools import lru_cache
from typing import IO, Any

import orjson
import structlog

SECRET_WORDS = ("secret", "password", "token", "authorization", "cookie", "private", "hmac")


def configure(*, level: int = logging.INFO) -> None:
    """Set up structlog for this process: coloured lines on a terminal, JSON lines elsewhere."""
    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact,
            structlog.dev.ConsoleRenderer() if terminal else json_line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=_Lossy(sys.stderr))  # type: ignore[arg-type]  # write and flush are all it uses
        if terminal
        else structlog.BytesLoggerFactory(file=_Lossy(sys.stderr.buffer)),  # type: ignore[arg-type]  # as above
        cache_logger_on_first_use=True,
    )


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide values whose name says that they are secret; escape what could forge or hide a line."""
    for key, value in event.items():
        if isinstance(value, bool | int | float):
            continue
        if _is_secret(key):
            event[key] = "[hidden]"
        elif isinstance(value, str) and value.isprintable():
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


def json_line(_logger: object, _method: str, event: MutableMapping[str, Any]) -> bytes:
    """The event as one JSON object."""
    try:
        return orjson.dumps(event)
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(event).encode()


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
