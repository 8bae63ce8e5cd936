"""The pair of programs for a mail server, without one: what they take, what they refuse and how they end. With one: tests/peers."""

import http.server
import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from hmac import digest
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from greatseal.testing.service import free_port

HERE = Path(__file__).parents[1]


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec and spec.loader  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


receive, send = program("receive_reply"), program("send_challenge")

OK, USAGE, DATAERR, UNAVAILABLE, TEMPFAIL, CONFIG = 0, 64, 65, 69, 75, 78
BLOCK = "-----BEGIN ACME RESPONSE-----\r\n6e28V1tI6MQR9ApNtlBGz93kVkfmHp01KxBEn3Z2K2E\r\n-----END ACME RESPONSE-----"
RESULT = "Authentication-Results: mx.ca.example; dkim=pass header.d=a.example"
SIGNATURE = (
    "DKIM-Signature: v=1; d=a.example; s=sel; h=From:To:Subject:Date:In-Reply-To:Message-ID:\r\n Content-Type; bh=aa=; b=cc dd\r\n ee="
)
REPLY = f"""\
{RESULT}
{SIGNATURE}
From: Ann <ann@a.example>
To: acme@ca.example
Subject: Re: ACME: abc
Date: Mon, 23 Nov 2026 10:00:00 +0000
Message-ID: <1@a.example>
In-Reply-To: <c1@ca.example>
Content-Type: text/plain; charset=utf-8

Hello,
{BLOCK}
> quoted
"""
TOLD = {"from": "ann@a.example", "in_reply_to": "<c1@ca.example>", "dkim_domain": "a.example", "dkim_status": "pass", "body": BLOCK}


def told(mail: str | bytes) -> dict:
    raw = mail if isinstance(mail, bytes) else mail.replace("\r\n", "\n").replace("\n", "\r\n").encode()
    return receive.read_reply(raw, "mx.ca.example")


def refused(mail: str | bytes) -> int:
    with pytest.raises(receive.Ended) as ended:
        told(mail)
    assert str(ended.value).isprintable()
    return ended.value.code


WRAPPED = BLOCK.replace("K2E", "K=\n2E")
MULTIPART = f"""\
Content-Type: multipart/alternative; boundary=xx

--xx
Content-Type: text/plain; charset=iso-8859-1; format=flowed
Content-Transfer-Encoding: quoted-printable

Gr=FC=DFe
{WRAPPED}
--xx
Content-Type: text/html

<p>{BLOCK.replace("6e28", "AAAA")}</p>
--xx--
"""


def test_what_the_service_is_told():
    plain, _, _ = REPLY.partition("Content-Type: text")

    assert told(REPLY) == TOLD
    assert told(plain + MULTIPART)["body"] == BLOCK


def changed(old: str, new: str) -> str:
    assert old in REPLY
    return REPLY.replace(old, new)


MORE = "Authentication-Results: mx.ca.example; spf=pass smtp.mailfrom=a.example"
RESULTS = {
    "none": ("", (None, None)),
    "of another server": (RESULT.replace("mx.ca", "mx.evil"), (None, None)),
    "none but ours in a comment": ("Authentication-Results: mx.evil (mx.ca.example); dkim=pass header.d=a.example", (None, None)),
    "another name in front": ("Authentication-Results: mx.ca.example.evil; dkim=pass header.d=a.example", (None, None)),
    "none of DKIM": (MORE, (None, None)),
    "nothing was signed": ("Authentication-Results: mx.ca.example; dkim=none", (None, "none")),
    "nothing was looked at": ("Authentication-Results: mx.ca.example; none", (None, None)),
    "a bad signature": (RESULT.replace("pass", "fail"), ("a.example", "fail")),
    "no signature of that domain": (RESULT.replace("d=a", "d=b"), (None, "pass")),
    "nobody's": ("Authentication-Results: mx.ca.example; dkim=pass", (None, "pass")),
    "another selector": (f"{RESULT} header.s=other", (None, "pass")),
    "another signature": (f'{RESULT} header.b="ccddff"', (None, "pass")),
    "the topmost counts": (f"{RESULT.replace('pass', 'fail')}\n{RESULT}", ("a.example", "fail")),
    "one of SPF above": (f"{MORE}\n{RESULT}", ("a.example", "pass")),
    "as OpenDKIM writes it": (
        f'{RESULT.replace("pass", "pass (2048-bit key; unprotected)")} header.i=@a.example header.b="ccdde";\n\tdkim-atps=neutral',
        ("a.example", "pass"),
    ),
    "as mailauth writes it": (
        'Authentication-Results: mx.ca.example;\n dkim=pass header.i=@a.example header.s=sel header.a=rsa-sha256 header.b="ccddee="',
        ("a.example", "pass"),
    ),
    "with a version, spaces and other letters": (
        "Authentication-Results: MX.ca.example 1; DKIM/1 = PASS header.d = A.Example header.s = SEL",
        ("a.example", "pass"),
    ),
    "in a string of another result": (
        'Authentication-Results: mx.ca.example; spf=pass reason="; dkim=pass header.d=a.example"; dkim=fail header.d=a.example',
        ("a.example", "fail"),
    ),
    "in a comment": (RESULT.replace("pass", "fail (dkim=pass header.d=a.example;)"), ("a.example", "fail")),
    "said twice": (f"{RESULT} header.d=b.example", (None, None)),
    "not in pairs": (f"{RESULT} header.s", (None, None)),
}  # fmt: skip


