"""Finds the lines of a module that decide, by their syntax, and makes mutants: the module without one of them.

A line decides when it

- raises, or returns a refusal: a problem, a reason, or None, False or nothing under a condition;
- calls a function that is there for what it refuses (``check_...``, ``require_...``, ``refuse_...``, ``use_up``);
- is the answer of a predicate;
- is a condition of an UPDATE or DELETE, beside the key.

``if a or b: raise`` are two, one for each reason. A line is known by its function and by what it says, not by its number.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CHECKING = re.compile(r"_?(check|require|refuse|verify|cut|use_up|match)(_|$)")
REFUSING = re.compile(r"Problem|Refused|Invalid\w+|str \| None")
"""What functions return that say why something is refused."""
_NOTHING = ("None", "False", "()")
_ALWAYS = ast.parse("__import__('sqlalchemy').text('1 = 1')", mode="eval").body
_EITHER = ast.parse("__import__('sqlalchemy').or_", mode="eval").body

Mutation = tuple[ast.AST, str, ast.AST]
"""A node, what it says, and what stands there in the mutant."""


@dataclass(frozen=True)
class Decisive:
    """A line that decides. ``what`` is unique in its module: the second of two alike ends in ``#2``."""

    what: str
    tree: ast.Module
    old: ast.AST
    new: ast.AST

    def mutant(self) -> str:
        """The source of the module without it. This changes the tree: read the module again for another mutant."""
        return ast.unparse(ast.fix_missing_locations(_Replacing(self.old, self.new).visit(self.tree)))


def decisive(source: str) -> dict[str, Decisive]:
    """The lines of a module that decide, by what they say."""
    module = _Module(source)
    seen: Counter[str] = Counter()
    found = {}
    for node, said, new in module.mutations():
        what = f"{module.place(node)}: {said}"
        seen[what] += 1
        name = what if seen[what] == 1 else f"{what} #{seen[what]}"
        found[name] = Decisive(name, module.tree, node, new)
    return found


def cut(source: str, what: str, instead: str) -> Decisive | None:
    """The expression of ``what``, ``<function>: <expression>``, which is ``instead`` in the mutant; None when it is not there."""
    module = _Module(source)
    said, _, number = what.partition(" #")
    same = [node for node in module.expressions() if f"{module.place(node)}: {ast.unparse(node)}" == said]
    if len(same) < int(number or 1):
        return None
    return Decisive(what, module.tree, same[int(number or 1) - 1], ast.parse(instead, mode="eval").body)


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old = old
        self.new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().visit(node)


