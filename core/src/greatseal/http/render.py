"""A Problem as an answer, in the style of its route (RFC 6749 s5.2, RFC 7807, RFC 8555 s6.7)."""

import re
from http import HTTPStatus
from typing import Any

import msgspec
import orjson

from greatseal.api.http import Reply, Style
from greatseal.api.languages import Language
from greatseal.api.messages import Text
from greatseal.api.problems import Problem
from greatseal.http.page import CONTENT_SECURITY_POLICY, error_page

ACME_ERROR = "urn:ietf:params:acme:error:"

# RFC 6749 s5.2: error_description is %x20-21 / %x23-5B / %x5D-7E.
_NOT_DESCRIPTION = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


def render(problem: Problem, style: Style, language: Language | None = None) -> Reply:
    """The answer that says ``problem``; a page does in the language, else in English."""
    match style:
        case "acme" | "acme-admin":
            body, content_type = _json(_document(problem)), "application/problem+json"
        case "oauth" | "api":
            body, content_type = _json(_error_object(problem, style)), "application/json"
        case "page":
            body = error_page(problem, _message(problem), language)
            content_type = "text/html; charset=utf-8"
    headers = tuple(problem.headers.items())
    if style == "page":
        headers = (*headers, ("Content-Security-Policy", CONTENT_SECURITY_POLICY))
    return Reply(status=problem.status, body=body, content_type=content_type, headers=headers)


def _error_object(problem: Problem, style: Style) -> dict[str, Any]:
    detail = _detail(problem)
    if style == "oauth":
        detail = _NOT_DESCRIPTION.sub("?", detail.replace('"', "'"))
    return {**problem.members, "error": problem.error, "error_description": detail}


def _document(problem: Problem) -> dict[str, Any]:
    document = {**problem.members, **_subproblem(problem), "status": problem.status}
    if problem.subproblems:
        document["subproblems"] = [_subproblem(one) for one in problem.subproblems]
    return document


def _subproblem(problem: Problem) -> dict[str, Any]:
    type_ = problem.type if ":" in problem.type else ACME_ERROR + problem.type
    said: dict[str, Any] = {"type": type_, "detail": _detail(problem)}
    if problem.identifier is not None:
        said["identifier"] = dict(problem.identifier)
    return said


def _detail(problem: Problem) -> str:
    return str(_message(problem))


def _message(problem: Problem) -> Text:
    return problem.message or HTTPStatus(problem.status).description or HTTPStatus(problem.status).phrase


def _json(value: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(value, default=msgspec.to_builtins)
    except TypeError:
        # A detail may quote what cannot be UTF-8: lone surrogates.
        return msgspec.json.encode(_encodable(value))


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_encodable(name): _encodable(member) for name, member in value.items()}
        case list() | tuple():
            return [_encodable(member) for member in value]
        case _:
            return value
