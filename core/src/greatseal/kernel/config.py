"""Configuration: every key has one owner, readers agree with it, and all problems come in one report."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from greatseal.api.declarations import Owns, Reads
from greatseal.api.problems import StartProblem
from greatseal.kernel import known
from greatseal.kernel.decode import Place, decode, dotted, nearest, shown

Document = Mapping[str, Any]
Declaration = Owns | Reads


def read_file(path: Path) -> dict[str, Any]:
    """The TOML document of ``path``. Raises StartProblem with the line that does not parse."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StartProblem(f"{path}: no such configuration file; give one with -c FILE, for example config/dev.toml") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StartProblem(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise StartProblem(f"{path}: not valid TOML: {error}") from None


_MAY_BE_KNOWN = ("not enabled", "no enabled plugin knows it")


class Bound:
    """The settings of all plugins, decoded. Where a value is wrong they hold the rest, so that the rest can be checked too.

    A Struct that cannot be made is missing, and asking for it raises KeyError.
    """

    def __init__(self) -> None:
        self.tables: dict[type, msgspec.Struct] = {}
        self.keyed: dict[type, dict[str, msgspec.Struct]] = {}
        self.repeated: dict[type, list[msgspec.Struct]] = {}
        self.present: frozenset[str] = frozenset()


class Binder:
    """Collects declarations, then binds a document to all of them."""

    def __init__(self) -> None:
        self._declared: list[tuple[str, Declaration]] = []
        self._owners: dict[tuple[str, str], tuple[str, msgspec.structs.FieldInfo]] = {}
        self.problems: list[str] = []
        self.incomplete = False
        """Whether a plugin that was asked for is not here: what nobody knows may be its, and is not told then."""
        self.refused: set[tuple[str, str]] = set()
        """The section and key of every value that is there and wrong."""

    def declare(self, owner: str, declarations: Iterable[Declaration]) -> None:
        """Add what a plugin owns and reads. A second owner of a key is a problem."""
        for declaration in declarations:
            self._declared.append((owner, declaration))
            if isinstance(declaration, Owns):
                for field in msgspec.structs.fields(declaration.struct):
                    first, _ = self._owners.setdefault((declaration.section, field.encode_name), (owner, field))
                    if first != owner:
                        self.problems.append(
                            f"[{declaration.section}] {field.encode_name} is owned by {first} and by {owner}; one of them must read it"
                        )

    def bind(self, document: Document) -> Bound:
        """Decode every declared Struct; ``problems`` then holds all that is wrong."""
        bound = Bound()
        bound.present = frozenset(document)
        self._check_readers()
        self._check_unknown(document)
        seen: set[str] = set()
        for _, declaration in self._declared:
            self._bind_one(bound, document, declaration, seen)
        return bound

    def one_more(self, section: str, key: str, table: Document) -> tuple[dict[type, msgspec.Struct], list[str]]:
        """The Structs of a table of the keyed section ``section.*``, as if it stood in the file, and what is wrong with it."""
        declared = [one for one in self.declared if one.section == f"{section}.*"]
        place = Place.of(f"{section}.{dotted(key)}")
        names = {field.encode_name for one in declared for field in msgspec.structs.fields(one.struct)}
        problems = [f"{place.key(name)}: {_unknown(f'{section}.*', name, {f'{section}.*': names})}" for name in table.keys() - names]
        made: dict[type, msgspec.Struct] = {}
        for one in declared:
            decoded = decode(table, one.struct, place)
            problems += decoded.problems
            if decoded.value is not None:
                made[one.struct] = decoded.value
        return made, list(dict.fromkeys(problems))

    @property
    def declared(self) -> list[Declaration]:
        """Everything that was declared."""
        return [declaration for _, declaration in self._declared]

    def rows(self) -> list[tuple[str, str, str, msgspec.structs.FieldInfo, str]]:
        """Every key as (section, key, owner, field, doc), for the reference; a key whose owner is not here stands under its reader."""
        found: dict[tuple[str, str], tuple[str, str, str, msgspec.structs.FieldInfo, str]] = {}
        for kind in (Owns, Reads):
            for owner, declaration in self._declared:
                if isinstance(declaration, kind):
                    docs = field_docs(declaration.struct)
                    who = owner if kind is Owns else f"read by {owner}"
                    for field in msgspec.structs.fields(declaration.struct):
                        place = (declaration.section, field.encode_name)
                        found.setdefault(place, (*place, who, field, docs.get(field.name, "")))
        return list(found.values())

    def _check_readers(self) -> None:
        for reader, declaration in self._declared:
            if isinstance(declaration, Owns):
                continue
            for field in msgspec.structs.fields(declaration.struct):
                owner, owned = self._owners.get((declaration.section, field.encode_name), (reader, field))
                if (owned.type, owned.default) != (field.type, field.default):
                    self.problems.append(
                        f"[{declaration.section}] {field.encode_name}: {reader} reads it as {field.type} with default {field.default!r}, "
                        f"its owner {owner} declares {owned.type} with default {owned.default!r}; they must agree"
                    )

    def _check_unknown(self, document: Document) -> None:
        declared: dict[str, set[str]] = {}
        for _, declaration in self._declared:
            names = {field.encode_name for field in msgspec.structs.fields(declaration.struct)}
            declared.setdefault(declaration.section, set()).update(names)
        sections = {name.removesuffix("[]").removesuffix(".*") for name in declared}
        for section, value in document.items():
            if section not in sections:
                what = known.of_section(section) or f"unknown section{nearest(section, sections) or '; no enabled plugin knows it'}"
                self._tell_unknown(f"[{section}]: {what}")
                continue
            for place, where, key in _keys_of(section, value, declared):
                if key not in declared.get(where, set()):
                    self._tell_unknown(f"{place.key(key)}: {_unknown(where, key, declared)}")

    def _tell_unknown(self, problem: str) -> None:
        if not (self.incomplete and problem.endswith(_MAY_BE_KNOWN)):
            self.problems.append(problem)

    def _bind_one(self, bound: Bound, document: Document, declaration: Declaration, seen: set[str]) -> None:
        section, struct = declaration.section, declaration.struct
        if section.endswith(".*"):
            outer = document.get(section.removesuffix(".*"), {})
            inner = {key: value for key, value in outer.items() if isinstance(value, dict)} if isinstance(outer, dict) else {}
            made = {key: self._decode(Place.of(f"{section[:-1]}{dotted(key)}"), value, declaration, seen) for key, value in inner.items()}
            if None not in made.values():  # else nobody can tell which there are
                bound.keyed[struct] = {key: value for key, value in made.items() if value is not None}
        elif section.endswith("[]"):
            name = section.removesuffix("[]")
            required = any(field.required for field in msgspec.structs.fields(struct))
            tables = _tables(name, document.get(name, [] if required else {}))
            decoded = [self._decode(place, item, declaration, seen) for place, item in tables]
            if None not in decoded:
                bound.repeated[struct] = [item for item in decoded if item is not None]
        else:
            value = document.get(section)
            required = any(field.required for field in msgspec.structs.fields(struct))
            if value is None and required:
                return
            result = self._decode(Place.of(section), {} if value is None else value, declaration, seen)
            if result is not None:
                bound.tables[struct] = result

    def _decode(self, place: Place, value: object, declaration: Declaration, seen: set[str]) -> msgspec.Struct | None:
        if not isinstance(value, dict):
            self._tell(f"{place}: expected a table, found {shown(value)}", seen)
            return None
        decoded = decode(value, declaration.struct, place)
        self.refused |= {(declaration.section, key) for key in decoded.refused}
        for problem in decoded.problems:
            self._tell(problem, seen)
        return decoded.value

    def _tell(self, problem: str, seen: set[str]) -> None:
        if problem not in seen:  # owner and readers decode the same key
            seen.add(problem)
            self.problems.append(problem)


