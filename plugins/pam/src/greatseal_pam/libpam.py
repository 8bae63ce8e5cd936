"""PAM by ctypes: whether a password is right, whether its account may be used, and a new password.

The standard library alone: the helper processes import this, and they begin in 20 ms because nothing else comes with it.
"""

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_uint, c_void_p
from typing import Any, NamedTuple

LIBRARY = "libpam.so.0"
LONGEST = 511
"""Bytes of an answer: PAM_MAX_RESP_SIZE with the end of the string."""

SUCCESS, NEW_AUTHTOK_REQD, CONV_ERR, BUF_ERR = 0, 12, 19, 5
_PROMPT_ECHO_OFF, _PROMPT_ECHO_ON, _ERROR_MSG, _TEXT_INFO = 1, 2, 3, 4
_USER, _TTY, _RHOST, _FAIL_DELAY = 2, 3, 4, 10
_DISALLOW_NULL_AUTHTOK, _CHANGE_EXPIRED_AUTHTOK = 0x1, 0x20
_MOST_MESSAGES, _LONGEST_MESSAGE, _MOST_ANSWERS = 8, 300, 16


class _Message(Structure):
    _fields_ = (("style", c_int), ("text", c_char_p))


class _Response(Structure):
    _fields_ = (("text", c_void_p), ("retcode", c_int))


_Conversation = CFUNCTYPE(c_int, c_int, POINTER(POINTER(_Message)), POINTER(POINTER(_Response)), c_void_p)
_Delay = CFUNCTYPE(None, c_int, c_uint, c_void_p)


class _Conv(Structure):
    _fields_ = (("conv", _Conversation), ("appdata", c_void_p))


class Verdict(NamedTuple):
    """What a stack said: the code of the last step that was taken (``start``, ``authenticate``, ``account``, ``change``).

    ``user`` is the name as the stack has it then. ``messages`` are its words for the person, ``asked`` the prompts that were left
    unanswered, ``delay`` the microseconds that it wants a failure to take.
    """

    step: str
    code: int
    user: str
    messages: tuple[str, ...]
    asked: tuple[str, ...]
    delay: int


class Pam:
    """One stack: the service ``service`` of libpam's own folders, or of ``folder``."""

    def __init__(self, service: str, folder: str) -> None:
        """Raises OSError where there is no libpam, AttributeError where it is too old to be given a folder."""
        self._service = service.encode()
        self._folder = folder.encode()
        self._pam, self._libc = load(folder)

    def authenticate(self, user: str, password: str, remote: str) -> Verdict:
        """Check the password, then the account."""
        return self._conversation(user, remote, _Talk(password), self._check)

    def change(self, user: str, old: str, new: str, remote: str) -> Verdict:
        """Check the old password and the account, which an expired password does not hold up, and set the new one."""

        def change(handle: c_void_p, talk: _Talk) -> tuple[str, int]:
            step, code = self._check(handle, talk)
            if code not in {SUCCESS, NEW_AUTHTOK_REQD} or step != "account":
                return step, code
            talk.begin_change(new)
            return "change", self._pam.pam_chauthtok(handle, _CHANGE_EXPIRED_AUTHTOK if code == NEW_AUTHTOK_REQD else 0)

        return self._conversation(user, remote, _Talk(old), change)

    def _check(self, handle: c_void_p, _talk: "_Talk") -> tuple[str, int]:
        code = self._pam.pam_authenticate(handle, _DISALLOW_NULL_AUTHTOK)
        if code != SUCCESS:
            return "authenticate", code
        return "account", self._pam.pam_acct_mgmt(handle, _DISALLOW_NULL_AUTHTOK)

    def _conversation(self, user: str, remote: str, talk: "_Talk", steps: Callable[[c_void_p, "_Talk"], tuple[str, int]]) -> Verdict:
        handle, delays = c_void_p(), [0]
        # PAM keeps pointers to these: they live until pam_end.
        conv = _Conv(_Conversation(self._answering(talk)), None)
        delay = _Delay(lambda code, wanted, _data: delays.append(wanted if code else 0))
        code = self._start(user, conv, handle)
        if code != SUCCESS:
            return Verdict("start", code, user, (), (), 0)
        step, code = "start", BUF_ERR
        try:
            self._pam.pam_set_item(handle, _FAIL_DELAY, ctypes.cast(delay, c_void_p))
            if remote:
                self._pam.pam_set_item(handle, _RHOST, ctypes.cast(c_char_p(remote.encode()), c_void_p))
            self._pam.pam_set_item(handle, _TTY, ctypes.cast(c_char_p(b"greatseal"), c_void_p))
            step, code = steps(handle, talk)
            now = self._user(handle) or user
        finally:
            self._pam.pam_end(handle, code)
        return Verdict(step, code, now, talk.messages(), tuple(talk.asked), max(delays))

    def _start(self, user: str, conv: _Conv, handle: c_void_p) -> int:
        begin = (self._service, user.encode(), ctypes.byref(conv))
        if self._folder:
            code = self._pam.pam_start_confdir(*begin, self._folder, ctypes.byref(handle))
        else:
            code = self._pam.pam_start(*begin, ctypes.byref(handle))
        return int(code)

    def _user(self, handle: c_void_p) -> str:
        item = c_void_p()
        if self._pam.pam_get_item(handle, _USER, ctypes.byref(item)) != SUCCESS or not item.value:
            return ""
        return ctypes.string_at(item.value).decode("utf-8", "replace")

    def _answering(self, talk: "_Talk") -> Callable[..., int]:
        def converse(many: int, messages: Any, responses: Any, _data: object) -> int:
            """Answer each prompt or none: what PAM gets is of libc's memory, and PAM frees it."""
            said = [(messages[n].contents.style, messages[n].contents.text or b"") for n in range(many)]
            answers = [talk.answer(style, text.decode("utf-8", "replace")) for style, text in said]
            if any(answer is None for answer in answers):
                return CONV_ERR
            block = self._libc.calloc(many, ctypes.sizeof(_Response))
            if not block:
                return BUF_ERR
            array = ctypes.cast(block, POINTER(_Response))
            for n, answer in enumerate(answers):
                if answer:
                    array[n].text = self._libc.strdup(answer)
            responses[0] = array
            return SUCCESS

        return converse


