"""The hooks of the log."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.declarations import Schema
from greatseal_mtc.tables import SCHEMA


class Plugin:
    """A log of what each CA issues."""

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        """Logs that rest in the database."""
        return [SCHEMA]
