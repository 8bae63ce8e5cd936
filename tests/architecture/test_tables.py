"""Nothing grows without a bound: each table says how its rows leave, and whatever deletes many finds them by an index, some at a time."""

import ast
import importlib
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest
from sqlalchemy import Delete, Select, Table, create_engine, text
from sqlalchemy.dialects import sqlite

from greatseal.audit import SCHEMA
from greatseal.kernel.loading import installed

ROOT = Path(__file__).parents[2]

STAY = {
    "core_audit": "what happened is not forgotten; an operator who may delete it does so in the database",
    "core_key": "a key for each rotation, some in a year",
    "core_cluster_key": "one row",
    "core_envelope_key": "a key for each node",
    "core_blocked_key": "a key that was given up must never be taken again; operators and revocations fill it",
    "acme_account": "certificates name it, and its key is never given to another (RFC 8555 s7.3.6)",
    "ca_profile": "administrators make and delete it, 1,000 at most",
    "eab_key": "operators make and delete it, and one that was used must be known as used",
    "eab_use": "it is there as long as its key, and keeps a key of the configuration from coming back",
    "ca_authority": "a certificate for each generation of a CA",
    "ca_first": "two for each CA that is made here, and one for a start that a kill interrupted there",
    "ca_request": "one for each CA, as long as it waits",
    "ca_subordinate": "a row for each certificate of a CA that a root signs, a few in years",
    "ca_chain": "a chain for each generation of a CA",
    "ca_crl": "a list for each 5,000 live certificates, used again when they expire",
    "ca_crl_base": "a URL for each that was ever configured",
    "ca_name": "by it every certificate can be found",
    "ca_certificate": "every certificate that was signed can be listed and revoked",
    "mtc_log": "one for each log",
    "mtc_object": "what a log holds it holds for ever: two rows for each 256 entries",
    "mtc_document": "a checkpoint for each log",
    "mtc_witness": "one for each log that [witness] names",
    "ca_admin_operator": "administrators delete operators",
    "ca_admin_halt": "one row",
    "mtc_current": "one for each CA",
    "mtc_entry": "one for each certificate: its place in the log is for good",
    "federation_account": "administrators and people unlink accounts; one for each person at a provider who signed in here",
    "federation_name": "a name that a person had is given to nobody else; one for each person whom a provider made",
    "federation_override": "one for each provider of the directory",
    "hbac_rule": "administrators delete rules, and there are 10,000 at most",
    "otp_step": "it is there as long as its token",
    "otp_recovery": "one for each person with a token, and gone with the last one",
    "otp_wrong": "one for each person whose last code was wrong",
    "otp_recovery_code": "ten for each person with a token at most, and gone with the last one",
    "passkey_credential": "people delete them, and there are 20 of each person at most",
    "passkey_record": "one for each passkey",
    "passkey_secret": "one row",
    "idp_client": "administrators delete clients",
    "idp_scope": "administrators delete scopes",
    "idp_consent": "remembered until it is withdrawn or its client is deleted: one for each person and client",
    "idp_mail": "one for each person who confirmed an address",
    "idp_secret": "a key for each node",
}
"""Tables whose rows no job deletes, and why that is right."""
LEAVE = {
    "ciba_request": "greatseal_ciba.requests:REQUESTS.old",
    "device_flow_request": "greatseal_device_flow.requests:REQUESTS.old",
    "core_strike": "greatseal.kernel.strikes:FORGET",
    "acme_order": "greatseal_acme.purge:_DROP_ORDER",
    "acme_authorization": "greatseal_acme.purge:_DROP_AUTHORIZATION",
    "acme_order_authorization": "greatseal_acme.purge:_UNLINK",
    "acme_challenge": "greatseal_acme.purge:_DROP_CHALLENGES",
    "acme_validation": "greatseal_acme.purge:_DROP_VALIDATIONS",
    "ca_crl_number": "greatseal_ca.lists:_DROP_NUMBERS",
    "ca_revocation": "greatseal_ca.lists:_DROP_TOLD",
    "ca_responder": "greatseal_ca.delegation:_DROP",
    "ca_admin_attempt": "greatseal_ca_admin.lockout:_FORGET",
    "ca_admin_session": "greatseal_ca_admin.sessions:_IDLE",
    "mtc_revoked": "greatseal_mtc.revoked:_DROP",
    "mtc_checkpoint": "greatseal_mtc.stored_checkpoints:_DROP",
    "mtc_cosignature": "greatseal_mtc.stored_checkpoints:_DROP_COSIGNATURES",
    "mtc_witnessed": "greatseal_mtc.stored_checkpoints:_DROP_WITNESSED",
    "mtc_landmark": "greatseal_mtc.stored_landmarks:_DROP",
    "idp_session": "greatseal_idp.sessions.store:EXPIRED",
    "idp_authorization": "greatseal_idp.authorize.waiting:_SWEEP",
    "idp_code": "greatseal_idp.token.cleanup:_CODES",
    "idp_family": "greatseal_idp.token.cleanup:_ENDED",
    "idp_ending": "greatseal_idp.token.endings:_OVER",
    "idp_revoked": "greatseal_idp.token.revoked:_FORGET",
    "idp_notification": "greatseal_idp.sessions.backchannel:OVER",
    "idp_reset": "greatseal_idp.sessions.resets:_OLD",
    "idp_place": "greatseal_idp.sessions.places:_OLD",
    "federation_session": "greatseal_federation.sessions:OLD",
    "notices_notice": "greatseal_notices.queue:OVER",
    "otp_token": "greatseal_otp.tokens:ABANDONED",
    "otp_device": "greatseal_otp.devices:OVER",
    "registration_client": "greatseal_registration.usage:_UNUSED",
}
"""The statement by which the rows of a table leave, or are found for it."""
SMALL = {"core_blocked_key", "core_cluster_key", "core_envelope_key", "core_key", "idp_ending"}
"""A walk through the whole of these is short."""


