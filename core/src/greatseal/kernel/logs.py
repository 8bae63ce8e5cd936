"""Structured logs on stderr: one line an event, without secrets, control characters escaped."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

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
            structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide values whose name says that they are secret; escape what could forge or hide a line."""
    for key, value in event.items():
        if any(word in key.lower() for word in SECRET_WORDS) and not isinstance(value, bool | int):
            event[key] = "[hidden]"
        elif isinstance(value, str):
            event[key] = printable(value)
    return event


def printable(text: str) -> str:
    """``text`` with control, bidirectional and other unprintable characters as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
