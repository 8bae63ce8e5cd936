"""Clients, scopes, consents and sessions are replicated; codes, requests and refresh families belong to the node that made them."""

from sqlalchemy import Column, Index, MetaData, PrimaryKeyConstraint, text

from greatseal.api.declarations import Schema
from greatseal.db.tables import Blob, Collection, Document, Flag, Id, Moment, Sealed, Serial, State, Text, table

metadata = MetaData()


def _index_where(condition: str, name: str, *columns: str) -> Index:
    """An index of the rows that a condition holds for."""
    return Index(name, *columns, sqlite_where=text(condition), postgresql_where=text(condition))


_LIVE = "revoked_at IS NULL"

client = table(
    "idp_client",
    metadata,
    State.REPLICATED,
    Column("client_id", Id, primary_key=True),
    Column("client_name", Text, nullable=False),
    Column("token_endpoint_auth_method", Text, nullable=False),
    Column("redirect_uris", Document, nullable=False),
    Column("scopes", Document, nullable=False),
    Column("grant_types", Document, nullable=False),
    Column("secret_form", Text),
    Column("secret_digest", Blob),
    Column("secret_sealed", Sealed),
    Column("secret_length", Serial),  # characters; unknown of one that was stored before there was a least length
    Column("jwks_uri", Text),
    Column("jwks", Document),
    Column("tls_client_certificate_sha256", Text),
    Column("kerberos_principal", Text),
    Column("kerberos_principal_pattern", Text),
    Column("kerberos_hbac_service", Text),
    Column("spiffe_id", Text),
    Column("workload_type", Text),
    Column("allow_token_exchange_actor", Flag, nullable=False),
    Column("source", Text, nullable=False),
    Column("more", Document, nullable=False),  # members without a column: post_logout_redirect_uris, backchannel_logout_uri, ...
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Index("idp_client_created", "created_at", "client_id"),
    *(
        _index_where(f"{name} IS NOT NULL", f"idp_client_{name}", name, "client_id")
        for name in ("kerberos_principal", "kerberos_principal_pattern", "spiffe_id")
    ),
)
CLIENT = Collection("idp_client", client)

scope = table(
    "idp_scope",
    metadata,
    State.REPLICATED,
    Column("name", Id, primary_key=True),
    Column("description", Text, nullable=False),
    Column("claims", Document, nullable=False),
    Column("is_system", Flag, nullable=False),
)
SCOPE = Collection("idp_scope", scope)

session = table(
    "idp_session",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),
    Column("digest", Blob, nullable=False, unique=True),  # SHA-256 of the cookie's value
    Column("subject", Text, nullable=False),
    Column("username", Text, nullable=False),
    Column("realm", Text, nullable=False),
    Column("groups", Document, nullable=False),
    Column("amr", Document, nullable=False),
    Column("acr", Text),
    Column("auth_time", Moment, nullable=False),
    Column("remote", Text, nullable=False),
    Column("user_agent", Text),
    Column("upstream", Document),
    Column("clients", Document, nullable=False),  # client ids that got an ID token in it: whom a logout is told
    Column("created_at", Moment, nullable=False),
    Column("last_seen_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Index("idp_session_subject", "subject"),
    Index("idp_session_end", "expires_at"),
)
SESSION = Collection("idp_session", session)

consent = table(
    "idp_consent",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),  # SHA-256 of subject, NUL, client id
    Column("subject", Text, nullable=False),
    Column("client_id", Id, nullable=False),
    Column("scopes", Document, nullable=False),
    Column("granted_at", Moment, nullable=False),
    Index("idp_consent_client", "client_id", "id"),
    Index("idp_consent_subject", "subject", "granted_at", "client_id"),
)
CONSENT = Collection("idp_consent", consent)

authorization = table(
    "idp_authorization",
    metadata,
    State.OWNED,
    Column("digest", Blob, primary_key=True),  # SHA-256 of the handle
    Column("kind", Text, nullable=False),  # pushed (a request_uri) or pending (waits for sign-in or consent)
    Column("client_id", Id, nullable=False),
    Column("session_id", Id),
    Column("subject", Text),
    Column("parameters", Document, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False, index=True),
    Column("used_at", Moment),
    Index("idp_authorization_session", "session_id"),
)
"""Authorization requests that wait: pushed ones, and those before a sign-in or a consent."""