@pytest.mark.parametrize("case", RESULTS)
def test_s121_what_the_mail_server_says_of_signatures(case):
    header, expected = RESULTS[case]

    found = told(changed(f"{RESULT}\n", f"{header}\n" if header else ""))

    assert (found["dkim_domain"], found["dkim_status"]) == expected


@pytest.mark.parametrize(
    "broken", ['; dkim=pass header.d="a.example', "; dkim=pass (header.d=a.example", " \\; dkim=pass", "; (a (b)) dkim=pass"]
)
def test_s121_results_of_ours_that_cannot_be_read_end_it_and_those_of_others_do_not(broken):
    assert refused(changed(RESULT, f"Authentication-Results: mx.ca.example{broken}\n{RESULT}")) == DATAERR
    assert told(changed(RESULT, f"Authentication-Results: mx.evil{broken}\n{RESULT}")) == TOLD


UNSIGNED = {
    "no From": ("h=From:To", "h=To"),
    "no In-Reply-To": (":In-Reply-To", ""),
    "a part of the text": ("bh=aa=;", "bh=aa=; l=0;"),
    "a header that was added": ("Subject:", "Cc: eve@evil.example\nSubject:"),
    "a second Subject": ("Subject:", "Subject: Re: ACME: other\nSubject:"),
}


@pytest.mark.parametrize("case", UNSIGNED)
def test_s121_rfc_8823_a_signature_that_leaves_something_out_is_no_pass(case):
    old, new = UNSIGNED[case]

    assert told(changed(old, new)) == TOLD | {"dkim_status": "policy"}


def test_s121_a_good_signature_beside_another_one_counts_alone():
    """Where a result may be about either of two signatures, both have to be enough."""
    short = SIGNATURE.replace("h=From:", "h=").replace("b=cc", "b=ff")
    two = f"{RESULT}\n{SIGNATURE}\n{short}"
    old = f"{RESULT}\n{SIGNATURE}"

    assert told(changed(old, two))["dkim_status"] == "policy"
    assert told(changed(old, two.replace(RESULT, f"{RESULT} header.b=ccd")))["dkim_status"] == "pass"
    assert told(changed(old, two.replace(RESULT, f"{RESULT} header.b=ffd")))["dkim_status"] == "policy"
    assert (
        told(changed(old, two.replace(RESULT, f"{RESULT.replace('pass', 'fail')} header.b=ffd; dkim=pass header.b=ccd header.d=a.example")))
        == TOLD
    )


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (BLOCK, "I am on holiday.", OK),
        ("text/plain", "text/html", OK),
        ("In-Reply-To: <c1@ca.example>\n", "", DATAERR),
        ("<c1@ca.example>", "<c1@ca.example> <c2@ca.example>", DATAERR),
        ("<c1@ca.example>", "c1@ca.example", DATAERR),
        ("<c1@ca.example>", "<c1@ca.example>\nIn-Reply-To: <c2@ca.example>", DATAERR),
        ("From: Ann <ann@a.example>\n", "", DATAERR),
        ("From: Ann", "From: Eve <eve@evil.example>\nFrom: Ann", DATAERR),
        ("Ann <ann@a.example>", "ann@a.example, eve@evil.example", DATAERR),
        ("Ann <ann@a.example>", "Friends: ann@a.example;", DATAERR),
        ("Ann <ann@a.example>", "<ann@a.example> <eve@evil.example>", DATAERR),
        ("Ann <ann@a.example>", "ann@a.example@evil.example", DATAERR),
        ("Ann <ann@a.example>", "", DATAERR),
    ],
)  # fmt: skip
def test_s121_what_is_no_reply_and_what_cannot_be_one(old, new, code):
    assert refused(changed(old, new)) == code


