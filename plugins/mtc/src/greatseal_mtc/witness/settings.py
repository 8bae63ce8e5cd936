"""The configuration keys of the witness: `[witness]`."""

import re

import msgspec

from greatseal_mtc.note import BadNote, NoteKey
from greatseal_mtc.wire import MAX_ORIGIN

__all__ = ["KEY_TYPES", "WitnessLog", "WitnessSettings"]

KEY_TYPES = ("ed25519", "ml-dsa-44")
"""What C2SP tlog-cosignature has a form for."""
_NAME = re.compile(r"[!-*,-~]{1,200}", re.ASCII)
"""ASCII that can be seen, without the plus sign (C2SP signed-note)."""


class WitnessLog(msgspec.Struct, frozen=True, kw_only=True):
    """[[witness.logs]]: a log whose checkpoints are cosigned."""

    origin: str
    """The first line of its checkpoints."""
    keys: tuple[str, ...]
    """The keys that sign them, each as its vkey."""

    def __post_init__(self) -> None:
        if not self.origin or not self.origin.isprintable() or len(self.origin.encode(errors="replace")) > MAX_ORIGIN:
            raise ValueError(f"origin: expected one line of 1 to {MAX_ORIGIN} bytes")
        if not self.keys:
            raise ValueError(f"keys: {self.origin} has none")
        self.verifiers()

    def verifiers(self) -> tuple[NoteKey, ...]:
        """The keys. Raises ValueError."""
        try:
            return tuple(map(NoteKey.parse, self.keys))
        except BadNote as error:
            raise ValueError(f"keys: {error}") from None


class WitnessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[witness]: the witness of other logs."""

    name: str | None = None
    """What it signs as; left out, the base URL without its scheme, and /witness."""
    key_files: tuple[str, ...] = ()
    """Keys of Ed25519 and ML-DSA-44: PEM files, or keys in a key store; left out, one of each is made on first start."""
    logs: tuple[WitnessLog, ...] = ()
    """The logs that it cosigns."""

    def __post_init__(self) -> None:
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise ValueError(f"name: {self.name!r} is no name of a key: up to 200 ASCII characters, without spaces and plus signs")
        origins = [log.origin for log in self.logs]
        if twice := [one for one in origins if origins.count(one) > 1]:
            raise ValueError(f"logs: {twice[0]!r} is there twice")
