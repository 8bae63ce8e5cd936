"""Schema versions: first start, upgrades, newer schemas, several processes at once."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Column, Index, MetaData, create_engine, inspect, text

from greatseal.api.declarations import Schema
from greatseal.audit import SCHEMA
from greatseal.db.migrate import StoreProblem, ensure, open_store, version_table
from greatseal.db.revise import revise
from greatseal.db.tables import Flag, Id, Moment, Serial, State, Text, table
from greatseal.testing.schema import schema_matches

metadata = MetaData()


def declared(*more):
    tables = MetaData()
    table(
        "sample_thing", tables, State.OWNED, Column("id", Serial, primary_key=True), Column("name", Id, nullable=False, unique=True), *more
    )
    return tables


@pytest.fixture
def sample(tmp_path, monkeypatch, request):
    """The schema of a plugin, before its first migration."""
    package = f"sample_{abs(hash(request.node.name))}"
    versions = tmp_path / package / "migrations" / "versions"
    versions.mkdir(parents=True)
    for folder in (versions.parent.parent, versions.parent, versions):
        (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return Schema(feature="sample-01", metadata=declared(), migrations=f"{package}.migrations", head="0001")


@pytest.fixture
def grown(sample):
    """The schema one release later; both migrations are written."""
    revise(sample, "0001", "things")
    later = Schema(
        feature=sample.feature,
        metadata=declared(Column("used_at", Moment, index=True), Column("open", Flag), Column("note", Text)),
        migrations=sample.migrations,
        head="0002",
    )
    revise(later, "0002", "things are used")
    return later


def tables_of(url):
    engine = open_store(url).engine()
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def test_on_a_first_start_every_schema_is_made(database_url, grown):
    seen = []

    assert ensure(database_url, [SCHEMA, grown], "auto", progress=seen.append) == seen == [
        f"core: nothing -> {SCHEMA.head}",
        "sample-01: nothing -> 0002",
    ]  # fmt: skip
    assert tables_of(database_url) >= {"core_audit", "core_strike", "core_key", "sample_thing", "sample_01_alembic_version"}
    assert ensure(database_url, [SCHEMA, grown], "check") == []


def test_a_schema_that_is_behind_is_brought_up_with_its_rows(database_url, sample, grown):
    ensure(database_url, [sample], "auto")
    engine = open_store(database_url).engine()
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO sample_thing (name) VALUES ('kept')"))

    assert ensure(database_url, [grown], "auto") == ["sample-01: 0001 -> 0002"]

    with engine.begin() as connection:
        assert connection.execute(text("SELECT name, used_at FROM sample_thing")).all() == [("kept", None)]
    engine.dispose()


def test_drafted_migrations_make_what_was_declared(database_url, grown):
    assert schema_matches(grown, database_url) == []


def test_a_forgotten_migration_is_seen(database_url, grown):
    more = Schema(feature=grown.feature, metadata=declared(), migrations=grown.migrations, head="0002")
    assert {difference[0] for difference in schema_matches(more, database_url)} == {"remove_column", "remove_index"}

    behind = Schema(feature=grown.feature, metadata=grown.metadata, migrations=grown.migrations, head="0001")
    assert schema_matches(behind, database_url) == ["the newest migration is 0002, Schema.head says 0001"]


def test_check_refuses_a_schema_that_is_behind_and_names_the_cure(database_url, sample, grown):
    with pytest.raises(
        StoreProblem, match=rf"^the tables of core are not there, this release needs {SCHEMA.head}: run `greatseal migrate`$"
    ):
        ensure(database_url, [SCHEMA], "check")
    ensure(database_url, [sample], "auto")
    with pytest.raises(StoreProblem, match=r"^the tables of sample-01 are at 0001, this release needs 0002: run `greatseal migrate`$"):
        ensure(database_url, [grown], "check")


@pytest.mark.parametrize("mode", ["auto", "check"])
def test_a_schema_of_a_newer_release_is_refused_in_one_line_and_nothing_is_touched(database_url, grown, mode):
    ensure(database_url, [grown], "auto")
    engine = open_store(database_url).engine()
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {version_table('sample-01')} SET version_num = '0099'"))
    engine.dispose()

    with pytest.raises(StoreProblem, match=r"sample-01 are at revision 0099, which this release does not know") as caught:
        ensure(database_url, [SCHEMA, grown], mode)

    assert "\n" not in str(caught.value)
    assert "core_audit" not in tables_of(database_url)


def test_a_migration_without_a_column_of_ours_imports_none(database_url, sample):
    revise(sample, "0001", "things")
    indexed = declared()
    Index("sample_thing_name_id", indexed.tables["sample_thing"].c.name, indexed.tables["sample_thing"].c.id)
    later = Schema(feature=sample.feature, metadata=indexed, migrations=sample.migrations, head="0002")

    text = revise(later, "0002", "an index").read_text()

    assert "greatseal" not in text
    assert ensure(database_url, [later], "auto")


def test_a_migration_that_fails_leaves_nothing(database_url, sample):
    path = revise(sample, "0001", "things")
    path.write_text(path.read_text() + '    op.execute("SELECT * FROM nowhere")\n')

    with pytest.raises(Exception, match="nowhere"):
        ensure(database_url, [sample], "auto")

    assert "sample_thing" not in tables_of(database_url)


MISSING = (
    r"^plugin 'sample-01': its schema needs revision 0001, which {package} does not have; write it with python -m greatseal\.db\.revise$"
)


@pytest.mark.parametrize("mode", ["auto", "check"])
def test_a_head_that_nobody_wrote_is_one_line_with_the_plugin_and_the_cure(database_url, sample, mode):
    with pytest.raises(StoreProblem, match=MISSING.format(package=sample.migrations)):
        ensure(database_url, [sample], mode)

    assert "sample_thing" not in tables_of(database_url)


def test_a_head_that_is_not_written_stops_before_another_schema_is_touched(database_url, sample):
    with pytest.raises(StoreProblem, match="needs revision 0001"):
        ensure(database_url, [SCHEMA, sample], "auto")

    assert "core_audit" not in tables_of(database_url)


@pytest.mark.parametrize("missing", ["versions", "migrations", "the package"])
def test_a_head_without_its_folder_is_the_same_line(tmp_path, database_url, sample, missing):
    package = tmp_path / sample.migrations.partition(".")[0]
    shutil.rmtree({"versions": package / "migrations/versions", "migrations": package / "migrations", "the package": package}[missing])

    with pytest.raises(StoreProblem, match=MISSING.format(package=sample.migrations)):
        ensure(database_url, [sample], "auto")


def test_an_import_that_fails_inside_the_migrations_is_shown_as_it_is(tmp_path, database_url, sample):
    (tmp_path / sample.migrations.replace(".", "/") / "__init__.py").write_text("import nowhere_at_all\n")

    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        ensure(database_url, [sample], "auto")


@pytest.mark.parametrize("missing", ["migrations/versions", "migrations"])
def test_the_first_revision_makes_its_folder(tmp_path, database_url, sample, missing):
    shutil.rmtree(tmp_path / sample.migrations.partition(".")[0] / missing)

    path = revise(sample, "0001", "things")

    assert path.read_text().startswith('"""things"""')
    assert (path.parent / "__init__.py").exists()
    assert (path.parent.parent / "__init__.py").exists()
    assert schema_matches(sample, database_url) == []


def revise_program(*arguments, folder):
    return subprocess.run(
        [sys.executable, "-m", "greatseal.db.revise", *arguments], check=False, capture_output=True, text=True, cwd=folder, timeout=60
    )


@pytest.fixture
def notes(tmp_path):
    """A plugin with tables and no migrations yet."""
    package = tmp_path / "revised_notes"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tables.py").write_text(
        "from sqlalchemy import Column, MetaData\n"
        "from greatseal.api.declarations import Schema\n"
        "from greatseal.db.tables import Id, State, table\n"
        "metadata = MetaData()\n"
        'note = table("notes_note", metadata, State.OWNED, Column("id", Id, primary_key=True))\n'
        'SCHEMA = Schema(feature="notes", metadata=metadata, migrations="revised_notes.migrations", head="0001")\n'
    )
    return tmp_path


def test_revise_writes_the_migration_and_prints_its_path(notes):
    done = revise_program("revised_notes.tables:SCHEMA", "0001", "notes", folder=notes)

    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == notes / "revised_notes/migrations/versions/r0001_notes.py"
    assert "create_table('notes_note'" in Path(done.stdout.strip()).read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("revised_notes.tables:SCHEMA", "0001"), "the following arguments are required: message"),
        (("nowhere_at_all:SCHEMA", "0001", "notes"), "nowhere_at_all:SCHEMA: No module named 'nowhere_at_all'"),
        (("revised_notes.tables:OTHER", "0001", "notes"), "revised_notes.tables:OTHER: is no greatseal.api.declarations.Schema"),
        (("revised_notes.tables:metadata", "0001", "notes"), "revised_notes.tables:metadata: is no greatseal.api.declarations.Schema"),
    ],
)
def test_revise_says_its_usage_and_what_is_wrong(notes, arguments, said):
    done = revise_program(*arguments, folder=notes)

    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m greatseal.db.revise")
    assert said in done.stderr


def test_revise_refuses_a_revision_that_is_there(notes):
    revise_program("revised_notes.tables:SCHEMA", "0001", "notes", folder=notes)

    done = revise_program("revised_notes.tables:SCHEMA", "0001", "notes again", folder=notes)

    assert done.returncode == 2
    assert "revised_notes.migrations has revision 0001 already" in done.stderr


def test_revise_has_help(tmp_path):
    done = revise_program("--help", folder=tmp_path)

    assert done.returncode == 0
    assert "usage: python -m greatseal.db.revise" in done.stdout
    assert "revision" in done.stdout


def test_processes_that_start_at_once_migrate_once(database_url):
    program = (
        "import sys; from greatseal.audit import SCHEMA; from greatseal.db.migrate import ensure;"
        "print(ensure(sys.argv[1], [SCHEMA], 'auto'))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, database_url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outputs = [process.communicate() for process in processes]

    assert [process.returncode for process in processes] == [0] * 4, outputs
    assert sorted(output.strip() for output, _ in outputs) == [f"['core: nothing -> {SCHEMA.head}']"] + ["[]"] * 3


def test_a_start_with_the_right_schema_imports_neither_alembic_nor_psycopg(tmp_path):
    url = f"sqlite:///{tmp_path}/greatseal.db"
    ensure(url, [SCHEMA], "auto")
    program = (
        "import sys; import greatseal.db.database, greatseal.db.sqlite; from greatseal.audit import SCHEMA;"
        "from greatseal.db.migrate import ensure; ensure(sys.argv[1], [SCHEMA], 'check');"
        "print(sorted({'alembic', 'psycopg', 'sqlalchemy.orm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, url], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "[]"


def test_a_file_that_is_no_database_is_one_line(tmp_path):
    path = tmp_path / "greatseal.db"
    path.write_bytes(b"not a database at all" * 100)

    with pytest.raises(StoreProblem, match=r"cannot be read: file is not a database$"):
        ensure(f"sqlite:///{path}", [SCHEMA], "auto")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(StoreProblem, match=r"cannot be opened: Not a directory$"):
        ensure(f"sqlite:///{tmp_path}/file/sub/greatseal.db", [SCHEMA], "auto")


def test_a_file_with_tables_from_elsewhere_is_left_alone(tmp_path):
    path = tmp_path / "greatseal.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE other (id INTEGER PRIMARY KEY)"))
    engine.dispose()

    ensure(f"sqlite:///{path}", [SCHEMA], "auto")

    assert "other" in tables_of(f"sqlite:///{path}")
    assert Path(path).stat().st_size


def test_postgresql_without_its_driver_is_one_line_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "greatseal.db.postgres", raising=False)

    with pytest.raises(StoreProblem, match=r"psycopg is not installed: pip install 'greatseal\[postgres\]'"):
        open_store("postgresql://127.0.0.1/greatseal")
