"""Statements compiled once and run raw."""

import gc

import pytest
from sqlalchemy import Column, MetaData, Table, delete, func, insert, select, text, tuple_, update

from greatseal.db.statements import Statements
from greatseal.db.tables import Id, Moment, Serial, State, insert_new, param, table
from greatseal.db.transaction import arguments_of

metadata = MetaData()
code = table(
    "t_code",
    metadata,
    State.OWNED,
    Column("id", Serial, primary_key=True),
    Column("digest", Id, nullable=False, unique=True),
    Column("used_at", Moment),
)
client = table("t_client", metadata, State.REPLICATED, Column("id", Id, primary_key=True))

CONSUME = (
    update(code)
    .where(code.c.digest == param("digest"), code.c.used_at.is_(None))
    .values(used_at=param("now"))
    .returning(code.c.id, code.c.used_at)
)


@pytest.fixture(params=["sqlite", "postgresql"])
def statements(request):
    return Statements(request.param)


def test_values_are_ordered_as_the_text_wants_them(statements):
    compiled = statements.of(CONSUME)

    assert arguments_of(compiled, {"digest": "d", "now": 7}) == [7, "d"]
    assert compiled.writes


def test_a_name_used_twice_is_given_once(statements):
    twice = update(code).where(code.c.used_at < param("now")).values(used_at=param("now"))

    assert set(arguments_of(statements.of(twice), {"now": 3})) == {3}


def test_values_written_into_the_statement_stay_in_it(statements):
    first = select(code).where(code.c.digest > "A", code.c.digest == param("digest"))

    assert arguments_of(statements.of(first), {"digest": "d"}) == ["A", "d"]


def test_on_postgresql_words_and_numbers_stand_in_the_text_and_nothing_else_does():
    """A plan is made for all values: one of a parameter could not use a partial index."""
    constants = (
        select(code).where(code.c.digest == "processing", code.c.used_at > 5, code.c.digest != "it's\\", code.c.digest != "A").limit(1)
    )

    compiled = Statements("postgresql").of(constants)

    assert "'processing'" in compiled.text
    assert "LIMIT 1" in compiled.text
    assert arguments_of(compiled, {}) == ["it's\\", "A"]


@pytest.mark.parametrize("values", [{}, {"digest": "d"}, {"digest": "d", "now": 1, "more": 2}, {"digest": "d", "then": 1}])
def test_missing_and_surplus_values_are_named(statements, values):
    with pytest.raises(TypeError, match=r"takes \['digest', 'now'\]"):
        arguments_of(statements.of(CONSUME), values)


def test_a_statement_is_compiled_once_and_forgotten_with_its_object(statements):
    kept = select(code.c.id)
    assert statements.of(kept) is statements.of(kept)

    gone = select(code.c.digest)
    statements.of(gone)
    before = len(statements.known)
    del gone
    gc.collect()

    assert len(statements.known) == before - 1


def test_a_statement_made_from_another_has_a_text_of_its_own(statements):
    base = select(code.c.id)
    assert "WHERE" not in statements.of(base).text

    assert "WHERE" in statements.of(base.where(code.c.id == 1)).text


@pytest.mark.parametrize(
    "statement",
    [
        insert(client),
        update(client).values(id="x"),
        delete(client),
        insert_new(client),
        select(delete(client).where(client.c.id == "x").returning(client.c.id).cte("gone").c.id),
    ],
    ids=["insert", "update", "delete", "insert_new", "in a common table expression"],
)
def test_a_raw_write_to_a_replicated_table_is_refused(statements, statement):
    with pytest.raises(TypeError, match=r"t_client is REPLICATED: write it with tx\.put"):
        statements.of(statement)


def test_a_table_without_state_is_refused(statements):
    stray = Table("t_stray", MetaData(), Column("id", Id, primary_key=True))

    with pytest.raises(TypeError, match="t_stray declares no State"):
        statements.of(select(stray))


def test_a_list_for_in_and_plain_text_are_refused(statements):
    with pytest.raises(TypeError, match="IN takes no list"):
        statements.of(select(code).where(code.c.digest.in_(["a", "b"])))
    with pytest.raises(TypeError, match="SQLAlchemy Core"):
        statements.of(text("SELECT 1"))


async def test_rows_have_the_names_of_their_columns(database):
    def both(tx):
        for digest in ("a", "b"):
            tx.run(insert(code).values(digest=param("digest")), digest=digest)
        other = code.alias("other")
        row = tx.one(select(code.c.digest, func.count().label("many"), func.sum(code.c.id)).group_by(code.c.digest))
        pairs = select(code.c.digest, other.c.digest.label("second")).where(tuple_(code.c.id, other.c.id) == tuple_(1, 2))
        return row, tx.one(pairs)

    row, pair = await database.write(both)

    assert (row.digest, row.many) == ("a", 1)
    assert type(row.sum_1) is int
    assert (pair.digest, pair.second) == ("a", "b")


async def test_limit_and_offset_are_values(database):
    page = select(code.c.digest).order_by(code.c.id).limit(param("limit")).offset(param("offset"))

    def pages(tx):
        for number in range(5):
            tx.run(insert(code).values(digest=param("digest")), digest=f"d{number}")
        return [row.digest for row in tx.all(page, limit=2, offset=3)]

    assert await database.write(pages) == ["d3", "d4"]
