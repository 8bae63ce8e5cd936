"""The style sheet of every page, in the colour of an organisation where it has one.

Whatever the colour is, it is read well: on each theme it is made darker or lighter until its contrast is that of text (WCAG 2.2, 1.4.3).
"""

import re
from collections.abc import Iterable
from hashlib import sha256
from importlib import resources

import msgspec

__all__ = ["COLOR", "LEAST", "Style", "contrast", "readable", "style_of"]

_SHEET = resources.files("greatseal").joinpath("static/greatseal.css").read_bytes()
COLOR = re.compile(r"#[0-9a-fA-F]{6}")
LEAST = 4.5
"""The contrast of text and its ground."""
LIGHT, DARK = "#f3f5f8", "#17202d"
"""The ground that has least contrast, of each theme."""
ON_LIGHT, ON_DARK = "#ffffff", "#0b1a2e"
"""What stands on the colour."""


class Style(msgspec.Struct, frozen=True):
    """A style sheet, and the path of a route under the base URL that serves it: its name changes with what is in it."""

    path: str
    sheet: bytes


def style_of(accent: str | None) -> Style:
    """The style sheet with ``#rrggbb`` for links and buttons; the usual blue without."""
    sheet = _SHEET if accent is None else _SHEET + _in(accent).encode()
    return Style(f"/assets/greatseal-{sha256(sheet).hexdigest()[:16]}.css", sheet)


def readable(color: str, ground: str) -> str:
    """The colour, or the nearest on its way to black or white that is read well on the ground: away from it."""
    goal = (0, 0, 0) if _luminance(ground) > 0.5 else (255, 255, 255)
    return next(mixed for step in range(101) if contrast(mixed := _mixed(color, goal, step), ground) >= LEAST)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, 1 to 21 (WCAG 2.2, contrast ratio)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _in(accent: str) -> str:
    light, dark = readable(accent, LIGHT), readable(accent, DARK)
    of_light = _variables(light, over=_mixed(light, (0, 0, 0), 18), focus=light, on=ON_LIGHT)
    of_dark = _variables(dark, over=_mixed(dark, (255, 255, 255), 25), focus=_mixed(dark, (255, 255, 255), 40), on=ON_DARK)
    return (
        f":root{{{of_light}}}"
        f'@media (prefers-color-scheme: dark){{:root:not([data-theme="light"]){{{of_dark}}}}}'
        f':root[data-theme="dark"]{{{of_dark}}}\n'
    )


def _variables(accent: str, *, over: str, focus: str, on: str) -> str:
    return f"--accent:{accent};--accent-over:{over};--focus:{focus};--on-accent:{on}"


def _mixed(color: str, goal: Iterable[int], percent: int) -> str:
    return "#" + "".join(f"{round(one + (end - one) * percent / 100):02x}" for one, end in zip(_parts(color), goal, strict=True))


def _parts(color: str) -> tuple[int, ...]:
    return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))


def _luminance(color: str) -> float:
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in (one / 255 for one in _parts(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
