"""Writes the reference pages from the code: contracts, hooks, configuration keys, routes, audit events."""

import builtins
import inspect
import pkgutil
import re
import types
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

import msgspec
import sqlalchemy
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import greatseal.api
from greatseal import hookspecs
from greatseal.api import declarations
from greatseal.kernel.config import field_docs
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.known import known
from greatseal.kernel.loading import installed

_MAIL = {"enabled": True, "from_address": "acme@localhost", "send_script": "/bin/true", "webhook_hmac_secret": "secret"}
_ADMIN = {"listen": "127.0.0.1:8081", "audit_alarm_action": "halt"}
EVERYTHING = {"server": {"base_url": "http://localhost:8080"}, "admin": _ADMIN, "email_challenge": _MAIL}
"""A configuration that enables every installed plugin of the project."""
PLUGINS = Path(__file__).parents[2] / "plugins"
"""One folder for each plugin of the project, under its feature id. Examples stand elsewhere: they are no part of the product."""
TESTING = (
    "", ".plugin", ".service", ".desk", ".people", ".resolver", ".validators", ".logs", ".selectors", ".schema", ".store", ".keys",
    ".ctl", ".dns", ".distributions", ".nodes", ".bindings", ".extensions", ".calls", ".operators", ".operator_desk", ".trust",
    ".alternates",
)  # fmt: skip
"""The modules of the testing kit that are for plugin authors."""
WORDS = {str: "text", int: "integer", float: "number", bool: "true or false", bytes: "bytes", Path: "path"}
"""What a type is called in a TOML file."""


# Imported there for type checkers alone; the signature of Schema names it.
declarations.sqlalchemy = sqlalchemy  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    """Generate the pages before Sphinx reads the folder."""
    app.connect("builder-inited", lambda app: generate(Path(app.srcdir) / "reference"))
    app.connect("doctree-read", _unlink_builtins)
    return {"parallel_read_safe": True}


def _unlink_builtins(_app: Sphinx, document: nodes.document) -> None:
    """``type`` in a signature is Python's, not the nearest attribute of that name."""
    for reference in list(document.findall(addnodes.pending_xref)):
        if reference.get("refdomain") == "py" and hasattr(builtins, reference.get("reftarget", "")):
            reference.replace_self(reference.children)


def generate(folder: Path) -> None:
    """Write every page; a page whose text did not change is left alone, so that Sphinx does not build it again."""
    ours = {path.name for path in PLUGINS.iterdir()}
    kernel = Kernel({**EVERYTHING, "plugins": {"enabled": sorted(installed().keys() & ours)}})
    written: dict[str, Callable[[Kernel], str]] = {"hooks": hooks, "configuration": keys, "routes": routes, "events": events}
    pages = {name: write(kernel) for name, write in written.items()} | contracts()
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def contracts() -> dict[str, str]:
    """A page for each module that plugins import, and one that lists them."""
    api = [f"greatseal.api.{module.name}" for module in pkgutil.iter_modules(greatseal.api.__path__)]
    modules = {name: (name,) for name in ("greatseal.host", *api, "greatseal.db.tables", "greatseal.net")}
    modules["greatseal.testing"] = tuple(f"greatseal.testing{part}" for part in TESTING)
    rows = [[f"[{name}]({_page(name)}.md)", _markdown(_first(name))] for name in modules]
    what = "What a plugin imports, beside the [hooks](hooks.md) that it implements; in its tests `greatseal.testing` too."
    lines = ["# Contracts", "", what, ""]
    toctree = ["", "```{toctree}", ":hidden:", *(_page(name) for name in modules), "```", ""]
    pages = {"contracts": "\n".join([*lines, *_table(["module", "what it holds"], rows), *toctree])}
    for name, parts in modules.items():
        pages[_page(name)] = "\n".join([f"# {name}", "", *(line for part in parts for line in _automodule(part, title=part != name)), ""])
    return pages


