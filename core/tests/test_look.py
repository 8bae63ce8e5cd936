"""The colour of an organisation: read well, whatever it is."""

from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.look import DARK, LEAST, LIGHT, ON_DARK, ON_LIGHT, contrast, readable, style_of


def test_contrast_is_that_of_the_guidelines() -> None:
    assert round(contrast("#000000", "#ffffff"), 2) == 21
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48


@given(st.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}"))
def test_every_colour_is_read_well(color: str) -> None:
    """WCAG 2.2, 1.4.3: as text on both themes, and under the text of a button."""
    for ground, on in ((LIGHT, ON_LIGHT), (DARK, ON_DARK)):
        shown = readable(color, ground)
        assert contrast(shown, ground) >= LEAST
        assert contrast(shown, on) >= LEAST


def test_a_colour_that_is_read_well_stays() -> None:
    assert readable("#1d4f91", LIGHT) == "#1d4f91"


def test_the_name_of_the_sheet_changes_with_it() -> None:
    assert len({style_of(color).path for color in (None, "#000000", "#7a1fa2")}) == 3
