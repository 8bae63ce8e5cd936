"""Steps of ``greatseal ipa setup`` that cannot be made; the whole command is in tests/system/test_ipa_setup.py."""

import sys
from types import SimpleNamespace

import pytest

from greatseal.api.kerberos import NotConfigured, Ready, Unusable
from greatseal.api.problems import StartProblem, Unavailable
from greatseal_ipa.command import _by_ticket, _is_there, _unusable
from greatseal_ipa.library import NoTicket, Outcome
from greatseal_ipa.setup import Step, _is_absent


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


def test_a_program_that_was_of_no_use_ends_it_with_the_reason(capsys):
    with pytest.raises(StartProblem, match="is done, and the keytab has no keys"):
        _is_there(step(run=(sys.executable, "-c", ""), wrong=lambda: "the keytab has no keys"), applied=True)
    assert capsys.readouterr().out == ""


def test_a_program_that_was_of_use_made_it(capsys):
    assert _is_there(step(run=(sys.executable, "-c", ""), wrong=lambda: ""), applied=True)
    assert capsys.readouterr().out == "made     the service\n"


@pytest.mark.parametrize(
    ("negotiator", "said"),
    [
        (SimpleNamespace(state=Ready()), ""),
        (SimpleNamespace(state=Unusable(reason="no keys")), "no keys"),
        (SimpleNamespace(state=NotConfigured()), "[gssapi]"),
        (None, "enable the plugin gssapi"),
    ],
)
def test_why_no_ticket_can_be_accepted(negotiator, said):
    told = _unusable(negotiator)
    assert said in told
    assert bool(told) is bool(said)


def test_a_file_is_absent_where_its_folder_can_be_searched(tmp_path):
    assert not _is_absent(tmp_path)
    assert _is_absent(tmp_path / "http.keytab")


def test_a_file_whose_folder_may_not_be_searched_is_not_known_to_be_absent(forbidden):
    assert not _is_absent(forbidden)


def test_without_the_library_of_kerberos_there_is_no_ticket(monkeypatch):
    monkeypatch.setattr("greatseal_ipa.command.find_spec", lambda _: None)

    with pytest.raises(StartProblem, match="--admin-dn"):
        _by_ticket()


def test_without_a_ticket_one_server_is_tried_and_the_words_say_what_to_do(monkeypatch):
    class Link:
        def bind_gssapi(self, credentials):
            assert credentials is None
            raise NoTicket("no bind by a ticket at ldap://x: Ticket expired; get another one with kinit")

    monkeypatch.setattr("greatseal_ipa.command.find_spec", lambda _: object())

    with pytest.raises(Unavailable, match=r"Ticket expired; get another one with kinit; or name an entry with --admin-dn$"):
        _by_ticket()(Link())
