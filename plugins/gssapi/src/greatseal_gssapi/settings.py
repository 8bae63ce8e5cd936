"""The sections of Kerberos."""

from pathlib import Path
from typing import Annotated

import msgspec

LONGEST_TOKEN = 49_152
"""Bytes of a token: with what base64 adds, a longer one does not fit into the head of a request."""


class GssapiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[gssapi]: what the service accepts tickets with."""

    keytab_file: Path | None = None
    """The keys of the service, as the KDC exported them."""
    gssproxy: bool = False
    """Whether gssproxy has the keys, and this process none."""
    service_name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]+(@[A-Za-z0-9.-]+)?$", max_length=255)] = "HTTP"
    """Which keys accept: ``HTTP`` for that service on every host that the keytab has, ``HTTP@host`` for one."""
    max_token_bytes: Annotated[int, msgspec.Meta(ge=1024, le=LONGEST_TOKEN)] = LONGEST_TOKEN
    """The longest token that is looked at."""


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """[ipa]: the switch of all that a directory and its KDC offer."""

    gssapi: bool = False
    """Whether OAuth clients may prove themselves by tickets, and the directory is asked for upstream providers."""


def problems(settings: GssapiSettings) -> list[str]:
    """What is wrong with a section that is there, one line each."""
    if settings.keytab_file is not None and settings.gssproxy:
        return ["[gssapi] keytab_file and gssproxy exclude each other: keep the one that has the keys"]
    if settings.keytab_file is None and not settings.gssproxy:
        return ["[gssapi] has no keys: set keytab_file, or gssproxy = true where that daemon has them"]
    return []
