"""Catalogues of what people read: ``make messages`` takes messages out of the source, updates ``<tag>.po`` and writes ``<tag>.mo``.

Each distribution has a folder ``locale`` in its package: ``messages.pot`` is what it says, ``<tag>.po`` its translations for people who
translate, ``<tag>.mo`` the same for gettext. With a tag, ``make messages ARGS=fi`` begins that language.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from greatseal.testing.catalogues import catalogue

ROOT = Path(__file__).parents[2]
KEYWORDS = {"Message": None, "plural": (1, 2), "marked": None, "gettext": None, "ngettext": (1, 2)}
METHODS = [("templates/**.html", "jinja2"), ("**.py", "python")]
OPTIONS = {"templates/**.html": {"trimmed": "true", "silent": "false"}}


def packages() -> Iterator[Path]:
    """The packages of the core and of every plugin, by name."""
    yield from sorted(path for path in ROOT.glob("core/src/greatseal") if path.is_dir())
    yield from sorted(path for path in ROOT.glob("plugins/*/src/greatseal_*") if path.is_dir())


def template_of(package: Path) -> Catalog:
    """What the package says to people. Where a message is, is told by file alone, so that it changes with what it says and no more."""
    catalog = Catalog(project=package.name, charset="utf-8", fuzzy=False)
    for file, _line, message, comments, context in sorted(
        extract_from_dir(package, METHODS, OPTIONS, KEYWORDS), key=lambda found: (found[0], found[1])
    ):
        if "testing/" not in file:
            catalog.add(message, locations=[(file, 0)], auto_comments=comments, context=context)
    return catalog


def translation_of(path: Path) -> Catalog:
    """The translations of a file."""
    with path.open("rb") as stream:
        return read_po(stream, locale=path.stem.replace("-", "_"), domain=path.parent.parent.name)


def updated(catalog: Catalog, template: Catalog) -> Catalog:
    """The translations of the messages that there are now; what is new has none, and nothing is guessed."""
    catalog.update(template, no_fuzzy_matching=True)
    catalog.obsolete.clear()
    catalog.fuzzy = False
    return catalog


def written(catalog: Catalog) -> bytes:
    """A catalogue as text, without dates and lines, which would change by themselves."""
    stream = BytesIO()
    write_po(stream, catalog, width=140, include_lineno=False, sort_by_file=False)
    text = stream.getvalue().decode()
    _, _, body = text.partition("\n\n")
    if catalog.locale is None:
        header = f'# {catalog.project}: what it says to people.\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n'
    else:
        tag = str(catalog.locale).replace("_", "-")
        header = (
            f'# {catalog.project} in {catalog.locale.english_name}.\nmsgid ""\nmsgstr ""\n"Language: {tag}\\n"\n'
            f'"Content-Type: text/plain; charset=utf-8\\n"\n"Plural-Forms: {catalog.plural_forms}\\n"\n'
        )
    return f"{header}\n{body}".encode()


def compiled(po: bytes, tag: str) -> bytes:
    """A catalogue for gettext, the same at every time."""
    catalog = read_po(BytesIO(po), locale=tag.replace("-", "_"))
    said = {_joined(one.id): _joined(one.string or "") for one in catalog if one.id and complete(one)}
    return catalogue(said, catalog.plural_forms)


def _joined(forms: str | Sequence[str]) -> str:
    return forms if isinstance(forms, str) else "\0".join(forms)


def of_package(package: Path, tags: set[str]) -> dict[Path, bytes]:
    """Every file of the folder as it should be, by its path; nothing for a package that says nothing."""
    template = template_of(package)
    if not len(template):
        return {}
    folder = package / "locale"
    files = {folder / "messages.pot": written(template)}
    for tag in sorted(tags):
        po = folder / f"{tag}.po"
        catalog = translation_of(po) if po.exists() else Catalog(locale=tag.replace("-", "_"), charset="utf-8", fuzzy=False)
        catalog.project = package.name
        files[po] = written(updated(catalog, template))
        files[folder / f"{tag}.mo"] = compiled(files[po], tag)
    return files


def tags() -> set[str]:
    """The languages that there are."""
    return {path.stem for package in packages() for path in package.glob("locale/*.po")}


def missing(po: bytes, tag: str) -> list[str]:
    """The messages of a catalogue without a translation."""
    catalog = read_po(BytesIO(po), locale=tag.replace("-", "_"))
    return [str(one.id) for one in catalog if one.id and not complete(one)]


def complete(message: Message) -> bool:
    """Whether every form is translated."""
    forms = message.string if isinstance(message.string, tuple | list) else (message.string,)
    return all(forms)


def places(text: str) -> list[str]:
    """The places for values in a message."""
    return sorted(re.findall(r"%\((\w+)\)", text))


def main(wanted: set[str]) -> None:
    for package in packages():
        for path, content in of_package(package, tags() | wanted).items():
            path.parent.mkdir(exist_ok=True)
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
                print(path.relative_to(ROOT))
            if path.suffix == ".po" and (left := missing(content, path.stem)):
                print(f"{path.relative_to(ROOT)}: {len(left)} without a translation")


if __name__ == "__main__":
    main(set(sys.argv[1:]))
