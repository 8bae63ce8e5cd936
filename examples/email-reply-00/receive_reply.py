#!/usr/bin/env python3
"""Hand a reply to a challenge mail (RFC 8823 s3.2), on standard input, to the webhook of the service. A mail server runs it for each mail.

Ends with a number of sysexits.h: 0 when the service took the reply, and when the mail is none; 75 when the mail server should try again; 65
and 69 when it should give up. Syslog (facility mail) says why, with ``-v`` standard error does: what a program prints, a mail server may
send to a stranger. Settings are in ``mail.toml`` beside this file.

Whether a signature (DKIM) is good says the mail server, in Authentication-Results (RFC 8601).
"""

import http.client
import json
import re
import sys
import syslog
import tomllib
from email import message_from_bytes, policy
from email.message import EmailMessage
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

EX_OK, EX_USAGE, EX_DATAERR, EX_UNAVAILABLE, EX_TEMPFAIL = 0, 64, 65, 69, 75
MAX_MAIL_BYTES = 1024 * 1024
MAX_BLOCK_CHARACTERS = 2048
"""The service reads 512; what is longer is for it to refuse."""
SECONDS = 20
BEGIN, END = "-----BEGIN ACME RESPONSE-----", "-----END ACME RESPONSE-----"
SIGNED = frozenset(
    {
        "from",
        "sender",
        "reply-to",
        "to",
        "cc",
        "subject",
        "date",
        "in-reply-to",
        "references",
        "message-id",
        "auto-submitted",
        "content-type",
        "content-transfer-encoding",
    }
)
"""What a signature has to cover where the mail has it (RFC 8823 s3.2)."""
TRY_AGAIN = frozenset({408, 425, 429})
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
TOKEN = re.compile(r'\s+|\((?:[^()\\]|\\.)*\)|(?P<mark>[;=])|(?P<word>(?:"(?:[^"\\]|\\.)*"|[^\s"()\\;=])+)', re.DOTALL)
"""White space, a comment without comments in it, a mark, a word (RFC 5322 s3.2, RFC 8601 s2.2)."""
VERBOSE = "-v" in sys.argv[1:]


class Settings(NamedTuple):
    """``[receive]``."""

    url: str
    secret: bytes
    authserv_id: str


