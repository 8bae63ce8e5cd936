import errno
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.problems import Internal, StartProblem
from greatseal.jose.compact import b64url_encode
from greatseal.keys.cluster import ClusterKey, KeyFileProblem, load_cluster_key, store_cluster_key
from greatseal.keys.sealed import Sealer, sealed_under

PLACE = {"table": "core_key", "row": "k1", "field": "private"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cluster.key"


def test_the_first_start_makes_a_file_for_its_owner_alone(path):
    key = load_cluster_key(path, create=True)

    assert path.stat().st_mode & 0o777 == 0o600
    assert len(key.secret) == 32
    assert load_cluster_key(path, create=True) == key
    assert load_cluster_key(path, create=False) == key
    assert [file.name for file in path.parent.iterdir()] == ["cluster.key"]


def test_a_key_is_not_made_without_being_asked_for(path):
    with pytest.raises(KeyFileProblem, match="there is no cluster key file"):
        load_cluster_key(path, create=False)
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o620, 0o602, 0o777])
def test_a_file_that_others_may_read_is_refused_with_one_line_that_cures(path, mode):
    load_cluster_key(path, create=True)
    path.chmod(mode)

    with pytest.raises(StartProblem, match=f"chmod 600 {path}") as problem:
        load_cluster_key(path, create=True)

    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_for_its_owner_is_read(path, mode):
    key = load_cluster_key(path, create=True)
    path.chmod(mode)

    assert load_cluster_key(path, create=False) == key


def test_a_systemd_credential_may_look_group_readable(path, monkeypatch):
    key = load_cluster_key(path, create=True)
    path.chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(path.parent))

    assert load_cluster_key(path, create=False) == key

    monkeypatch.chdir(path.parent)
    for elsewhere in (str(path.parent.parent), ""):
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", elsewhere)
        with pytest.raises(KeyFileProblem, match="mode 0440"):
            load_cluster_key(path, create=False)


SECRET = b64url_encode(bytes(32))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\n",
        b"\x00\xff" * 100,
        f"greatseal-cluster-key-2 {uuid.uuid4()} {SECRET}\n".encode(),
        f"greatseal-cluster-key-1 {uuid.uuid4()} {SECRET[:-2]}\n".encode(),
        f"greatseal-cluster-key-1 no-uuid {SECRET}\n".encode(),
        f"greatseal-cluster-key-1 {uuid.uuid4()} {SECRET}\nmore\n".encode(),
        f"greatseal-cluster-key-1 {uuid.uuid4()} {SECRET[:-1]}B\n".encode(),
    ],
)
def test_a_file_of_other_content_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(KeyFileProblem, match="this is no cluster key file") as problem:
        load_cluster_key(path, create=True)

    assert SECRET not in str(problem.value)
    assert path.read_bytes() == content


def test_a_folder_or_an_unreachable_place_is_one_line(path):
    path.mkdir()
    with pytest.raises(KeyFileProblem, match="cannot be used"):
        load_cluster_key(path, create=True)
    with pytest.raises(KeyFileProblem, match="no cluster key file"):
        load_cluster_key(path.parent / "absent" / "cluster.key", create=True)
    file = path.parent / "file"
    file.touch()
    with pytest.raises(KeyFileProblem, match="cannot be used: Not a directory"):
        load_cluster_key(file / "cluster.key", create=True)


def test_what_is_no_key_file_is_not_read(path):
    with pytest.raises(KeyFileProblem, match="not a regular file"):
        load_cluster_key(Path(os.devnull), create=False)

    store_cluster_key(path, ClusterKey.generate())
    os.truncate(path, 2**20 + 1)
    with pytest.raises(KeyFileProblem, match="too large"):
        load_cluster_key(path, create=False)


