"""ended families are found"""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("idp_family", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idp_family_revoked_at"), ["revoked_at"], unique=False)