@pytest.mark.parametrize("name", ['"ann@a.example, " <eve@evil.example>', "=?utf-8?q?ann=40a=2Eexample=2C?= <eve@evil.example>"])
def test_s121_a_display_name_is_no_address(name):
    assert told(changed("Ann <ann@a.example>", name))["from"] == "eve@evil.example"


def test_a_block_without_end_is_handed_over_in_part():
    assert len(told(changed("-----END ACME", "x" * 5000))["body"]) == receive.MAX_BLOCK_CHARACTERS


@given(st.binary(max_size=400), st.binary(max_size=200), st.sampled_from(["From", "In-Reply-To", "Content-Type", "DKIM-Signature", "To"]))
@example(b"multipart/mixed; boundary=" + b"x" * 300, b"--x\r\n" * 30, "Content-Type")
def test_s121_a_strangers_mail_is_read_or_refused(value, body, header):
    raw = REPLY.replace("\r\n", "\n").replace("\n", "\r\n").encode()
    for mail in (raw.replace(b"\r\nFrom:", b"\r\n" + header.encode() + b": " + value + b"\r\nFrom:"), raw.replace(b"Hello", body + value)):
        try:
            found = told(mail)
        except receive.Ended:
            pass
        else:
            assert found["in_reply_to"] == "<c1@ca.example>" or header == "In-Reply-To"
            assert (found["from"], len(found["body"]) <= receive.MAX_BLOCK_CHARACTERS + 40) == ("ann@a.example", True)


@given(st.text(alphabet='abdkim=;()"\\ \t\r\n@.', max_size=200))
def test_s121_results_of_a_strange_kind_prove_nothing(text):
    value = text.replace("\r", "").replace("\n", "\r\n ")
    try:
        found = receive.results_of(f"mx.ca.example; {value}", "mx.ca.example")
    except receive.Ended:
        pass
    else:
        assert not [one for one in found if one["dkim"] == "pass"]


# ---- As programs