class Ended(Exception):
    """How the program ends. ``why`` is for the operator."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def main() -> None:
    try:
        settings = read_settings(Path(__file__).with_name("mail.toml"))
        raw = sys.stdin.buffer.read(MAX_MAIL_BYTES + 1)
        while len(raw) > MAX_MAIL_BYTES:
            if not sys.stdin.buffer.read(65536):
                raise Ended(EX_DATAERR, f"the mail has more than {MAX_MAIL_BYTES} bytes, which no reply has")
        hand_over(settings, read_reply(raw, settings.authserv_id))
    except Ended as ended:
        end(ended.code, str(ended))


def read_settings(path: Path) -> Settings:
    """Mistakes here are mended while the mail waits."""
    try:
        settings = tomllib.loads(path.read_text())["receive"]
        secret = Path(settings["secret_file"]).read_text().rstrip("\n").encode()
        found = Settings(str(settings["url"]), secret, str(settings["authserv_id"]))
        parts = urlsplit(found.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not all(found):
            raise ValueError("url needs http or https and a host, and secret and authserv_id cannot be empty")
        _ = parts.port
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Ended(EX_TEMPFAIL, f"{path}: [receive] needs url, secret_file and authserv_id: {error!r}") from None
    return found


# ---- The mail


def read_reply(raw: bytes, authserv_id: str) -> dict[str, Any]:
    """What the webhook is told. Raises Ended for a mail that is no reply to a challenge, and for one that cannot be read."""
    try:
        mail = message_from_bytes(raw, policy=policy.default)
        block = response_block(mail)
        if block is None:
            raise Ended(EX_OK, "no reply to a challenge: the mail has no ACME RESPONSE block in plain text")
        in_reply_to = [value.strip() for value in values(mail, "in-reply-to")]
        if len(in_reply_to) != 1 or not re.fullmatch(r"<[!-;=?-~]+>", in_reply_to[0]):
            raise Ended(EX_DATAERR, f"In-Reply-To has to be one Message-ID; found {in_reply_to!r:.200}")
        sender = author(mail)
        domain, status = judged(mail, authserv_id, sender.rpartition("@")[2].lower())
    except Ended:
        raise
    except Exception as error:  # noqa: BLE001  the parser of the standard library raises all kinds of them, and another try would too
        raise Ended(EX_DATAERR, f"the mail cannot be read: {error!r:.200}") from None
    return {"from": sender, "in_reply_to": in_reply_to[0], "dkim_domain": domain, "dkim_status": status, "body": block}


def values(mail: EmailMessage, name: str) -> list[str]:
    """The headers of that name as they came: nothing in them is decoded."""
    return [str(value) for key, value in mail.raw_items() if key.lower() == name]


def author(mail: EmailMessage) -> str:
    """The only address of the only From."""
    headers = mail.get_all("from", [])
    if len(headers) != 1 or headers[0].defects or len(headers[0].groups) != 1 or headers[0].groups[0].display_name is not None:
        raise Ended(EX_DATAERR, f"From has to be one address; found {values(mail, 'from')!r:.200}")
    address: str = headers[0].addresses[0].addr_spec
    return address


def response_block(mail: EmailMessage) -> str | None:
    """The text from the first marker to the second in the plain text of the mail; None without the first."""
    part = mail.get_body(preferencelist=("plain",))
    content = part.get_payload(decode=True) if part else None
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
    if BEGIN not in text:
        return None
    rest = text[text.index(BEGIN) :]
    return rest[: rest.find(END) + len(END)] if 0 <= rest.find(END) <= MAX_BLOCK_CHARACTERS else rest[:MAX_BLOCK_CHARACTERS]


# ---- What the mail server found out about signatures


def judged(mail: EmailMessage, authserv_id: str, wanted: str) -> tuple[str | None, str | None]:
    """Domain and status of the signature of the domain ``wanted``, else of another one; None and None without any.

    The topmost header of our mail server counts: those below it may be what a sender made up. ``policy`` (RFC 8601 s2.7.1) is a good
    signature that leaves out what RFC 8823 wants signed.
    """
    for value in values(mail, "authentication-results"):
        results = results_of(value, authserv_id)
        if results:
            found = [one for result in results for one in signatures(mail, result)]
            return next((one for one in found if one == (wanted, "pass")), found[0] if found else (None, results[0]["dkim"]))
    return None, None


def results_of(value: str, authserv_id: str) -> list[dict[str, str]]:
    """The results for DKIM in a header of our mail server; none for a header of another. Raises Ended for one of ours that is broken."""
    try:
        (name, *_), *rest = statements(value)
    except ValueError as error:
        if authserv_id.lower() in value.lower():
            raise Ended(EX_DATAERR, f"Authentication-Results of {authserv_id} cannot be read: {error}") from None
        return []
    if name.lower() != authserv_id.lower():
        return []
    return [found for found in map(properties, rest) if "dkim" in found]


def statements(value: str) -> list[list[str]]:
    """The words between semicolons; ``=`` is one. Comments are left out, quoted strings lose their quotes. Raises ValueError."""
    found: list[list[str]] = [[]]
    at = 0
    while at < len(value):
        token = TOKEN.match(value, at)
        if token is None:
            raise ValueError(f"what begins with {value[at : at + 20]!r} is no word and no comment")
        at = token.end()
        if token["mark"] == ";":
            found.append([])
        elif token["mark"]:
            found[-1].append("=")
        elif token["word"]:
            found[-1].append(QUOTED.sub(lambda string: re.sub(r"\\(.)", r"\1", string[1], flags=re.DOTALL), token["word"]))
    if not found[0]:
        raise ValueError("no name stands in front")
    return found


def properties(words: list[str]) -> dict[str, str]:
    """``a=b`` by ``a``; empty for what is not made of such pairs or has one twice."""
    names = [name.partition("/")[0].lower() for name in words[::3]]
    if len(words) % 3 or set(words[1::3]) != {"="} or len(set(names)) != len(names):
        return {}
    return dict(zip(names, words[2::3], strict=True))


def signatures(mail: EmailMessage, result: dict[str, str]) -> list[tuple[str, str]]:
    """Domain and status of each signature that a result can be about."""
    found = []
    for value in values(mail, "dkim-signature"):
        tags = {name.strip(): "".join(text.split()) for name, _, text in (tag.partition("=") for tag in value.split(";"))}
        domain = tags.get("d", "").lower()
        said = {"header.d": domain, "header.i": tags.get("i", f"@{domain}").lower(), "header.s": tags.get("s", "").lower()}
        named = {"header.d", "header.i"} & result.keys()
        meant = named and all(result[name].lower() == said[name] for name in said.keys() & result.keys())
        if meant and tags.get("b", "").startswith(result.get("header.b", "")):
            status = result["dkim"].lower()
            found.append((domain, "policy" if status == "pass" and not covers(mail, tags) else status))
    passes = all(status == "pass" for _, status in found)
    return found if passes else [one for one in found if one[1] != "pass"]


def covers(mail: EmailMessage, tags: dict[str, str]) -> bool:
    """Whether a signature is over the whole text and every header that has to be signed, each of which is there once."""
    there = [name.lower() for name, _ in mail.raw_items() if name.lower() in SIGNED]
    return "l" not in tags and len(set(there)) == len(there) and set(there) <= set(tags.get("h", "").lower().split(":"))


# ---- The webhook


def hand_over(settings: Settings, reply: dict[str, Any]) -> None:
    """POST it. Redirects and proxies are not followed."""
    body = json.dumps(reply).encode()
    mac = digest(settings.secret, body, sha256).hex()
    parts = urlsplit(settings.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        headers = {"Content-Type": "application/json", "X-Service-Signature": f"sha256={mac}"}
        connection.request("POST", parts.path or "/", body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise Ended(EX_TEMPFAIL, f"{settings.url} cannot be reached: {error!r:.200}") from None
    finally:
        connection.close()
    if status >= 500 or status in TRY_AGAIN:
        raise Ended(EX_TEMPFAIL, f"{settings.url} answered {status}")
    if not 200 <= status < 300:
        raise Ended(EX_UNAVAILABLE, f"{settings.url} answered {status}; is it the URL of the webhook, and is [email_challenge] enabled?")


def end(code: int, why: str) -> NoReturn:
    if VERBOSE:
        print(f"receive_reply: {why}", file=sys.stderr)
    else:
        syslog.openlog("receive_reply", facility=syslog.LOG_MAIL)
        syslog.syslog(syslog.LOG_ERR if code else syslog.LOG_INFO, why)
    sys.exit(code)


if __name__ == "__main__":
    main()
