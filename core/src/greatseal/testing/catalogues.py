"""Languages for tests: catalogues as gettext reads them, and a pseudo language that shows what is not translated."""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path

from greatseal.api.languages import Catalogue, Languages
from greatseal.kernel.languages import LanguagesImpl
from greatseal.testing.distributions import install

__all__ = ["BEGIN", "END", "PSEUDO", "catalogue", "install_catalogue", "languages", "outside", "pseudo"]

PSEUDO = "ar-XB"
"""A language that nobody speaks, from right to left: each message stands between :data:`BEGIN` and :data:`END`, in English."""
BEGIN, END = "⟦", "⟧"

_CODE = """
from greatseal import hookimpl
from greatseal.api.languages import Catalogue


class Plugin:
    @hookimpl
    def catalogues(self):
        return [Catalogue({package!r})]
"""


def catalogue(messages: Mapping[str, str], plural_forms: str = "nplurals=2; plural=(n != 1);") -> bytes:
    """A file ``<tag>.mo``. The key of a plural is both English texts with a NUL between them, and so are its translations."""
    header = f"Content-Type: text/plain; charset=UTF-8\nPlural-Forms: {plural_forms}\n"
    pairs = sorted((key.encode(), value.encode()) for key, value in {"": header, **messages}.items())
    at, tables, texts = 28 + 16 * len(pairs), [b"", b""], b""
    for side in (0, 1):
        for pair in pairs:
            tables[side] += struct.pack("<II", len(pair[side]), at + len(texts))
            texts += pair[side] + b"\0"
    return struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, at) + tables[0] + tables[1] + texts


def install_catalogue(folder: Path, distribution: str, catalogues: Mapping[str, bytes]) -> str:
    """A distribution with a plugin that has these catalogues by their tag, and nothing else; returns the feature."""
    package = distribution.replace("-", "_")
    feature = install(folder, distribution, "")
    (folder / f"{package}.py").unlink()
    (folder / package / "locale").mkdir(parents=True)
    (folder / package / "__init__.py").write_text(_CODE.format(package=package))
    for tag, content in catalogues.items():
        (folder / package / "locale" / f"{tag}.mo").write_bytes(content)
    return feature


def languages(*packages: str) -> Languages:
    """English, and what these packages have."""
    return LanguagesImpl([Catalogue(package) for package in packages])


def pseudo(packages: Iterable[str]) -> bytes:
    """The catalogue of :data:`PSEUDO`, of whatever the German catalogues of the packages translate."""
    found: dict[str, str] = {}
    for package in packages:
        file = resources.files(package).joinpath("locale/de.mo")
        for text in _messages(file.read_bytes()) if file.is_file() else ():
            found[text] = "\0".join(f"{BEGIN}{one}{END}" for one in text.split("\0"))
    return catalogue(found)


def outside(text: str) -> list[str]:
    """The lines of a text that have words outside of the marks, which may stand in each other and go over several lines."""
    depth, found = 0, [""]
    for character in text:
        if character == "\n" and depth == 0:
            found.append("")
        elif character in {BEGIN, END}:
            depth += 1 if character == BEGIN else -1
        elif depth == 0:
            found[-1] += character
    return [line.strip() for line in found if re.search(r"[^\W\d_]{2}", line)]


def _messages(content: bytes) -> Iterator[str]:
    """The messages of a file ``<tag>.mo``, without its header."""
    count, at = struct.unpack_from("<II", content, 8)
    for number in range(count):
        length, start = struct.unpack_from("<II", content, at + 8 * number)
        if length:
            yield content[start : start + length].decode()
