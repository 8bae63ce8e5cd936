"""email-reply-00 without a service: its keys, what a reply must hold, the vectors. Over HTTP: tests/system."""

import base64
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.acme import WAIT, AccountView, Identifier, Unauthorized
from greatseal.api.declarations import Secret
from greatseal.api.http import Call
from greatseal.api.problems import RateLimited, Unavailable, Unreachable
from greatseal.api.store import Tx
from greatseal.host import Host, ScriptResult
from greatseal.jose.compact import b64url_encode
from greatseal.testing.parsers import ParserContract
from greatseal.testing.validators import TOKEN, ResponseValidatorContract, attempt_for
from greatseal_email_reply_00.email_reply_00 import EmailReply00
from greatseal_email_reply_00.mail import MAILS, MAILS_SECONDS, Mail, Post
from greatseal_email_reply_00.reply import BEGIN, END, MAX_RESPONSE_BYTES, MailReply, response_in, wrong_with
from greatseal_email_reply_00.settings import EmailChallenge
from greatseal_email_reply_00.webhook import Received, Webhook, _judged

NOBODY = cast("Host", None)
"""What is tested here asks nothing of the host."""
SETTINGS = EmailChallenge(from_address="acme@ca.example", send_script=Path("/bin/true"))
MAIL = Mail(token_part1="AAECAwQFBgcICQoLDA0ODxAREhM", message_id="<0b0f0b0e-0000-8000-8000-000000000001@ca.example>", send_on="post")
KEY_AUTHORIZATION = "AAECAwQFBgcICQoLDA0ODxAREhMICEiIyQlJicoKSorLC0uLzAxMjM.kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
RESPONSE = "6e28V1tI6MQR9ApNtlBGz93kVkfmHp01KxBEn3Z2K2E"
ADDRESS = "someone@a.example"


def validator() -> EmailReply00:
    return EmailReply00(NOBODY, SETTINGS, Post(NOBODY, SETTINGS))


class TestEmailReply00(ResponseValidatorContract):
    kept = MAIL
    verdict = WAIT

    def validator(self) -> EmailReply00:
        return validator()


class TestEmailReply00WhoseReplyCameFirst(ResponseValidatorContract):
    kept = Mail(MAIL.token_part1, MAIL.message_id, "authorization", "")
    wrong = (Mail(MAIL.token_part1, MAIL.message_id, "authorization", "the reply has an empty response"),)

    def validator(self) -> EmailReply00:
        return validator()


def test_the_challenge_shows_half_of_the_token_and_who_sends_the_other() -> None:
    assert validator().members(attempt_for(validator()).challenge) == {"token": TOKEN, "from": "acme@ca.example"}
    assert not validator().offers(Identifier("email", "-oQueueDirectory@a.example"))


def test_ca_246_ca_248_what_the_program_is_told() -> None:
    post = Post(NOBODY, SETTINGS)
    challenge = attempt_for(validator()).challenge
    written = {post.written(challenge, "post") for _ in range(20)}

    assert len(written) == 20
    assert {len(base64.urlsafe_b64decode(mail.token_part1 + "=")) for mail in written} == {20}
    assert {mail.message_id for mail in written} == {f"<{challenge.id}@ca.example>"}
    assert post.challenge_id(f"<{challenge.id}@ca.example>") == challenge.id
    assert post.environment(MAIL, ADDRESS, TOKEN) == {
        "ACME_TO": ADDRESS,
        "ACME_FROM": "acme@ca.example",
        "ACME_SUBJECT": f"ACME: {MAIL.token_part1}",
        "ACME_MESSAGE_ID": MAIL.message_id,
        "ACME_AUTO_SUBMITTED": "auto-generated; type=acme",
        "ACME_TOKEN_PART2": TOKEN,
    }


def reply(body: str, sender: str = ADDRESS, domain: str = "a.example", status: str = "pass") -> MailReply:
    return MailReply(sender=sender, in_reply_to=MAIL.message_id, body=body, dkim_domain=domain, dkim_status=status)


