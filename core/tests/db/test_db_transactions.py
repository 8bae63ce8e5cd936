"""What a transaction function sees and does, alike on both databases."""

import asyncio

import msgspec
import pytest
from sqlalchemy import Column, MetaData, func, insert, select, update

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest, Conflict, NotFound, Unavailable
from greatseal.api.store import Refuse, Refused, operation, scan
from greatseal.clock import SystemClock
from greatseal.db.core_tables import audit
from greatseal.db.tables import Blob, Collection, Flag, Id, Moment, Serial, State, Text, insert_new, param, table

metadata = MetaData()
code = table("t_code", metadata, State.OWNED, Column("digest", Id, primary_key=True), Column("used_at", Moment))
entry = table("t_entry", metadata, State.OWNED, Column("id", Serial, primary_key=True), Column("text", Text, nullable=False))
client = table(
    "t_client",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("key", Blob),
    Column("open", Flag),
)
CLIENTS = Collection("client", client)

CONSUME = (
    update(code).where(code.c.digest == param("digest"), code.c.used_at.is_(None)).values(used_at=param("now")).returning(code.c.digest)
)
NEW_CODE = insert_new(code, code.c.digest)
WRITE = insert(entry).values(text=param("text"))
TEXTS = select(entry.c.text).order_by(entry.c.id)
CLIENT = select(client).where(client.c.id == param("id"))
EVENTS = select(audit).order_by(audit.c.id)

FAILURE = AuditEvent(event_type="code.redeem", service="idp", outcome="failure", client_id="c1")


def write_entry(tx, text):
    tx.run(WRITE, text=text)


async def texts(database):
    return [row.text for row in await database.read(lambda tx: tx.all(TEXTS))]


async def events(database):
    return [(row.event_type, row.outcome) for row in await database.read(lambda tx: tx.all(EVENTS))]


async def test_of_fifty_guarded_updates_one_wins(database):
    await database.write(lambda tx: tx.run(NEW_CODE, digest="d"))

    answers = await asyncio.gather(*(database.write(lambda tx: tx.one(CONSUME, digest="d", now=tx.now)) for _ in range(50)))

    assert sum(answer is not None for answer in answers) == 1


async def test_of_fifty_insertions_of_one_key_one_counts(database):
    counts = await asyncio.gather(*(database.write(lambda tx: tx.count(NEW_CODE, digest="d")) for _ in range(50)))

    assert sorted(counts) == [0] * 49 + [1]


async def test_a_guarded_update_counts_its_rows_also_with_returning(database):
    def use(tx):
        tx.run(NEW_CODE, digest="d")
        return tx.count(CONSUME, digest="d", now=1), tx.count(CONSUME, digest="d", now=2)

    assert await database.write(use) == (1, 0)


async def test_put_creates_and_then_changes_only_what_is_given(database, told):
    await database.write(lambda tx: tx.put(CLIENTS, "c1", name="first", key=b"\x00\xff"))
    await database.write(lambda tx: tx.put(CLIENTS, "c1", open=1))
    await database.write(lambda tx: tx.put(CLIENTS, "c1"))

    row = await database.read(lambda tx: tx.one(CLIENT, id="c1"))
    assert tuple(row) == ("c1", "first", b"\x00\xff", 1)
    assert told == [("client", "c1")] * 3


async def test_remove_says_whether_there_was_one(database, told):
    await database.write(lambda tx: tx.put(CLIENTS, "c1", name="first"))

    assert [await database.write(lambda tx: tx.remove(CLIENTS, "c1")) for _ in range(2)] == [True, False]
    assert await database.read(lambda tx: tx.one(CLIENT, id="c1")) is None
    assert told == [("client", "c1")] * 3


async def test_put_of_an_unknown_field_is_named(database):
    with pytest.raises(TypeError, match=r"no such fields to put: \['nam'\]"):
        await database.write(lambda tx: tx.put(CLIENTS, "c1", nam="x"))


async def test_an_event_is_written_with_what_it_tells(database):
    def act(tx):
        tx.audit(AuditEvent(event_type="cert.issue", service="ca", sub="alice", principal="p", detail="d"))
        write_entry(tx, "issued")
        return tx.now

    now = await database.write(act)

    (row,) = await database.read(lambda tx: tx.all(EVENTS))
    assert (row.event_type, row.service, row.outcome, row.sub, row.client_id, row.principal, row.detail, row.created_at) == (
        "cert.issue", "ca", "success", "alice", None, "p", "d", now
    )  # fmt: skip


async def test_a_raised_refusal_undoes_everything_but_its_events(database, told):
    def refuse(tx):
        write_entry(tx, "undone")
        tx.audit(AuditEvent(event_type="undone", service="idp"))
        tx.changed("client", "c1")
        tx.after_commit(lambda: told.append(("after", "commit")))
        raise Refuse(BadRequest("no"), [FAILURE])

    with pytest.raises(BadRequest, match="no"):
        await database.write(refuse)

    assert await texts(database) == []
    assert await events(database) == [("code.redeem", "failure")]
    assert told == []


async def test_a_refusal_in_a_read_reaches_the_caller_as_its_problem(database):
    def refuse(_tx, audit=()):
        raise Refuse(NotFound("there is none"), audit)

    with pytest.raises(NotFound, match="there is none"):
        await database.read(refuse)
    with pytest.raises(NotFound, match="there is none"):
        await database.read(scan(refuse))
    with pytest.raises(RuntimeError, match="a read writes no audit events"):
        await database.read(refuse, [FAILURE])


async def test_a_returned_refusal_commits(database, told):
    def refused(tx):
        write_entry(tx, "family revoked")
        tx.changed("family", "f1")
        return Refused(BadRequest("replayed"))

    answer = await database.write(refused)

    assert answer.problem.detail == "replayed"
    assert await texts(database) == ["family revoked"]
    assert told == [("family", "f1")]


