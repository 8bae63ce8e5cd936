"""Where the passkeys of people rest (WebAuthn Level 3).

The plugin passkey does the ceremonies, and keeps what it needs besides of every passkey: its name, signature counter, transports and times.
The credential itself, by which somebody signs in, is where the home of the person decides: in the tables of that plugin, or where a
:class:`PasskeyStore` has it, such as the directory. Plugins return stores from the hook ``components``.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from greatseal.api.components import Component
from greatseal.api.problems import Forbidden
from greatseal.api.store import Tx

__all__ = ["MOST_PASSKEYS", "Passkey", "PasskeyStore", "PasskeysReadOnly"]

MOST_PASSKEYS = 20
"""Of one person. A store that has more gives the first ones."""


class Passkey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key credential. ``id`` has at most 1,023 bytes (WebAuthn s6.5.1).

    ``public_key`` is the DER of a SubjectPublicKeyInfo: P-256, Ed25519, or RSA of 2,048 bits or more, with the algorithms ES256, EdDSA and
    RS256. ``user_handle`` is what the authenticator gives with the credential where no user name was typed; None where the store does not
    know it, and then the name must be typed.
    """

    id: bytes
    subject: str
    public_key: bytes
    user_handle: bytes | None = None


class PasskeysReadOnly(Forbidden):
    """The passkeys of this person are changed somewhere else, of which the detail tells them."""


class PasskeyStore(Component):
    """Passkeys of the people of one home. A person has them in one store: the first that serves them, by its name.

    Who is served by none has theirs in the tables of the plugin passkey.
    """

    read_only: ClassVar[bool] = False
    """Whether nobody changes them here; then :meth:`add` and :meth:`remove` raise :class:`PasskeysReadOnly`."""

    @abstractmethod
    def serves(self, subject: str, source: str | None) -> bool:
        """Whether the passkeys of this person rest here. ``source`` is the name of the directory that knows them, None when none does."""

    @abstractmethod
    async def of(self, subject: str) -> Sequence[Passkey]:
        """Those of a person, at most :data:`MOST_PASSKEYS`; none for whom it does not know.

        Raises Unavailable when it cannot be asked: an outage is never an empty answer.
        """

    @abstractmethod
    async def find(self, id: bytes) -> Passkey | None:
        """The one with that credential id, whosever it is. Raises as :meth:`of`."""

    @abstractmethod
    async def add(self, passkey: Passkey, also: Callable[[Tx], object]) -> None:
        """Keep it. ``also`` notes it, with its audit event, and refuses what was used up before.

        A store in this database runs ``also`` in the transaction that keeps the passkey. A store elsewhere runs it with ``host.db.write``
        as soon as it has the passkey: whoever is killed between the two has one that works and has no name. Raises Conflict when
        somebody has that id already, and what ``also`` raises.
        """

    @abstractmethod
    async def remove(self, subject: str, id: bytes, also: Callable[[Tx], object]) -> bool:
        """Take it away, so that it signs nobody in any more, then run ``also`` as :meth:`add` does. False for what the person has not."""
