"""Structured logs on stderr: one line an event, without secrets, control characters escaped."""

import logging
import sys
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any

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
            redact,
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(serializer=_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr) if terminal else structlog.BytesLoggerFactory(file=sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide values whose name says that they are secret; escape what could forge or hide a line."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = "[hidden]" if _is_secret(key) else printable(value)
        elif not isinstance(value, bool | int | float) and _is_secret(key):
            event[key] = "[hidden]"
    return event


@lru_cache(1000)
def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in SECRET_WORDS)


def _json(event: object, **_options: object) -> bytes:
    return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS)


def printable(text: str) -> str:
    """``text`` with control, bidirectional and other unprintable characters as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