@pytest.mark.parametrize("error", [Conflict("taken"), KeyError("k"), StopIteration()], ids=["problem", "mistake", "StopIteration"])
async def test_any_other_exception_undoes_everything_and_reaches_the_caller(database, error):
    def fail(tx):
        write_entry(tx, "undone")
        raise error

    with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
        await database.write(fail)

    assert await texts(database) == []


async def test_a_violated_constraint_reaches_the_caller(database):
    with pytest.raises(Exception, match=r"(?i)null") as caught:
        await database.write(lambda tx: tx.run(WRITE, text=None))

    assert not isinstance(caught.value, Unavailable)
    assert type(caught.value).__name__ in {"IntegrityError", "NotNullViolation"}


async def test_going_on_after_a_database_error_is_refused(database):
    def swallow(tx):
        try:
            tx.count(WRITE, text=None)
        except Exception:  # noqa: BLE001
            return "fine"

    with pytest.raises(RuntimeError, match="went on after a database error"):
        await database.write(swallow)


async def test_an_async_function_and_a_kept_transaction_are_refused(database):
    async def later(_tx):
        """Never runs."""

    with pytest.raises(TypeError, match="not async"):
        await database.write(later)

    kept = await database.write(lambda tx: tx)
    with pytest.raises(RuntimeError, match="the transaction is over"):
        kept.run(WRITE, text="late")


async def test_a_transaction_kept_by_a_function_that_failed_is_refused(database):
    kept = []

    def fail(tx):
        kept.append(tx)
        raise ValueError

    with pytest.raises(ValueError):
        await database.write(fail)
    with pytest.raises(RuntimeError):
        kept[0].run(WRITE, text="late")


async def test_a_read_only_selects(database):
    for bad in (
        lambda tx: tx.run(WRITE, text="x"),
        lambda tx: tx.put(CLIENTS, "c1", name="x"),
        lambda tx: tx.remove(CLIENTS, "c1"),
        lambda tx: tx.audit(FAILURE),
        lambda tx: tx.changed("client", "c1"),
        lambda tx: tx.after_commit(print),
    ):
        with pytest.raises(TypeError, match="a read only selects"):
            await database.read(bad)
    with pytest.raises(TypeError, match="count tells how many rows a write changed"):
        await database.write(lambda tx: tx.count(TEXTS))


async def test_a_read_sees_one_state(database):
    await database.write(write_entry, "before")
    loop = asyncio.get_running_loop()

    @scan
    def look_twice(tx):
        first = len(tx.all(TEXTS))
        asyncio.run_coroutine_threadsafe(database.write(write_entry, "between"), loop).result(30)
        return first, len(tx.all(TEXTS))

    assert await database.read(look_twice) == (1, 1)
    assert await texts(database) == ["before", "between"]


async def test_memory_is_told_and_functions_run_before_the_caller_goes_on(database, told):
    def act(tx):
        tx.after_commit(lambda: told.append(("after", "1")))
        tx.changed("client", "c1")

    await database.write(act)

    assert told == [("client", "c1"), ("after", "1")]


async def test_a_function_that_fails_after_the_commit_changes_nothing(database, told):
    def act(tx):
        tx.after_commit(lambda: 1 / 0)
        tx.after_commit(lambda: told.append(("after", "2")))
        write_entry(tx, "committed")
        return "answer"

    assert await database.write(act) == "answer"
    assert await texts(database) == ["committed"]
    assert told == [("after", "2")]


async def test_time_stands_still_in_a_transaction(database):
    def look(tx):
        first = tx.now
        while SystemClock().now() == first:
            pass
        return first, tx.now, tx.node_id

    first, second, node = await database.write(look)
    assert first == second
    assert node == "n1"


async def test_a_healthy_database_says_so(database):
    result = await database.healthy()
    assert result.ok
    assert database.dialect in result.detail


async def test_the_sum_of_concurrent_increments_is_exact(database):
    await database.write(lambda tx: tx.put(CLIENTS, "c1", name="0"))
    read_name = select(client.c.name).where(client.c.id == param("id"))

    def increment(tx):
        tx.put(CLIENTS, "c1", name=str(int(tx.one(read_name, id="c1").name) + 1))

    await asyncio.gather(*(database.write(increment) for _ in range(40)))

    assert (await database.read(lambda tx: tx.one(read_name, id="c1"))).name == "40"


async def test_two_that_each_see_the_other_absent_cannot_both_commit(database):
    """Write skew: at most one entry is wanted, and every function looks before it writes."""
    counted = select(func.count().label("many")).select_from(entry)

    def first_only(tx):
        if tx.one(counted).many:
            return False
        write_entry(tx, "only")
        return True

    answers = await asyncio.gather(*(database.write(first_only) for _ in range(20)))

    assert sorted(answers) == [False] * 19 + [True]


class Redeem(msgspec.Struct):
    node: str
    digest: str


@operation("test.redeem", owner=lambda argument: argument.node)
def redeem(tx, argument):
    tx.run(NEW_CODE, digest=argument.digest)
    return argument


async def test_an_operation_on_rows_of_this_node_is_a_plain_call(database):
    assert await database.write(redeem, Redeem("n1", "d")) == Redeem("n1", "d")


async def test_an_operation_on_rows_of_an_unknown_node_is_unavailable(database):
    with pytest.raises(Unavailable) as caught:
        await database.write(redeem, Redeem("n9", "d"))

    assert "n9" in caught.value.cause
    assert "n9" not in caught.value.detail
    assert await database.read(lambda tx: tx.one(select(code))) is None