def test_a_file_that_cannot_be_written_or_replaced_is_as_it_was(path, monkeypatch):
    key = load_cluster_key(path, create=True)
    (path.parent / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        store_cluster_key(path.parent / "folder", ClusterKey.generate())

    def full(descriptor):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        store_cluster_key(path, ClusterKey.generate())

    assert load_cluster_key(path, create=False) == key
    assert sorted(file.name for file in path.parent.iterdir()) == ["cluster.key", "folder"]


LOAD = """
import sys
from pathlib import Path
from greatseal.keys.cluster import load_cluster_key
sys.stdin.readline()
print(load_cluster_key(Path(sys.argv[1]), create=True).key_id)
"""


def test_processes_that_start_together_agree_on_one_key(path):
    command = [sys.executable, "-c", LOAD, str(path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    found = {process.communicate()[0].strip() for process in processes}

    assert found == {str(load_cluster_key(path, create=False).key_id)}
    assert [file.name for file in path.parent.iterdir()] == ["cluster.key"]


def test_several_keys_are_kept_in_the_file(path):
    key = ClusterKey(uuid.uuid4(), b"n" * 32, (ClusterKey.generate(), ClusterKey.generate()))

    store_cluster_key(path, key)

    assert load_cluster_key(path, create=False) == key
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_does_not_show_its_secret():
    key = ClusterKey(uuid.uuid4(), b"SECRET" * 5 + b"xx")

    assert "SECRET" not in f"{key} {key!r}"


# ---- sealed values


@given(st.binary(max_size=500), st.text(), st.text(), st.text())
def test_what_is_sealed_opens_in_its_place(secret, table, row, field):
    sealer = Sealer(ClusterKey.generate())
    sealed = sealer.seal(secret, table=table, row=row, field=field)

    assert sealer.open(sealed, table=table, row=row, field=field) == secret
    assert len(secret) < 4 or secret not in sealed


@pytest.mark.parametrize("change", [{"table": "other"}, {"row": "k2"}, {"field": "spki"}, {"table": "core_keyk", "row": "1"}])
def test_a_sealed_value_moved_to_another_place_does_not_open(change):
    sealer = Sealer(ClusterKey.generate())
    sealed = sealer.seal(b"secret", **PLACE)

    with pytest.raises(Internal) as problem:
        sealer.open(sealed, **PLACE | change)
    assert problem.value.detail == ""
    assert "sealed for another place" in problem.value.cause


@given(st.integers(0, 60), st.integers(1, 255))
def test_a_changed_envelope_does_not_open(at, bits):
    sealer = Sealer(ClusterKey.generate())
    sealed = bytearray(sealer.seal(b"a secret of some sort", **PLACE))
    sealed[at % len(sealed)] ^= bits

    with pytest.raises(Internal):
        sealer.open(bytes(sealed), **PLACE)


@given(st.integers(0, 40))
def test_a_part_of_an_envelope_does_not_open(size):
    sealer = Sealer(ClusterKey.generate())

    with pytest.raises(Internal):
        sealer.open(sealer.seal(b"", **PLACE)[:size], **PLACE)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_envelope_do_not_open(value):
    with pytest.raises(Internal):
        Sealer(ClusterKey.generate()).open(value, **PLACE)


def test_other_keys_open_and_do_not_seal():
    old = ClusterKey.generate()
    sealed = Sealer(old).seal(b"secret", **PLACE)
    new = ClusterKey(uuid.uuid4(), b"n" * 32, (old,))

    assert Sealer(new).open(sealed, **PLACE) == b"secret"
    assert sealed_under(Sealer(new).seal(b"secret", **PLACE)) == new.key_id
    with pytest.raises(Internal) as problem:
        Sealer(ClusterKey(new.key_id, new.secret)).open(sealed, **PLACE)
    assert str(old.key_id) in problem.value.cause


def test_the_same_secret_never_looks_the_same():
    sealer = Sealer(ClusterKey.generate())

    assert len({sealer.seal(b"secret", **PLACE) for _ in range(100)}) == 100