class _Talk:
    """What is answered: the password once; while a password is changed, the old one where it is asked for, else the new one."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._new: bytes | None = None
        self._answered = 0
        self._said: list[str] = []
        self.asked: list[str] = []

    def begin_change(self, new: str) -> None:
        self._new, self._answered = new.encode(), 0
        self._said.clear()

    def answer(self, style: int, text: str) -> bytes | None:
        """Bytes for PAM, empty where nothing is asked, None to refuse."""
        if style in {_ERROR_MSG, _TEXT_INFO}:
            self._said.append(text)
            return b""
        answer = self._typed(style, text.casefold())
        if answer is None and len(self.asked) < _MOST_MESSAGES:
            self.asked.append(_shown(text))
        return answer

    def messages(self) -> tuple[str, ...]:
        """Each once, in one line; one that repeats a password is left out."""
        secret = {word.decode() for word in (self._password, self._new or b"") if word}
        lines = dict.fromkeys(_shown(text) for text in self._said)
        return tuple(line for line in lines if line and not any(word in line for word in secret))[:_MOST_MESSAGES]

    def _typed(self, style: int, text: str) -> bytes | None:
        self._answered += 1
        if style != _PROMPT_ECHO_OFF:
            return None
        if self._new is None:
            return self._password if self._answered == 1 else None
        if self._answered > _MOST_ANSWERS:
            return None
        return self._password if "current" in text or text.startswith("old ") else self._new


def load(folder: str = "") -> tuple[Any, Any]:
    """Both libraries, libpam and libc. Raises OSError where there is no libpam, AttributeError where it is too old to be given a folder."""
    pam, libc = ctypes.CDLL(LIBRARY), ctypes.CDLL(None)
    libc.calloc.restype = c_void_p
    libc.calloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    libc.strdup.restype = c_void_p
    libc.strdup.argtypes = (c_char_p,)
    begin = (c_char_p, c_char_p, POINTER(_Conv))
    pam.pam_start.argtypes = (*begin, POINTER(c_void_p))
    if folder:
        pam.pam_start_confdir.argtypes = (*begin, c_char_p, POINTER(c_void_p))
    for name in ("pam_authenticate", "pam_acct_mgmt", "pam_chauthtok", "pam_end"):
        getattr(pam, name).argtypes = (c_void_p, c_int)
    pam.pam_set_item.argtypes = (c_void_p, c_int, c_void_p)
    pam.pam_get_item.argtypes = (c_void_p, c_int, POINTER(c_void_p))
    return pam, libc


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_LONGEST_MESSAGE]
