"""The kernel's schema, and the audit store in it (ruling R12)."""

from greatseal.api.declarations import Schema
from greatseal.db.core_tables import metadata

__all__ = ["SCHEMA"]

SCHEMA = Schema(feature="core", metadata=metadata, migrations="greatseal.db.migrations", head="0001")
"""The tables ``core_<noun>``: audit events, strikes, keys."""
