"""Steps of ``greatseal ipa setup`` that cannot be made; the whole command is in tests/system/test_ipa_setup.py."""

import sys

import pytest

from greatseal.api.problems import StartProblem
from greatseal_ipa.command import _by_ticket, _is_there
from greatseal_ipa.library import Outcome
from greatseal_ipa.setup import Step


def step(**more):
    return Step(name="the service", there=False, commands=("ipa service-add HTTP/x",), **more)


def test_what_is_there_is_not_made(capsys):
    assert _is_there(Step(name="the host", there=True, commands=(), make=None, run=("false",)), applied=True)
    assert capsys.readouterr().out == "ok       the host\n"


@pytest.mark.parametrize(("applied", "more"), [(False, {"make": lambda: pytest.fail("made")}), (False, {"run": ("false",)}), (True, {})])
def test_what_may_or_can_not_be_made_is_missing_with_its_command(capsys, applied, more):
    assert not _is_there(step(**more), applied=applied)
    assert capsys.readouterr().out == "missing  the service\n         ipa service-add HTTP/x\n"


@pytest.mark.parametrize("code", [0, 20, 68])
def test_what_the_directory_makes_or_has_already_is_there(capsys, code):
    assert _is_there(step(make=lambda: [Outcome(0), Outcome(code)]), applied=True)
    assert capsys.readouterr().out == "made     the service\n"


def test_what_the_directory_refuses_ends_it_with_the_reason(capsys):
    with pytest.raises(StartProblem, match="the service: the directory refuses it: no rights"):
        _is_there(step(make=lambda: [Outcome(0), Outcome(50, "no rights")]), applied=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with 3"),
        (("/nowhere/ipa-getkeytab",), "/nowhere/ipa-getkeytab is not installed"),
    ],
)
def test_a_program_that_fails_ends_it_with_the_reason(capsys, run, said):
    with pytest.raises(StartProblem, match=said):
        _is_there(step(run=run), applied=True)
    assert capsys.readouterr().out == ""


def test_without_the_library_of_kerberos_there_is_no_ticket(monkeypatch):
    monkeypatch.setattr("greatseal_ipa.command.find_spec", lambda _: None)

    with pytest.raises(StartProblem, match="--admin-dn"):
        _by_ticket()
