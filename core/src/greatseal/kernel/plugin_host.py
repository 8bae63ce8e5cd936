"""The kernel as one plugin sees it (:class:`greatseal.host.Host`)."""

from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import msgspec
import structlog

from greatseal.api.audit import AuditEvent, AuditQuery, AuditRecord
from greatseal.api.declarations import EventType, PermissionName
from greatseal.api.keys import Keys, Signer
from greatseal.api.languages import Languages
from greatseal.api.services import ServiceKey
from greatseal.api.store import Tx
from greatseal.audit import recorded
from greatseal.host import Blocking, NodeInfo
from greatseal.kernel.keyed import KeyedTables
from greatseal.kernel.redacted import in_force
from greatseal.kernel.services import requires_of, uses_of
from greatseal.keys.envelopes import FeatureEnvelopes

if TYPE_CHECKING:
    from greatseal.kernel.kernel import Kernel

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class _KeysOfFiles:
    """What there is of keys before the database is open."""

    def __init__(self, blocking: Blocking) -> None:
        self._blocking = blocking

    def from_file(self, path: Path, *, purpose: str, password: bytes | None = None) -> Signer:
        """See :meth:`greatseal.api.keys.Keys.from_file`."""
        from greatseal.keys.software import signer_from_file

        return signer_from_file(path, password=password, purpose=purpose, blocking=self._blocking)

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("keys of the database can be used from the lifespans on, not while components are collected")


class PluginHost:
    """What the hooks of one feature get."""

    def __init__(self, kernel: "Kernel", feature: str, plugin: object) -> None:
        self._kernel = kernel
        self._feature = feature
        self._plugin = plugin
        self.log: structlog.stdlib.BoundLogger = structlog.get_logger().bind(plugin=feature)
        self.node_id = kernel.node_id
        self.base_url = kernel.base_url
        self.issuer = kernel.issuer
        self.realm = kernel.realm
        self.state_dir: Path = kernel.state_dir
        self.clock = kernel.clock
        self.db = kernel.store
        self.handles = kernel.handles
        self.blocked_keys = kernel.blocked_keys
        self.envelopes = FeatureEnvelopes(kernel.seals, feature)
        self.changes = kernel.changes
        self.strikes = kernel.strikes
        self.limits = kernel.limits
        self.metrics = kernel.metrics
        self.blocking = kernel.blocking
        self.scripts = kernel.scripts

    @property
    def languages(self) -> Languages:
        return self._kernel.languages

    @property
    def keys(self) -> Keys:
        return self._kernel.keys or cast("Keys", _KeysOfFiles(self.blocking))

    def settings(self, struct: type[S]) -> S:
        return cast("S", self._kernel.bound.tables[struct])

    def settings_by_key(self, struct: type[S]) -> Mapping[str, S]:
        return cast("Mapping[str, S]", self._kernel.bound.keyed[struct])

    def tables(self, section: str) -> KeyedTables:
        return KeyedTables(self._kernel.binder, self._kernel.bound, section)

    def settings_list(self, struct: type[S]) -> Sequence[S]:
        return cast("Sequence[S]", self._kernel.bound.repeated[struct])

    def section_present(self, section: str) -> bool:
        return section in self._kernel.bound.present

    def service(self, key: ServiceKey[T]) -> T:
        if key not in requires_of(self._plugin):
            raise RuntimeError(f"plugin {self._feature!r} takes the service {key.name!r} without naming it in `requires`")
        return cast("T", self._kernel.service(key))

    def optional_service(self, key: ServiceKey[T]) -> T | None:
        if key not in uses_of(self._plugin):
            raise RuntimeError(f"plugin {self._feature!r} takes the service {key.name!r} without naming it in `uses`")
        return cast("T | None", self._kernel.service(key) if self._kernel.provides(key) else None)

    def components(self, contract: type[T]) -> Mapping[str, T]:
        return self._kernel.registry.of(contract)

    def brought_by(self, contract: type[object], key: str) -> str:
        return self._kernel.registry.owner(contract, key)

    def discovery(self, document: str, *, ca_id: str | None = None) -> Mapping[str, object]:
        return self._kernel.discovery_members(document, ca_id)

    def permissions(self) -> Sequence[PermissionName]:
        return self._kernel.permissions

    def audit_events(self) -> Sequence[EventType]:
        return self._kernel.audit_events

    def configuration(self) -> Mapping[str, Any]:
        return in_force(self._kernel.binder.declared, self._kernel.bound)

    def nodes(self) -> Sequence[NodeInfo]:
        return [self._kernel.this_node()]

    def spawn(self, name: str, task: Awaitable[Any]) -> None:
        self._kernel.jobs.spawn(f"{self._feature}: {name}", task)

    async def audit_log(self, event: AuditEvent) -> None:
        await self.db.write(_write_event, event)

    async def audit_records(self, query: AuditQuery) -> Sequence[AuditRecord]:
        return await self.db.read(recorded, query)


def _write_event(tx: Tx, event: AuditEvent) -> None:
    tx.audit(event)
