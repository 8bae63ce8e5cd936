"""One-time codes beside a password: who keeps the tokens of a person, and how a code is used up (RFC 4226, RFC 6238).

The home of a person decides where their tokens rest: in tables of this service, in the directory, or at a server that only says yes or no.
The plugin otp counts the codes; a store keeps keys, metadata and how far each token was used.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from greatseal.api.components import Component
from greatseal.api.declarations import Secret
from greatseal.api.directory import User

Algorithm = Literal["sha1", "sha256", "sha384", "sha512"]
Kind = Literal["totp", "hotp"]


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Whose tokens: the canonical subject, and the person as their directory knows them, None where no directory serves the realm.

    ``languages`` are those of the browser that changes something, best first: the person is told in one of them.
    """

    subject: str
    user: User | None
    languages: tuple[str, ...] = ()


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What may be seen of a token. Moments are microseconds; what a store does not know is None.

    ``confirmed``: a code of it was given once, so the person has it. ``enabled``: it may be used now. Of both, the person must use it.
    ``period`` is the seconds of a step, None for HOTP.
    """

    token_id: str
    label: str
    type: Kind
    algorithm: Algorithm
    digits: int
    period: int | None
    confirmed: bool
    enabled: bool = True
    created_at: int | None = None
    last_used_at: int | None = None


class TokenKey(msgspec.Struct, frozen=True, kw_only=True):
    """What codes are counted with. ``used`` is the last step or counter whose code was taken, None when there was none.

    ``offset`` is how many seconds the clock of the token is ahead. A HOTP token counts from ``counter``. Without ``confirmed`` it waits
    for its first code, which is good as long as no other token is in use.
    """

    token_id: str
    type: Kind
    key: bytes
    algorithm: Algorithm
    digits: int
    period: int = 30
    offset: int = 0
    counter: int = 0
    used: int | None = None
    confirmed: bool = True

    def __repr__(self) -> str:
        return f"TokenKey(token_id={self.token_id!r})"


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A TOTP token to be stored. It is not confirmed, and ``label`` is the person's word for it."""

    label: str
    key: bytes
    algorithm: Algorithm
    digits: int
    period: int

    def __repr__(self) -> str:
        return f"NewToken(label={self.label!r})"


class CodeStore(Component):
    """Keeps the tokens of the people whose home it is.

    A store answers for codes in one of two ways: it gives :meth:`keys` and lets :meth:`advance` decide, or it has none and :meth:`check`
    asks who knows them. Methods raise Unavailable when they cannot tell: nobody signs in on that. Changes write their audit events.
    """

    manages: ClassVar[bool] = True
    """Whether tokens are made and deleted here."""
    recovery: ClassVar[bool] = True
    """Whether recovery codes of this service stand in for a lost token."""

    @abstractmethod
    def keeps(self, holder: Holder) -> bool:
        """Whether this is where the person's tokens rest. Asked at every sign-in, so from memory.

        Stores are asked in the order of the configuration; that of the plugin otp itself takes whom no other one keeps.
        """

    async def takes_both(self, holder: Holder) -> bool:
        """Whether the person's home checks password and code as one, for an authenticator of its own: every other one leaves them to it.

        Asked before the password is.
        """
        return False

    @abstractmethod
    async def tokens(self, holder: Holder) -> Sequence[Token]:
        """The tokens of the person, the oldest first: none where the store cannot tell."""

    async def keys(self, holder: Holder) -> Sequence[TokenKey]:
        """Those whose codes may be used now, with those that are not confirmed yet."""
        return ()

    async def advance(self, holder: Holder, key: TokenKey, to: int) -> bool:
        """Use up the code of a step or counter, and all before it; the token is confirmed by it.

        True once: False when as much or more was used up meanwhile, or the token is gone. It is committed when this returns.
        """
        return False

    async def check(self, holder: Holder, password: Secret, code: Secret) -> bool:
        """Whether the code is good, asked of who knows; the code is used up by the question. Only without :meth:`keys`."""
        return False

    async def add(self, holder: Holder, new: NewToken) -> Token:
        """Store a token. Raises Conflict when the person has as many as there may be."""
        raise NotImplementedError

    async def remove(self, holder: Holder, token_id: str, *, by: str | None = None) -> bool:
        """Delete a token of the person; False when they have none of this id. ``by`` is who does it when it is somebody else."""
        raise NotImplementedError