class _Module:
    """A syntax tree in which every node knows what it stands in."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self._above = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def place(self, node: ast.AST) -> str:
        """The qualified name of the function, or of what is assigned at the top."""
        names = []
        for one in self._around(node):
            match one:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.append(name)
                case ast.Assign(targets=[ast.Name(id=name)]) if isinstance(self._above[one], ast.Module):
                    names.append(name)
        return ".".join(reversed(names))

    def mutations(self) -> list[Mutation]:
        """All that decides, in the order of the lines."""
        found = [one for node in ast.walk(self.tree) for one in self._of(node)]
        return sorted(found, key=lambda one: (getattr(one[0], "lineno", 0), getattr(one[0], "col_offset", 0)))

    def expressions(self) -> list[ast.expr]:
        """All of them, in the order of the lines."""
        found = (node for node in ast.walk(self.tree) if isinstance(node, ast.expr))
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        while not isinstance(node, ast.Module):
            yield node
            node = self._above[node]

    def _of(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Raise():
                yield from self._without(node, f"raise {_class(node.exc)}".rstrip())
            case ast.Return():
                yield from self._return(node)
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())) if CHECKING.match(_called(node.value)):
                yield node, ast.unparse(node), ast.Pass()
            case ast.Call(func=ast.Attribute(attr="where", value=statement)) if _called(_first(statement)) in {"update", "delete"}:
                for condition in node.args[1:] if _is_key(node.args[0]) else node.args:
                    yield condition, ast.unparse(condition), ast.Call(_EITHER, [condition, _ALWAYS], [])

    def _return(self, node: ast.Return) -> Iterator[Mutation]:
        value, returns = node.value, self._returns(node)
        explains = REFUSING.search(returns) is not None
        match value:
            case ast.IfExp(body=ast.Constant(value=str()) | ast.JoinedStr()) if explains:
                yield from _chosen(value, value.body, value.orelse)
            case ast.IfExp(orelse=refusal) if _is_nothing(refusal) or (explains and _called(refusal)[:1].isupper()):
                yield from _chosen(value, refusal, value.body, negated=True)
            case ast.IfExp(body=refusal) if _is_nothing(refusal):
                yield from _chosen(value, refusal, value.orelse)
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()) if returns == "bool":
                yield from _answer(value)
            case ast.Call() if explains and _called(value)[:1].isupper() and _called(value) != "Granted":
                yield from self._without(node, f"return {_class(value)}", conditional="Refused" not in returns)
            case ast.Constant(value=str()) | ast.JoinedStr() if explains:
                yield from self._without(node, f"return {_class(value)}", conditional=True)
            case _ if value is None or _is_nothing(value) or _is_fixed(value):
                yield from self._without(node, ast.unparse(node), conditional=True)

    def _without(self, node: ast.stmt, said: str, *, conditional: bool = False) -> Iterator[Mutation]:
        """A statement of its own, once for each reason of the condition that it stands under."""
        below: ast.AST = node
        for one in self._around(node):
            match one:
                case ast.If(test=test, body=body) if below in body:
                    for reason, rest in _reasons(test):
                        if rest is None:
                            yield node, f"if {reason}: {said}", ast.Pass()
                        else:
                            yield test, f"if {reason}: {said}", rest
                    return
                case ast.If(test=test):
                    yield node, f"if {ast.unparse(test)} else: {said}", ast.Pass()
                    return
                case ast.ExceptHandler(type=type):
                    yield node, f"except {ast.unparse(type) if type else ''}: {said}", ast.Pass()
                    return
                case ast.match_case(pattern=pattern):
                    yield node, f"case {ast.unparse(pattern)}: {said}", ast.Pass()
                    return
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    break
            below = one
        if not conditional:
            yield node, said, ast.Pass()

    def _returns(self, node: ast.AST) -> str:
        for one in self._around(node):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                return ast.unparse(one.returns) if one.returns else ""
        return ""


def _chosen(value: ast.IfExp, refusal: ast.expr, other: ast.expr, *, negated: bool = False) -> Iterator[Mutation]:
    """``return other if ... else refusal``, once for each reason of the refusal."""
    for reason, rest in _reasons(value.test, negated=negated):
        without = other if rest is None else ast.IfExp(rest, value.body, value.orelse)
        yield value, f"if {reason}: return {_class(refusal)}", without


def _answer(value: ast.expr) -> Iterator[Mutation]:
    """What a predicate returns: without each part of it, and True."""
    if isinstance(value, ast.BoolOp):
        sign = "and" if isinstance(value.op, ast.And) else "or"
        for part in value.values:
            yield value, f"return ... {sign} {ast.unparse(part)}", _less(value, part)
    if not (isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And)):
        yield value, f"return {ast.unparse(value)}", ast.Constant(value=True)


def _reasons(test: ast.expr, *, negated: bool = False) -> list[tuple[str, ast.expr | None]]:
    """Each reason for which a condition holds (or, negated, does not), and the condition without it: None when it was the only one."""
    joint = ast.And if negated else ast.Or
    parts: Sequence[ast.expr] = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, joint) else [test]
    shown = [ast.unparse(ast.UnaryOp(ast.Not(), part) if negated else part) for part in parts]
    if len(parts) == 1:
        return [(shown[0], None)]
    assert isinstance(test, ast.BoolOp)
    return [(text, _less(test, part)) for text, part in zip(shown, parts, strict=True)]


def _less(test: ast.BoolOp, part: ast.expr) -> ast.expr:
    others = [one for one in test.values if one is not part]
    return others[0] if len(others) == 1 else ast.BoolOp(test.op, others)


def _is_nothing(value: ast.expr | None) -> bool:
    return value is not None and ast.unparse(value) in _NOTHING


def _is_fixed(value: ast.expr) -> bool:
    """A reply that is always the same."""
    return isinstance(value, ast.Name) and value.id.isupper()


def _is_key(condition: ast.expr) -> bool:
    """Which row it is about. What else must be equal comes after it, and guards."""
    return isinstance(condition, ast.Compare) and isinstance(condition.ops[0], ast.Eq) and _called(condition.comparators[0]) == "param"


def _class(problem: ast.expr | None) -> str:
    """The class of a problem, with that of the problem that it carries; its words may change."""
    match problem:
        case None:
            return ""
        case ast.Constant(value=str()) | ast.JoinedStr():
            return "a reason"
        case ast.Call(func=func, args=[ast.Call() as inner, *_]) if _called(problem) in {"Refuse", "Refused"}:
            return f"{ast.unparse(func)}({_class(inner)})"
        case ast.Call(func=func):
            return ast.unparse(func)
        case _:
            return ast.unparse(problem)


def _called(node: ast.AST) -> str:
    match node:
        case ast.Await(value=value):
            return _called(value)
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case _:
            return ""


def _first(node: ast.expr) -> ast.expr:
    """The call that a chain of methods begins with."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node
