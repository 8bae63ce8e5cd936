"""Single use in a test's own database, as the kernel keeps it."""

from typing import cast

from greatseal.api.store import Database
from greatseal.host import Clock, Handles, Strikes
from greatseal.kernel.strikes import StrikesImpl

__all__ = ["strikes_of"]


def strikes_of(clock: Clock, db: Database) -> Strikes:
    """The strikes of a database of :func:`greatseal.testing.store.open_test_database`, for ``seen`` and ``take_within``."""
    return StrikesImpl(clock, db, cast("Handles", None))