def block(text: str) -> str:
    return f"{BEGIN}\r\n{text}\r\n{END}\r\n"


def test_ca_256_the_vector_of_a_response() -> None:
    assert wrong_with(reply(block(RESPONSE)), ADDRESS, KEY_AUTHORIZATION) == ""


@pytest.mark.parametrize(
    "text",
    [
        "6e28V1tI6MQR9ApNtlBGz93kVkfmHp01KxBEn3Z2K2E=",  # the figures of RFC 8823 write padding
        " 6e28V1tI6MQR9ApNtlBG\r\n\tz93kVkfmHp01KxBEn3Z2K2E ",
        "\r\n".join("6e28V1tI6MQR9ApNtlBGz93kVkfmHp01KxBEn3Z2K2E"),
        "6e28V1tI6MQR9ApNtlBGz93kVkfmHp01KxBEn3Z2K2E".center(MAX_RESPONSE_BYTES - 4),
    ],
)
def test_ca_254_ca_255_a_response_as_mail_programs_wrap_it(text: str) -> None:
    assert response_in(f"Dear CA,\r\n\r\n{block(text)}\r\n> {BEGIN}\r\n> quoted").hex() == sha256(KEY_AUTHORIZATION.encode()).hexdigest()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"sender": "Someone@a.example"}, "the reply is from"),
        ({"sender": "someone@b.example"}, "the reply is from"),
        ({"sender": "someone"}, "the reply is from"),
        ({"sender": "someone@a.e\u0445ample"}, "the reply is from"),
        ({"domain": "a.example."}, "is signed"),
        ({"domain": "\u212a.example"}, "is signed"),  # KELVIN SIGN lower-cases to k
        ({"status": ""}, "has the status"),
    ],
)
def test_s121_ca_252_ca_253_who_sent_it(changes: dict[str, str], wrong: str) -> None:
    right = block(RESPONSE)
    address = "someone@k.example" if "\u212a" in changes.get("domain", "") else ADDRESS
    sender = changes.get("sender", address)

    found = wrong_with(reply(right, sender, changes.get("domain", "a.example"), changes.get("status", "pass")), address, KEY_AUTHORIZATION)

    assert wrong in found
    assert found.isprintable()


class TestAnyReply(ParserContract):
    """S121: the sender, what stands before the block, in it and behind it."""

    valid = (ADDRESS.encode(), b"Dear CA,\r\n", RESPONSE.encode(), b"> quoted")
    refusals = ()
    costly = tuple(
        (ADDRESS.encode(), before, inside, b"")
        for before, inside in (
            (BEGIN.encode() * 2000, b"A"),
            (b"", b"A" * 60_000),
            (b"", b"\x1b[31m" * 12_000),
            (b"-" * 60_000, b" " * 500),
        )
    )

    def read(self, *parts: bytes) -> None:
        """The digest proves, and nothing else does; what is told of the rest can be shown."""
        sender, before, inside, behind = (part.decode(errors="backslashreplace") for part in parts)
        said = wrong_with(reply(f"{before}{BEGIN}\n{inside}\n{END}{behind}", sender), ADDRESS, KEY_AUTHORIZATION)
        assert len(said) < 1000
        assert said.isprintable()
        assert said or "".join(inside.split()).rstrip("=") == RESPONSE


class TestAnyBody(ParserContract):
    """S121: the body of a mail, markers and all."""

    valid = (block(RESPONSE).encode(),)
    refusals = ValueError
    costly = ((b"\x1b[31m" * 12_000,), (BEGIN.encode() * 2000,), ((BEGIN + END).encode() * 1000,))

    def read(self, *parts: bytes) -> None:
        response_in(parts[0].decode(errors="backslashreplace"))


@given(st.binary(max_size=300))
def test_ca_256_only_the_digest_itself_proves(response: bytes) -> None:
    assert wrong_with(reply(block(b64url_encode(response))), ADDRESS, KEY_AUTHORIZATION) != ""


