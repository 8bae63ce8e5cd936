"""The configuration keys that the page reads."""

from typing import Annotated, Literal

import msgspec

__all__ = ["Look"]


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """[webui]: how the page looks where no other plugin brings pages."""

    default_theme: Literal["light", "dark"] | None = None
    """The theme of the pages; the browser's choice when left out."""
    display_name: str | None = None
    """What the service calls itself; the host of the issuer when left out."""
    accent_color: Annotated[str, msgspec.Meta(pattern=r"^#[0-9a-fA-F]{6}$")] | None = None
    """The colour of links and buttons, such as #7a1fa2; blue when left out. Where it would be hard to read it is made darker or lighter."""
