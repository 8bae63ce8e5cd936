"""Keys travel to every node; that one was used is a fact of the node that its kid names."""

from sqlalchemy import Column, Index, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Collection, Document, Id, Moment, Sealed, State, Text, table

metadata = MetaData()

key = table(
    "eab_key",
    metadata,
    State.REPLICATED,
    Column("kid", Id, primary_key=True),
    Column("hmac_key_b64u", Sealed, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("used_at", Moment),
    Column("profile_grants", Document),
    Column("bound_principal", Text),
)
Index("eab_key_created", key.c.created_at, key.c.kid)
KEY = Collection("eab_key", key)

use = table("eab_use", metadata, State.OWNED, Column("kid", Id, primary_key=True), Column("used_at", Moment, nullable=False))
"""One row for each key that was used. It decides; ``eab_key.used_at`` is what the other nodes are told of it."""

SCHEMA = Schema(feature="eab", metadata=metadata, migrations="greatseal_eab.migrations", head="0001")