GOOD = {"enabled": True, "from_address": "acme@ca.example", "send_script": Path("/bin/true"), "webhook_hmac_secret": Secret("s")}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"from_address": ""}, "^from_address is missing: the address that challenge mails come from$"),
        ({"from_address": "acme"}, "^from_address: 'acme' is no mail address$"),
        ({"from_address": "ACME <acme@ca.example>"}, "is no mail address$"),
        ({"from_address": "-acme@ca.example"}, "is no mail address$"),
        ({"from_address": "acme@ca.example\n"}, "is no mail address$"),
        ({"send_script": None}, "^send_script is missing: the program that sends challenge mails$"),
        ({"send_script": Path("/bin/none")}, "^send_script: /bin/none is no file that can be executed$"),
        ({"send_script": Path("/etc/passwd")}, "^send_script: /etc/passwd is no file that can be executed$"),
        ({"send_script": Path("/")}, "^send_script: / is no file that can be executed$"),
        ({"webhook_hmac_secret": None}, "^webhook_hmac_secret is missing"),
        ({"webhook_hmac_secret": Secret("")}, "^webhook_hmac_secret is missing"),
        ({"from_address": "", "send_script": None}, "^from_address is missing: .*; send_script is missing: "),
    ],
)
def test_ca_196_ca_247_a_mistake_of_the_operator_is_told_at_the_start(changes: dict[str, object], problem: str) -> None:
    EmailChallenge(**GOOD)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=problem):
        EmailChallenge(**{**GOOD, **changes})  # type: ignore[arg-type]
    assert not EmailChallenge(**{**GOOD, **changes, "enabled": False}).enabled  # type: ignore[arg-type]


def test_ca_247_a_program_in_a_folder_that_may_not_be_searched_is_told(forbidden: Path) -> None:
    with pytest.raises(ValueError, match=f"^send_script: {forbidden} is no file that can be executed$"):
        EmailChallenge(**{**GOOD, "send_script": forbidden})  # type: ignore[arg-type]


class Limits:
    """Lets ``left`` through."""

    def __init__(self, left: int = 1) -> None:
        self.left = left

    def hit(self, bucket: str, key: str, limit: int, window: float) -> int | None:
        assert (bucket, key, limit, window) == ("email-reply-00", ADDRESS, MAILS, MAILS_SECONDS)
        self.left -= 1
        return None if self.left >= 0 else 7


class Scripts:
    """Ends as it is told."""

    def __init__(self, ends: ScriptResult | OSError) -> None:
        self.ends = ends

    async def run(self, path: Path, *, env: Mapping[str, str], timeout: float) -> ScriptResult:
        assert (path, env["ACME_TO"].lower().replace("+tag", ""), timeout) == (Path("/bin/true"), ADDRESS, 30.0)
        if isinstance(self.ends, OSError):
            raise self.ends
        return self.ends


ENDED = ScriptResult(code=0, stdout=b"", timed_out=False)


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        (OSError("Exec format error"), "cannot be run: Exec format error"),
        (ScriptResult(code=75, stdout=b"secret", timed_out=False), "ended with 75"),
        (ScriptResult(code=-9, stdout=b"", timed_out=False), "ended with -9"),
        (ScriptResult(code=None, stdout=b"", timed_out=True), "did not end within 30 seconds"),
    ],
)
async def test_ca_093_a_program_that_does_not_end_well(ends: ScriptResult | OSError, cause: str) -> None:
    post = Post(cast("Host", SimpleNamespace(limits=Limits(), scripts=Scripts(ends))), SETTINGS)

    with pytest.raises(Unreachable) as raised:
        await post.send(MAIL, ADDRESS, TOKEN)

    assert raised.value.detail == f"the challenge mail to {ADDRESS} could not be sent"
    assert raised.value.cause == f"send_script /bin/true {cause}"