code = table(
    "idp_code",
    metadata,
    State.OWNED,
    Column("digest", Blob, primary_key=True),  # SHA-256 of the code; also the origin under which all it gave is revoked
    Column("client_id", Id, nullable=False),
    Column("redirect_uri", Text, nullable=False),
    Column("code_challenge", Text),
    Column("subject", Text, nullable=False),
    Column("session_id", Id),
    Column("scopes", Document, nullable=False),
    Column("implied", Document),  # scopes that were allowed for what "claims" names, and are in no token
    Column("nonce", Text),
    Column("claims", Document),
    Column("more", Document),  # what extensions keep of the authorization, by name
    Column("auth_time", Moment, nullable=False),
    Column("amr", Document, nullable=False),
    Column("acr", Text),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False, index=True),
    Column("used_at", Moment),
)

family = table(
    "idp_family",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("client_id", Id, nullable=False),
    Column("subject", Text, nullable=False),
    Column("session_id", Id),
    Column("origin", Blob),
    Column("scopes", Document, nullable=False),
    Column("granted", Document, nullable=False),  # what a refresh needs: authentication, claims, audiences
    Column("generation", Serial, nullable=False),
    Column("rotated_at", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("idle_expires_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("revoked_at", Moment),
    _index_where("revoked_at IS NOT NULL", "idp_family_revoked", "revoked_at"),
    _index_where(_LIVE, "idp_family_end", "expires_at", "id"),
    _index_where(_LIVE, "idp_family_subject", "subject", "expires_at", "id"),
    _index_where(_LIVE, "idp_family_client", "client_id", "expires_at", "id"),
    _index_where(_LIVE, "idp_family_session", "session_id", "expires_at", "id"),
    _index_where(_LIVE, "idp_family_origin", "origin", "expires_at", "id"),
)

ending = table(
    "idp_ending",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),  # client, consent, session, origin, families
    Column("client_id", Id),
    Column("subject", Text),
    Column("session_id", Id),
    Column("origin", Blob),
    Column("up_to", Moment, nullable=False),
    Column("step", Serial, nullable=False),
    Column("reached", Text, nullable=False),  # the key of the last row that was looked at in this step
)
"""What is over though not all of its rows say so yet: whatever was granted until ``up_to`` to all that a row names."""

revoked = table(
    "idp_revoked",
    metadata,
    State.APPEND_ONLY,
    Column("kind", Text, nullable=False),  # jti, family, origin, session, client
    Column("value", Text, nullable=False),
    Column("until", Moment, nullable=False, index=True),
    PrimaryKeyConstraint("kind", "value"),
)
"""What was revoked before its time, until the last token of it has expired; a snapshot of it is checked with every token."""

secret = table(
    "idp_secret",
    metadata,
    State.REPLICATED,
    Column("name", Id, primary_key=True),  # refresh/<node> and envelope/<node>: what proves that node's tokens and cookies
    Column("value", Sealed, nullable=False),
    Column("created_at", Moment, nullable=False),
)
SECRET = Collection("idp_secret", secret)

notification = table(
    "idp_notification",
    metadata,
    State.OWNED,
    Column("id", Id, primary_key=True),
    Column("client_id", Id, nullable=False),
    Column("subject", Text, nullable=False),
    Column("session_id", Id),
    Column("attempts", Serial, nullable=False),
    Column("due_at", Moment, nullable=False, index=True),
    Column("expires_at", Moment, nullable=False),
)
"""Back-channel logout notifications that are still to be delivered."""

place = table(
    "idp_place",
    metadata,
    State.LOCAL,
    Column("name", Text, nullable=False),  # SHA-256 of the user name
    Column("source", Text, nullable=False),  # an IPv4 address, or the /64 of an IPv6 one; before it the name of a program
    Column("used_at", Moment, nullable=False, index=True),
    PrimaryKeyConstraint("name", "source"),
)
"""Addresses that a person has signed in from: failures from elsewhere are counted apart."""

reset = table(
    "idp_reset",
    metadata,
    State.OWNED,
    Column("digest", Blob, primary_key=True),  # SHA-256 of the handle in the link
    Column("subject", Text, nullable=False),
    Column("username", Text, nullable=False),
    Column("setter", Text, nullable=False),  # the directory whose password is set
    Column("before", Moment),  # when the one before was set, where the directory tells
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False, index=True),
    Column("used_at", Moment),  # a password is being set; the row is deleted when it is
    Index("idp_reset_subject", "subject"),
    Index("idp_reset_used", "used_at"),
)
"""Links by which people choose a new password."""

mail = table(
    "idp_mail",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),  # the subject
    Column("email", Text, nullable=False),
    Column("confirmed_at", Moment, nullable=False),
)
MAIL = Collection("idp_mail", mail)
"""The address that a person has confirmed, by a link in a mail to it."""

SCHEMA = Schema("idp", metadata, "greatseal_idp.migrations", "0010")
