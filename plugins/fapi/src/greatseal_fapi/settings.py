"""The configuration keys that the profiles depend on; all have another owner."""

from pathlib import Path
from typing import Annotated

import msgspec

Seconds = Annotated[int, msgspec.Meta(ge=1, le=315_360_000)]


class Lifetimes(msgspec.Struct, frozen=True, kw_only=True):
    """[tokens], what the profiles limit."""

    code_ttl: Seconds = 60
    par_ttl: Seconds = 60


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """[server], by which requests arrive: TLS of our own, or a proxy that has the TLS."""

    tls_cert_file: Path | None = None
