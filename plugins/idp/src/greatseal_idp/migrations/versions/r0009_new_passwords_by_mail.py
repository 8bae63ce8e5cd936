"""new passwords by a link in a mail"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Moment, Text

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "idp_reset",
        sa.Column("digest", Blob(), nullable=False),
        sa.Column("subject", Text(), nullable=False),
        sa.Column("username", Text(), nullable=False),
        sa.Column("setter", Text(), nullable=False),
        sa.Column("before", Moment(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("expires_at", Moment(), nullable=False),
        sa.Column("used_at", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("ix_idp_reset_expires_at", "idp_reset", ["expires_at"])
    op.create_index("idp_reset_subject", "idp_reset", ["subject"])
    op.create_index("idp_reset_used", "idp_reset", ["used_at"])
