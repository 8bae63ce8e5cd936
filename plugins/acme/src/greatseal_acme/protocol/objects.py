"""The objects of RFC 8555 s7.1 as JSON, and times of RFC 3339."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from greatseal.api.acme import Unauthorized
from greatseal.api.http import Reply
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Problem

"""Microseconds."""
_PREFIX = "urn:ietf:params:acme:error:"
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


def encode(value: object) -> str:
    """JSON text for a Document column."""
    return msgspec.json.encode(value).decode()


def decode(document: str | None) -> Any:
    """The value of a Document column, None for NULL."""
    return None if document is None else msgspec.json.decode(document)


def reply(value: Mapping[str, object], *headers: tuple[str, str], status: int = 200) -> Reply:
    """An ACME object."""
    return Reply(status=status, body=msgspec.json.encode(value), content_type="application/json", headers=headers)


def moment_text(moment: int) -> str:
    """RFC 3339 in UTC without fraction: some clients cannot read one."""
    return datetime.fromtimestamp(moment // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_moment(text: str, member: str) -> int:
    """Microseconds of an RFC 3339 time. Raises BadRequest that names the member."""
    refusal = BadRequest(f"{member} is no time of RFC 3339, for example 2026-01-31T12:00:00Z")
    if not _RFC_3339.fullmatch(text):
        raise refusal
    try:
        return int(datetime.fromisoformat(text.upper()).timestamp()) * SECOND
    except (ValueError, OverflowError):
        raise refusal from None


def problem_document(problem: Problem) -> dict[str, object]:
    """The document of RFC 8555 s6.7 that is kept on challenges and orders."""
    document: dict[str, object] = {"type": _PREFIX + problem.type, "detail": problem.detail, "status": problem.status}
    if problem.identifier is not None:
        document["identifier"] = dict(problem.identifier)
    if problem.subproblems:
        document["subproblems"] = [problem_document(one) for one in problem.subproblems]
    return {**document, **problem.members}


def not_found() -> Problem:
    """The one answer for what does not exist and for what belongs to others: nobody learns which it was."""
    return Unauthorized("there is nothing at this URL that belongs to the account of the request")