def tables() -> dict[str, Table]:
    """Every table of the core and of all installed plugins."""
    found = dict(SCHEMA.metadata.tables)
    for points in installed().values():
        for point in points:
            schemas = getattr(point.load()(), "schemas", tuple)
            for schema in schemas():
                found |= schema.metadata.tables
    return found


def deletions() -> Iterator[tuple[str, Delete]]:
    """Every DELETE that a module of the workspace has under a name, with its name."""
    for package in ROOT.glob("*/src/*"), ROOT.glob("plugins/*/src/*"):
        for path in (module for folder in package for module in folder.rglob("*.py")):
            if any(isinstance(node, ast.alias) and node.name == "delete" for node in ast.walk(ast.parse(path.read_text()))):
                source = next(parent for parent in path.parents if parent.name == "src")
                name = ".".join(path.relative_to(source).with_suffix("").parts)
                for attribute, value in vars(importlib.import_module(name)).items():
                    if isinstance(value, Delete):
                        yield f"{name}:{attribute}", value


DELETIONS = dict(deletions())


def statement_of(name: str) -> Delete | Select[tuple[object, ...]]:
    module, _, attribute = name.partition(":")
    found = attrgetter(attribute)(importlib.import_module(module))
    assert isinstance(found, Delete | Select)
    return found


def test_every_table_says_how_its_rows_leave():
    assert not STAY.keys() & LEAVE.keys()
    assert STAY.keys() | LEAVE.keys() == tables().keys()


def test_a_row_leaves_by_a_statement_about_its_table():
    about = {}
    for table, name in LEAVE.items():
        statement = statement_of(name)
        (about[table],) = {statement.table.name} if isinstance(statement, Delete) else {one.name for one in statement.get_final_froms()}

    assert about == {table: table for table in LEAVE}


@pytest.mark.parametrize("name", sorted(DELETIONS.keys() | set(LEAVE.values())))
def test_no_deletion_looks_through_a_table(name):
    engine = create_engine("sqlite://")
    for table in tables().values():
        table.metadata.create_all(engine)
    compiled = str(statement_of(name).compile(dialect=sqlite.dialect()))

    with engine.connect() as connection:
        steps = [row.detail for row in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled.replace('?', '1')}"))]
    engine.dispose()

    assert not [step for step in steps if step.startswith("SCAN") and step.split()[1] not in SMALL], steps