async def test_an_address_gets_so_many_mails_and_no_more() -> None:
    post = Post(cast("Host", SimpleNamespace(limits=Limits(2), scripts=Scripts(ENDED))), SETTINGS)
    for _ in range(2):
        await post.send(MAIL, ADDRESS, TOKEN)

    with pytest.raises(RateLimited, match=r"^someone@a\.example had 20 challenge mails within an hour; try again in 7 seconds$"):
        await post.send(MAIL, ADDRESS, TOKEN)


async def test_another_spelling_of_an_address_gets_no_more_mails() -> None:
    post = Post(cast("Host", SimpleNamespace(limits=Limits(3), scripts=Scripts(ENDED))), SETTINGS)

    for spelling in ("Someone@a.example", "sOMEONE@a.example", "someone+tag@a.example"):
        await post.send(MAIL, spelling, TOKEN)
    with pytest.raises(RateLimited):
        await post.send(MAIL, "someonE+Tag@a.example", TOKEN)


def test_nothing_is_written_before_the_answer_unless_send_on_says_so() -> None:
    assert validator().create(cast("Tx", None), attempt_for(validator()).challenge) is None


SECRET = "secret"


class Called:
    """A call of the webhook."""

    def __init__(self, *signatures: str, body: bytes = b'{"from":"a@example.com"}') -> None:
        self.signatures = signatures
        self.sent = body

    async def raw(self) -> bytes:
        return self.sent

    def header_values(self, name: str) -> tuple[str, ...]:
        assert name == "X-Service-Signature"
        return self.signatures

    async def body(self, kind: type[MailReply]) -> MailReply:
        assert kind is MailReply
        return reply("")


def webhook(**host: object) -> Webhook:
    settings = EmailChallenge(from_address="acme@ca.example", send_script=Path("/bin/true"), webhook_hmac_secret=Secret(SECRET))
    host["log"] = SimpleNamespace(info=lambda *_, **told: LOGGED.append(told["outcome"]))
    return Webhook(cast("Host", SimpleNamespace(**host)), settings, Post(NOBODY, SETTINGS))


LOGGED: list[str] = []
MAC = "3aec8731ffe92f799ec8373308825ab2ec48ab7aace70013c8fb6aba3972f7f2"


async def away(*_: object) -> NoReturn:
    raise Unavailable("the database is away")


async def test_ca_195_the_vector_of_a_signature_and_an_outage_is_no_200() -> None:
    with pytest.raises(Unavailable):
        await webhook(db=SimpleNamespace(read=away)).receive(cast("Call", Called(f"sha256={MAC}")))


@pytest.mark.parametrize(
    "signatures",
    [(), (f"sha256={MAC}",) * 2, (MAC,), (f"sha256={MAC.upper()}",), (f"sha512={MAC}",), (f"sha256={MAC} ",), ("sha256=\udcff",), ("",)],
)
async def test_s121_ca_114_ca_195_another_signature_is_200_and_nothing_is_looked_up(signatures: tuple[str, ...]) -> None:
    answer = await webhook(db=SimpleNamespace(read=away)).receive(cast("Call", Called(*signatures)))

    assert (answer.status, answer.body) == (200, b"")
    assert LOGGED.pop() == "not signed with webhook_hmac_secret"


ACCOUNT = attempt_for(validator()).account


@pytest.mark.parametrize("account", [None, msgspec.structs.replace(ACCOUNT, status="deactivated")], ids=["none", "deactivated"])
def test_a_reply_proves_nothing_to_an_account_that_ended(account: AccountView | None) -> None:
    challenge = attempt_for(validator(), kept=MAIL).challenge
    response = b64url_encode(sha256(f"{MAIL.token_part1}{TOKEN}.{ACCOUNT.thumbprint}".encode()).digest())
    received = Received(node="n1", challenge_id=challenge.id, account=ACCOUNT, reply=reply(block(response)))

    assert _judged(challenge, received) is None
    assert isinstance(_judged(challenge, msgspec.structs.replace(received, account=account)), Unauthorized)
