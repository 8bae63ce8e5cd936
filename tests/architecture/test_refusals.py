"""Whoever is refused an OAuth request is told which rule of which specification was broken, in the words of ``error_description``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = (
    "ciba", "client-auth-jwt", "client-auth-mtls", "device-flow", "dpop", "fapi", "jar", "jwt-bearer", "rar", "registration",
    "resource-indicators", "token-exchange",
)  # fmt: skip
REFUSALS = re.compile(r"Invalid\w+|BadRequest|BadProof|NeedsNonce|AccessDenied|Unauthorized\w+|Unapproved\w+")
RULE = re.compile(
    r"(RFC \d+|FAPI 2\.0(?: Message Signing)?|FAPI-CIBA|CIBA Core|OpenID Connect \w+|OAuth Client ID Metadata Document) (?:s\d|\{rule\})"
)
HOUSE = {
    "the client or its credentials are not known": "one sentence for every reason (RFC 6749 s5.2)",
    "the key is blocked": "others may have it, which no specification knows of",
    "target_service": "a parameter of this service",
    "expected approve or deny": "a form of this service",
    "profile: this service cannot keep": "it goes on with the rule, or with the setting",
    "{MEMBER}[{index}]: {problem.detail}": "it has the rule of what it wraps",
}
"""How a refusal begins whose rule is no specification's, with the reason."""


def refusals(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each; a name of a constant in braces stands for its text where this module says it."""
    tree = ast.parse(path.read_text())
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and REFUSALS.fullmatch(ast.unparse(node.func).rpartition(".")[2]):
            for text in _texts(node.args[0], constants):
                yield node.lineno, text


def _texts(node: ast.expr, constants: dict[str, object]) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body, constants)
        yield from _texts(node.orelse, constants)
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(_part(part, constants) for part in node.values)


def _part(part: ast.expr, constants: dict[str, object]) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    name = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
    found = constants.get(name)
    return found if isinstance(found, str) and RULE.search(found) else f"{{{name}}}"


@pytest.mark.parametrize("plugin", PLUGINS)
def test_each_refusal_names_its_rule(plugin: str) -> None:
    silent = [
        f"{path.name}:{line}: {text}"
        for path in sorted((ROOT / f"plugins/{plugin}/src").rglob("*.py"))
        for line, text in refusals(path)
        if not RULE.search(text) and not text.startswith(tuple(HOUSE))
    ]

    assert not silent, "\n".join(["these refusals do not say which rule of which specification was broken:", *silent])