def hooks(_kernel: Kernel) -> str:
    """Every hook with its parameters and promises, in life-cycle order."""
    lines = ["# Hooks", "", inspect.getdoc(hookspecs) or "", ""]
    functions = [one for _, one in inspect.getmembers(hookspecs, inspect.isfunction) if one.__module__ == hookspecs.__name__]
    for function in sorted(functions, key=lambda one: one.__code__.co_firstlineno):
        returned = str(inspect.signature(function).return_annotation).strip("'\"")
        parameters = ", ".join(inspect.signature(function).parameters)
        signature = f"`{function.__name__}({parameters}) -> {returned}`"
        lines += [f"## {function.__name__}", "", signature, "", inspect.getdoc(function) or "", ""]
    return _roles("\n".join(lines))


def keys(kernel: Kernel) -> str:
    """Every configuration key by section."""
    sections: dict[str, list[list[str]]] = {}
    said: dict[str, str] = {}
    for section, key, owner, field, doc in kernel.binder.rows():
        rows = sections.setdefault(_heading(section), [])
        if _table_of(field.type) is None:
            rows.append(_row(key, field, owner, doc))
        else:
            for heading, intro, own in _tables(f"{_path(section)}.{key}", field, owner, doc):
                said[heading], sections[heading] = _markdown(intro), own
    rule = "A key has one owner; an unknown or misspelt key stops the start with the nearest right name."
    lines = ["# Configuration keys", "", f"{rule} [Planned](#planned) are those of features that are still to come.", ""]
    for heading, rows in sorted(sections.items(), key=lambda item: item[0].strip("[]")):
        if rows:
            intro = [said[heading], ""] if heading in said else []
            lines += [f"## {_markdown(heading)}", "", *intro, *_table(["key", "type", "default", "owner", "meaning"], sorted(rows)), ""]
    return "\n".join([*lines, *_planned()])


def _planned() -> list[str]:
    """The keys that are refused until their feature is built."""
    head = ["section", "key", "owner", "type", "default"]
    rows = [
        [f"`{_heading(section)}`", f"`{key}`", one.owner, _markdown(one.type), f"`{one.default}`"]
        for section, keys in known().planned.items()
        for key, one in keys.items()
    ]
    what = 'Until its feature is there, such a key stops the start with "planned, not built yet".'
    return ["## Planned", "", what, "", *_table(head, sorted(rows)), ""]


def routes(kernel: Kernel) -> str:
    """Every route with the rule that guards it."""
    rows = [
        [f"`{one.method} {one.path}`", one.listener, _rule(one.auth), _markdown(one.summary)]
        for one in sorted(kernel.routes, key=lambda one: (one.listener != "main", one.path, one.method))
    ]
    rules = "Who may call: the rules are those of [greatseal.api.http](api-http.md)."
    return "\n".join(["# Routes", "", rules, "", *_table(["route", "listener", "who", "what"], rows), ""])


def events(kernel: Kernel) -> str:
    """Every audit event type."""
    rows = [[f"`{one.name}`", one.service, _markdown(one.summary)] for one in kernel.audit_events]
    where = (
        "All are in the table `core_audit`. `greatseal ctl audit` lists those of the service `idp`, the identity provider; "
        "those of `ca` and of `core`, the kernel, are in the table alone."
    )
    return "\n".join(["# Audit events", "", where, "", *_table(["type", "service", "written when"], sorted(rows)), ""])


def _page(module: str) -> str:
    return module.removeprefix("greatseal.").replace(".", "-")


def _first(module: str) -> str:
    """The first sentence of a module's docstring, up to its first blank line."""
    return " ".join((inspect.getdoc(import_module(module)) or "").partition("\n\n")[0].split())


def _automodule(module: str, *, title: bool) -> Iterator[str]:
    if title:
        yield from (f"## {module}", "")
    directive = [f".. automodule:: {module}", "   :members:", "   :undoc-members:", "   :show-inheritance:", "   :member-order: bysource"]
    if getattr(import_module(module), "__all__", None):
        directive.append("   :imported-members:")
    yield from ("```{eval-rst}", *directive, "```", "")


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows),
    ]


def _roles(text: str) -> str:
    """Cross-references of docstrings, as Markdown writes them."""
    return re.sub(r":(class|data|mod|func|meth|attr):`", r"{py:\1}`", text)


