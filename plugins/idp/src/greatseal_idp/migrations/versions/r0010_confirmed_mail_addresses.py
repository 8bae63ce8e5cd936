"""confirmed mail addresses"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Id, Moment, Text

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "idp_mail",
        sa.Column("id", Id(), nullable=False),
        sa.Column("email", Text(), nullable=False),
        sa.Column("confirmed_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
