"""Which passwords may be chosen."""

from importlib import resources

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from greatseal_users_file import edit
from greatseal_users_file.command import users
from greatseal_users_file.rules import LONGEST, SHORTEST, SIZE, is_common, objections

GOOD = "correct horse battery"


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("", "it has 0 of at least 12 characters"),
        ("horse batte", "it has 11 of at least 12 characters"),
        ("leavemealone", "tried first"),
        ("LeaveMeAlone", "tried first"),
        ("password1234", "tried first"),
        ("!!2024password", "tried first"),
        ("P@ssw0rd-2024", "tried first"),
        ("Sunshine!2345678", "tried first"),
        ("qwertyuiop123", "tried first"),
        ("123456789012", "tried first"),
        ("zyxwvutsrqpo", "tried first"),
        ("1qaz2wsx3edc4rfv", "tried first"),
        ("aaaaaaaaaaaaaaaa", "repeats itself"),
        ("abcdabcdabcd", "repeats itself"),
        ("builder builder", "repeats itself"),
        ("Lovelace and the engine", "holds the user name"),
        ("x" * LONGEST + "yz123", "more than 1024"),
    ],
)
def test_a_password_that_would_be_found_is_refused_and_the_reason_named(password, why):
    assert any(why in str(one) for one in objections(password, "lovelace")), objections(password, "lovelace")


@pytest.mark.parametrize(
    "password", [GOOD, "Xk9 vTq2 mmPz", "zwölf Störche im Regen", "tr0ub4dor&3xxyz", "monkey dragon shadow", "密码很长而且很安全的句子啊"]
)
def test_a_long_one_is_good_whatever_it_is_made_of(password):
    assert objections(password, "lovelace") == ()


def test_a_short_user_name_may_be_in_it():
    assert objections("an anvil and a crane", "an") == ()


def test_the_list_is_sorted_and_whole():
    entries = resources.files("greatseal_users_file").joinpath("common.bin").read_bytes()
    each = [entries[at : at + SIZE] for at in range(0, len(entries), SIZE)]

    assert (len(entries), each) == (30_000 * SIZE, sorted(set(each)))
    assert all(map(is_common, ("123456", "password", "dragon", "sojdlg123aljg", "ghhh47hj7649")))


@given(st.text())
def test_every_text_has_an_answer_at_once(text):
    found = objections(text, "ada")

    assert bool(found) or len(text) >= SHORTEST
    assert not text or text not in " ".join(map(str, found)) or len(text) < SHORTEST


def run(path, *words, given):
    config = path.with_name("config.toml")
    config.write_text(f'[users]\nfile = "{path}"\n')
    return CliRunner().invoke(users, [words[0], "-c", str(config), *words[1:]], input=f"{given}\n")


def test_the_commands_say_in_one_line_why_a_password_is_refused(tmp_path):
    path = tmp_path / "users.toml"

    weak = run(path, "add", "lovelace", given="Lovelace1")
    good = run(path, "add", "lovelace", given=GOOD)
    weaker = run(path, "passwd", "lovelace", given="password1234")

    assert (weak.exit_code, good.exit_code, weaker.exit_code) == (1, 0, 1)
    assert weak.stderr.startswith("greatseal: the password is refused: it has 9 of at least 12 characters")
    assert weak.stderr.endswith("and it holds the user name\n")
    assert "Lovelace1" not in weak.output
    assert "tried first" in weaker.stderr


def test_the_password_of_now_is_no_new_one(tmp_path):
    path = tmp_path / "users.toml"
    edit.add(path, "ada", GOOD)
    before = path.read_text()

    again = run(path, "passwd", "ada", given=GOOD)
    other = run(path, "passwd", "ada", given="another horse battery")

    assert (again.exit_code, again.stderr) == (1, "greatseal: the password is refused: it is the one of now\n")
    assert other.exit_code == 0
    assert path.read_text() != before
