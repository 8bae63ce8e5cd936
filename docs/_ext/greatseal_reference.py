"""Writes the reference pages from the code: hooks, configuration keys, routes, audit events."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from sphinx.application import Sphinx

from greatseal import hookspecs
from greatseal.kernel.kernel import Kernel
from greatseal.kernel.loading import installed

EVERYTHING = {"server": {"base_url": "http://localhost:8080"}, "admin": {"listen": "127.0.0.1:8081"}}
"""A configuration that enables every installed plugin of the project."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Generate the pages before Sphinx reads the folder."""
    app.connect("builder-inited", lambda app: generate(Path(app.srcdir) / "reference"))
    return {"parallel_read_safe": True}


def generate(folder: Path) -> None:
    """Write every page; a page whose text did not change is left alone, so that Sphinx does not build it again."""
    kernel = Kernel({**EVERYTHING, "plugins": {"enabled": sorted(installed())}})
    pages: dict[str, Callable[[Kernel], str]] = {"hooks": hooks, "configuration": keys, "routes": routes, "events": events}
    folder.mkdir(exist_ok=True)
    for name, write in pages.items():
        path, text = folder / f"{name}.md", write(kernel)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def hooks(_kernel: Kernel) -> str:
    """Every hook with its parameters and promises, in life-cycle order."""
    lines = ["# Hooks", "", inspect.getdoc(hookspecs) or "", ""]
    functions = [one for _, one in inspect.getmembers(hookspecs, inspect.isfunction) if one.__module__ == hookspecs.__name__]
    for function in sorted(functions, key=lambda one: one.__code__.co_firstlineno):
        returned = str(inspect.signature(function).return_annotation).strip("'\"")
        parameters = ", ".join(inspect.signature(function).parameters)
        signature = f"`{function.__name__}({parameters}) -> {returned}`"
        lines += [f"## {function.__name__}", "", signature, "", inspect.getdoc(function) or "", ""]
    return "\n".join(lines).replace(":class:", "").replace(":data:", "").replace(":mod:", "")


def keys(kernel: Kernel) -> str:
    """Every configuration key by section."""
    sections: dict[str, list[list[str]]] = {}
    for section, key, owner, field, doc in kernel.binder.rows():
        sections.setdefault(section, []).append([f"`{key}`", _type(field.type), _default(field), owner, doc])
    lines = ["# Configuration keys", "", "A key has one owner; an unknown or misspelt key stops the start with the nearest right name.", ""]
    for section, rows in sorted(sections.items()):
        lines += [f"## [{section}]", "", *_table(["key", "type", "default", "owner", "meaning"], sorted(rows)), ""]
    return "\n".join(lines)


def routes(kernel: Kernel) -> str:
    """Every route with the rule that guards it."""
    rows = [
        [f"`{one.method} {one.path}`", one.listener, _rule(one.auth), one.summary]
        for one in sorted(kernel.routes, key=lambda one: (one.listener != "main", one.path, one.method))
    ]
    return "\n".join(["# Routes", "", *_table(["route", "listener", "who", "what"], rows), ""])


def events(kernel: Kernel) -> str:
    """Every audit event type."""
    rows = [[f"`{one.name}`", one.service, one.summary] for name in kernel.order for one in kernel.hooks.collect(name, "audit_events")]
    return "\n".join(["# Audit events", "", *_table(["type", "listed by", "written when"], sorted(rows)), ""])


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows),
    ]


def _type(kind: Any) -> str:
    text = kind.__name__ if isinstance(kind, type) else str(kind)
    return text.replace("typing.", "").replace("pathlib.", "").replace("greatseal.api.declarations.", "")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "must be given"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{field.default_factory()!r}`"
    return "none" if field.default is None else f"`{field.default!r}`"


def _rule(rule: msgspec.Struct) -> str:
    values = ", ".join(str(value) for value in msgspec.structs.astuple(rule) if value)
    return f"{type(rule).__name__}({values})" if values else type(rule).__name__
