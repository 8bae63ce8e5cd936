"""Rules travel to every node."""

from sqlalchemy import Column, MetaData

from greatseal.api.declarations import Schema
from greatseal.db.tables import Collection, Document, Id, Moment, State, table

metadata = MetaData()

rule = table(
    "hbac_rule",
    metadata,
    State.REPLICATED,
    Column("rule_id", Id, primary_key=True),
    Column("content", Document, nullable=False),  # greatseal_hbac.rules.Content
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)
RULE = Collection("hbac_rule", rule)

SCHEMA = Schema(feature="hbac", metadata=metadata, migrations="greatseal_hbac.migrations", head="0001")
