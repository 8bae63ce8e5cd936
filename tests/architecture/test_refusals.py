"""Whoever is refused an OAuth request is told which rule of which specification was broken, in the words of ``error_description``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = (
    "ciba", "client-auth-jwt", "client-auth-kerberos", "client-auth-mtls", "device-flow", "dpop", "fapi", "idp", "jar", "jwt-bearer",
    "openid-federation", "rar", "registration", "resource-indicators", "token-exchange",
)  # fmt: skip
REFUSALS = re.compile(
    r"Invalid\w+|BadRequest|BadProof|NeedsNonce|AccessDenied|Unauthorized\w+|Unapproved\w+|Unsupported\w+|InsufficientScope"
    r"|LoginRequired|ConsentRequired|Unmet\w+"
)
RULE = re.compile(
    r"(RFC \d+|FAPI 2\.0(?: Message Signing)?|FAPI-CIBA|CIBA Core|OpenID Connect [\w-]+(?: Logout)?|OAuth Client ID Metadata Document"
    r"|OpenID Federation)"
    r" (?:s\d|Appendix [A-Z]|\{rule\})"
)
PEOPLE = {
    "admin": "administrators ask there",
    "ctl": "administrators ask there",
    "sessions": "a person is told, on a page or by the page's script",
    "ui": "a person is told, on a page",
}
"""Folders of a plugin in which nobody is refused an OAuth request, with who is told instead."""
HOUSE = {
    "the client or its credentials are not known": "one sentence for every reason (RFC 6749 s5.2)",
    "the key is blocked": "others may have it, which no specification knows of",
    "target_service": "a parameter of this service",
    "expected approve or deny": "a form of this service",
    "profile: this service cannot keep": "it goes on with the rule, or with the setting",
    "{MEMBER}[{index}]: {problem.detail}": "it has the rule of what it wraps",
    "{what}: {reason}": "the reason has the rule, where a specification has one",
    "spiffe_id: expected": "it names the SPIFFE ID specification",
    "client_id required": "programs are promised these very words",
    "expected consent_id, and approve or deny": "a form of this service",
    "the person must sign in in another way": "the page sends the person to sign in again",
    "{' and '.join(sorted(sent))}: a request has one of them": "plugins bring these parameters",
    "the access token is bound to a key that cannot be proven here": "no enabled plugin knows such keys",
    "{name}: no enabled plugin provides this": "the operator decides what is enabled",
    "{min(client.more.keys() - self._more)}: no enabled plugin provides this": "the operator decides what is enabled",
    "nothing of what was asked for may be granted": "the access rules of an administrator",
    "no rule lets this client in": "the access rules of an administrator",
    "more than one client is registered for this principal": "what finds a client without client_id is decided here",
    "kerberos_principal": "members of this service",
    "no rule lets anybody act at another service": "the access rules of an administrator",
    "the account may not sign in": "the state of the account, which no specification knows of",
    "the client may not have offline_access any more": "an administrator took it away",
    "{given[0]}: only an administrator sets this": "a switch of administrators",
    "scope: only an administrator gives": "a switch of administrators",
    "token_endpoint_auth_method: this method is for the admin API alone": "a switch of administrators",
    "there are members that cannot be set": "an administrator is told",
    "scopes: {scope[:LONGEST]} is not defined": "an administrator is told",
    "client_secret: must be given for": "an administrator is told",
    "a scope's name is": "an administrator is told",
    "description: ": "an administrator is told",
    "alg: expected one of": "an administrator is told",
    "allowed_signing_algs: ": "a member of this service",
    "client_secret: must not be set for": "what goes with a method is decided here",
    "{name}: must not be set for {method.method}": "what goes with a method is decided here",
    "state: at most": "a limit of this service",
    "nonce: ": "a limit of this service",
    "claims: at most": "a limit of this service",
    "client_name: at most": "a limit of this service",
    "client_secret: {self._least_secret} to": "a limit of this service",
    "{name}: at most {MANY}": "a limit of this service",
    "{name}: 1 to {MAX_TEXT} characters": "a limit of this service",
    "the request is too long to be kept": "a limit of this service",
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
    elif isinstance(node, ast.Name) and node.id in constants:
        yield str(constants[node.id])
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
        if PEOPLE.keys().isdisjoint(path.relative_to(ROOT).parts)
        for line, text in refusals(path)
        if not RULE.search(text) and not text.startswith(tuple(HOUSE))
    ]

    assert not silent, "\n".join(["these refusals do not say which rule of which specification was broken:", *silent])


def test_every_exception_is_one() -> None:
    told = [
        text
        for plugin in PLUGINS
        for path in (ROOT / f"plugins/{plugin}/src").rglob("*.py")
        for _, text in refusals(path)
        if not RULE.search(text)
    ]

    assert not [start for start in HOUSE if not any(text.startswith(start) for text in told)]
