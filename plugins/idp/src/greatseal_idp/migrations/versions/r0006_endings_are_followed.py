"""endings are followed in bites"""

import sqlalchemy as sa
from alembic import op

from greatseal.db.tables import Blob, Id, Moment, Serial, Text

revision = "0006"
down_revision = "0005"

LIVE = sa.text("revoked_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "idp_ending",
        sa.Column("id", Id(), nullable=False),
        sa.Column("kind", Text(), nullable=False),
        sa.Column("client_id", Id(), nullable=True),
        sa.Column("subject", Text(), nullable=True),
        sa.Column("session_id", Id(), nullable=True),
        sa.Column("origin", Blob(), nullable=True),
        sa.Column("up_to", Moment(), nullable=False),
        sa.Column("step", Serial, nullable=False),
        sa.Column("reached", Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.drop_index("idp_consent_client", "idp_consent")
    op.create_index("idp_consent_client", "idp_consent", ["client_id", "id"])
    op.drop_index("idp_family_session", "idp_family")
    op.drop_index("idp_family_origin", "idp_family")
    op.create_index("idp_family_session", "idp_family", ["session_id", "expires_at", "id"], sqlite_where=LIVE, postgresql_where=LIVE)
    op.create_index("idp_family_origin", "idp_family", ["origin", "expires_at", "id"], sqlite_where=LIVE, postgresql_where=LIVE)