def _markdown(text: str) -> str:
    """A docstring where a page is Markdown: what stands outside of backticks is no HTML."""
    parts = re.split(r"(`[^`]*`)", _roles(text))
    return "".join(part if part.startswith("`") else part.replace("<", "\\<").replace("*", "\\*") for part in parts)


def _heading(section: str) -> str:
    """How a section is written: ``name[]`` is one table or several, ``name.*`` a table for each name."""
    if section.endswith("[]"):
        return f"[{section[:-2]}] or [[{section[:-2]}]]"
    return f"[{section[:-2]}.<name>]" if section.endswith(".*") else f"[{section}]"


def _path(section: str) -> str:
    """A section as the headings of tables in it begin."""
    return f"{section[:-2]}.<name>" if section.endswith(".*") else section.removesuffix("[]")


def _is_struct(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _table_of(kind: Any) -> tuple[type[msgspec.Struct], str] | None:
    """The Struct of a key that is written as a table of its own, or as several, and the form of their heading."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        found = [_table_of(one) for one in inner if one is not type(None)]
        return found[0] if len(found) == 1 else None
    if _is_struct(kind):
        return kind, "[{}]"
    several = origin in {tuple, list}
    content = inner[0 if several else -1] if inner else None
    return (content, "[[{}]]" if several else "[{}.<name>]") if _is_struct(content) else None


def _tables(path: str, field: msgspec.structs.FieldInfo, owner: str, doc: str) -> Iterator[tuple[str, str, list[list[str]]]]:
    """Heading, introduction and rows of the table of a key, and of those in it. A key without words is explained elsewhere."""
    table = _table_of(field.type)
    assert table is not None
    struct, form = table
    heading, rows = form.format(path), []
    for one, its in _fields(struct):
        if its and _table_of(one.type) is not None:
            yield from _tables(f"{heading.strip('[]')}.{one.encode_name}", one, owner, its)
        else:
            rows.append(_row(one.encode_name, one, owner, its))
    yield heading, doc, rows


def _fields(struct: type[msgspec.Struct]) -> Iterator[tuple[msgspec.structs.FieldInfo, str]]:
    docs = field_docs(struct)
    return ((field, docs.get(field.name, "")) for field in msgspec.structs.fields(struct))


def _row(key: str, field: msgspec.structs.FieldInfo, owner: str, doc: str) -> list[str]:
    return [f"`{key}`", _type(field.type), _default(field), owner, _markdown(doc)]


def _type(kind: Any) -> str:
    """A type in the words of whoever writes the file."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [_limits(one) for one in inner[1:] if isinstance(one, msgspec.Meta)]
        return "".join([_type(inner[0]), *limits])
    if origin in {Union, types.UnionType}:
        return " or ".join(_type(one) for one in inner if one is not type(None))
    if origin is Literal:
        return " or ".join(f"`{one!r}`".replace("'", '"') for one in inner)
    if origin in {tuple, list, frozenset}:
        words = _type(inner[0])
        return f"list of {'tables' if words == 'table' else words}"
    if isinstance(origin, type):
        return f"table of {_type(inner[-1])}" if inner else "table"
    return "table" if _is_struct(kind) else WORDS.get(kind, kind.__name__.lower() if isinstance(kind, type) else str(kind))


def _limits(meta: msgspec.Meta) -> str:
    if meta.pattern is not None:
        return f" like `{meta.pattern}`"
    low = meta.ge if meta.ge is not None else meta.gt
    high = meta.le if meta.le is not None else meta.lt
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", {low} or more"
    return f", at most {high}" if high is not None else ""


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "must be given"
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{value}`".lower()
    if isinstance(value, tuple | list | frozenset):
        return f"`{list(value)!r}`".replace("'", '"')
    return f"`{value!r}`".replace("'", '"')


def _rule(rule: msgspec.Struct) -> str:
    values = ", ".join(str(value) for value in msgspec.structs.astuple(rule) if value)
    return _markdown(f"{type(rule).__name__}({values})" if values else type(rule).__name__)