@contextmanager
def service(*statuses: int) -> Iterator[tuple[int, list]]:
    """Answers the webhook with these, one after the other, and keeps the calls."""
    calls: list[tuple[str, str, bytes]] = []
    left = list(statuses)

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            calls.append((self.path, self.headers["X-Service-Signature"], body))
            self.send_response(left.pop(0))
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, calls
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The programs and their settings."""
    for name in ("receive_reply.py", "send_challenge.py"):
        shutil.copy(HERE / name, tmp_path)
    (tmp_path / "secret").write_text("secret\n")
    settings(tmp_path, 1)
    return tmp_path


def settings(folder: Path, port: int, url: str = "http://127.0.0.1:{port}/acme/email-webhook", send: int = 1) -> None:
    text = (HERE / "mail.toml").read_text().replace("https://ca.example.org/acme/email-webhook", url.format(port=port))
    text = text.replace("/etc/greatseal/webhook-secret", str(folder / "secret")).replace("mx.example.org", "mx.ca.example")
    (folder / "mail.toml").write_text(text.replace("port = 25", f"port = {send}").replace('"localhost"', '"127.0.0.1"'))


def receives(folder: Path, mail: str | bytes = REPLY) -> tuple[int, str]:
    raw = mail if isinstance(mail, bytes) else mail.encode()
    done = subprocess.run([sys.executable, folder / "receive_reply.py", "-v"], input=raw, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stderr.decode()


def test_a_reply_is_signed_and_the_answer_says_how_it_ends(folder):
    with service(200, 503, 429, 500, 302, 404, 413) as (port, calls):
        settings(folder, port)
        codes = [receives(folder)[0] for _ in range(7)]

    assert codes == [OK, TEMPFAIL, TEMPFAIL, TEMPFAIL, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE]
    path, signature, body = calls[0]
    assert (path, json.loads(body)) == ("/acme/email-webhook", TOLD)
    assert signature == f"sha256={digest(b'secret', body, sha256).hex()}"
    assert len(calls) == 7


def test_without_the_service_the_mail_waits_and_what_is_none_never_does(folder):
    settings(folder, free_port())

    assert receives(folder)[0] == TEMPFAIL
    assert "no reply to a challenge" in receives(folder, REPLY.replace(BLOCK, ""))[1]
    assert receives(folder, b"x" * 1024 * 1024)[0] == OK
    assert receives(folder, b"x" * (5 * 1024 * 1024))[0] == DATAERR
    quiet = subprocess.run(
        [sys.executable, folder / "receive_reply.py"], input=REPLY.encode(), capture_output=True, check=False, timeout=60
    )
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (TEMPFAIL, b"", b"")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "KeyError"),
        ("[receive]\nurl = 1", "KeyError"),
        ('[receive]\nurl = "http://localhost"\nsecret_file = "/nowhere"\nauthserv_id = "x"', "FileNotFoundError"),
        ('[receive]\nurl = "file:///etc/passwd"\nsecret_file = "{folder}/secret"\nauthserv_id = "x"', "http or https"),
        ('[receive]\nurl = "http://localhost:x"\nsecret_file = "{folder}/secret"\nauthserv_id = "x"', "Port"),
        ('[receive]\nurl = "http://localhost"\nsecret_file = "/dev/null"\nauthserv_id = "x"', "cannot be empty"),
        ('[receive]\nurl = "http://localhost"\nsecret_file = "{folder}/secret"\nauthserv_id = ""', "cannot be empty"),
        ("[receive", "TOMLDecodeError"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_settings_lets_the_mail_wait(folder, text, said):
    (folder / "mail.toml").write_text(text.format(folder=folder))

    with pytest.raises(receive.Ended, match=said) as ended:
        receive.read_settings(folder / "mail.toml")

    assert ended.value.code == TEMPFAIL
    assert "mail.toml: [receive] needs url, secret_file and authserv_id" in str(ended.value)


MAIL = {
    "ACME_TO": "ann@a.example",
    "ACME_FROM": "acme@ca.example",
    "ACME_SUBJECT": "ACME: abc",
    "ACME_MESSAGE_ID": "<c1@ca.example>",
    "ACME_AUTO_SUBMITTED": "auto-generated; type=acme",
    "ACME_TOKEN_PART2": "def",
}


def sends(folder: Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, folder / "send_challenge.py"], env=MAIL, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stderr.decode()


def hang_up(server: socket.socket) -> None:
    server.accept()[0].close()


def test_a_challenge_without_an_smtp_server_is_not_sent(folder):
    settings(folder, 1, send=free_port())
    code, error = sends(folder)
    assert code == TEMPFAIL
    assert "is away: " in error

    with socket.create_server(("127.0.0.1", 0)) as server:
        settings(folder, 1, send=server.getsockname()[1])
        thread = threading.Thread(target=hang_up, args=[server])
        thread.start()
        assert sends(folder)[0] == TEMPFAIL
        thread.join()

    (folder / "mail.toml").write_text("[send]\nhost = 1\n")
    assert sends(folder)[0] == CONFIG


@pytest.mark.parametrize(
    "changes",
    [
        {"ACME_TO": ""},
        {"ACME_TO": "ann@a.example\r\nBcc: eve@evil.example"},
        {"ACME_TO": "ann@a.example, eve@evil.example"},
        {"ACME_TO": "Ann <ann@a.example>"},
        {"ACME_TO": "änn@a.example"},
        {"ACME_FROM": "acme"},
        {"ACME_SUBJECT": "ACME: abc\nBcc: eve@evil.example"},
        {"ACME_MESSAGE_ID": "<c1@ca.example>\r\n\r\nHello"},
        {"ACME_AUTO_SUBMITTED": "no\x7f"},
    ],
)
def test_s121_nothing_adds_a_header_or_an_address(changes):
    assert send.challenge(MAIL)["To"] == "ann@a.example"

    with pytest.raises(SystemExit) as ended:
        send.challenge(MAIL | changes)
    assert ended.value.code == USAGE
