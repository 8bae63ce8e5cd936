"""Row S150, S149: what is logged is one printable line without secrets, whatever is in it; a log that cannot be written harms nobody."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SCRIPT = """
import structlog
from greatseal.kernel import logs

logs.configure()
log = structlog.get_logger()
nasty = "a\\n{}\\x1b[31m\\u202e\\u0085\\x9b\\ud800"
log.info("request", detail=nasty, listed=[nasty, {nasty: 1}], number=10**30, password="marker", nested={"client_secret": "marker"})
try:
    raise ValueError(nasty)
except ValueError as error:
    log.error("failed", exc_info=error)
"""


def test_s150_every_text_of_a_line_is_printable():
    done = subprocess.run([sys.executable, "-c", SCRIPT], stderr=subprocess.PIPE, check=True)

    first, second = done.stderr.decode().splitlines()
    assert (first + second).isprintable()
    assert "marker" not in first
    assert json.loads(first)["number"] == 10**30
    assert json.loads(first)["listed"][0] == r"a\n{}\x1b[31m\u202e\x85\x9b\ud800"
    assert json.loads(second)["exception"].splitlines()[-1].isprintable()


def test_s150_on_a_terminal_too():
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", SCRIPT], stderr=theirs, check=True)
    os.close(theirs)
    shown = everything(ours).decode()
    os.close(ours)

    assert done.returncode == 0
    assert "\u202e" not in shown
    assert "\x1b[31ma" not in shown
    assert r"a\n{}\x1b[31m\u202e" in shown
    assert "marker" not in shown


def everything(terminal: int) -> bytes:
    found = b""
    with suppress(OSError):  # that is how a terminal without a program ends
        while more := os.read(terminal, 4096):
            found += more
    return found


def test_f30_a_log_that_cannot_be_written_stops_nothing():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", f"{SCRIPT}\nprint('went on')"], stdout=subprocess.PIPE, stderr=full, check=False)

    assert done.stdout == b"went on\n"