def _keys_of(section: str, value: object, declared: Mapping[str, set[str]]) -> list[tuple[Place, str, str]]:
    """The keys of a section, each with the table that it is in and the declaration that it belongs to."""
    if f"{section}[]" in declared:
        return [(place, f"{section}[]", key) for place, item in _tables(section, value) if isinstance(item, dict) for key in item]
    if not isinstance(value, dict):
        return []
    whole = Place.of(section)
    if f"{section}.*" not in declared:
        return [(whole, section, key) for key in value]
    outer = declared.get(section, set())
    inner = {name: item for name, item in value.items() if isinstance(item, dict) and name not in outer}
    found = [(whole, section, key) for key in value if key not in inner]
    return found + [(Place.of(f"{section}.{dotted(name)}"), f"{section}.*", key) for name, item in inner.items() for key in item]


def _tables(section: str, value: object) -> list[tuple[Place, object]]:
    """One table or several, each with its place."""
    if isinstance(value, list):
        return [(Place.of(section, number), item) for number, item in enumerate(value, 1)]
    return [(Place.of(section), value)]


def _unknown(section: str, key: str, declared: Mapping[str, set[str]]) -> str:
    if listed := known.of_key(section, key):
        return listed
    elsewhere = [f"[{other}] {key}" for other, keys in declared.items() if key in keys]
    hint = f"; there is {elsewhere[0]}" if elsewhere else nearest(key, declared.get(section, ()))
    return f"unknown key{hint or '; no enabled plugin knows it'}"


def field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The string under each field of a Struct, read from its source: the one place where a key is explained."""
    import ast
    import inspect
    import textwrap

    (body,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    if not isinstance(body, ast.ClassDef):
        return {}
    docs: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and isinstance(following, ast.Expr):
            value = following.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docs[statement.target.id] = " ".join(value.value.split())
    return docs
