"""What pages for people share: one style sheet, and the start page at ``/`` that every plugin may add to."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib import resources

import msgspec

STYLE = resources.files("greatseal").joinpath("static/greatseal.css").read_bytes()
"""The style sheet of every page."""
STYLE_PATH = f"/assets/greatseal-{sha256(STYLE).hexdigest()[:16]}.css"
"""Where the kernel serves it, under the base URL; the name changes with what is in it."""


class StartLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the start page: ``words`` alone, leading to ``link``, or before ``value``, which is shown as one copies it.

    ``link`` is a URL, or a path of this service under its base URL, beginning with one slash.
    """

    words: str
    link: str | None = None
    value: str | None = None


class StartPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the start page. Anybody may read it: what is not for strangers is not in it.

    ``lines`` is called for every request, when all lifespans are open; a part without lines is left out.
    """

    title: str
    lines: Callable[[], Sequence[StartLine]]
