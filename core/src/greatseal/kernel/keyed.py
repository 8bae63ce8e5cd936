"""Tables of a keyed section that come while the service runs, beside those of the configuration file."""

from collections.abc import Mapping

import msgspec

from greatseal.kernel.config import Binder, Bound


class KeyedTables:
    """A :class:`greatseal.host.KeyedTables`: what ``Host.settings_by_key`` gave out has the table from now on."""

    def __init__(self, binder: Binder, bound: Bound, section: str) -> None:
        self._binder = binder
        self._bound = bound
        self._section = section
        structs = [one.struct for one in binder.declared if one.section == f"{section}.*"]
        self.configured = frozenset(key for struct in structs for key in bound.keyed.get(struct, ()))

    def read(self, key: str, table: Mapping[str, object]) -> Mapping[type, msgspec.Struct]:
        """See :meth:`greatseal.host.KeyedTables.read`."""
        made, problems = self._binder.one_more(self._section, key, table)
        if problems:
            raise ValueError("; ".join(problems))
        return made

    def put(self, key: str, table: Mapping[str, object]) -> None:
        """See :meth:`greatseal.host.KeyedTables.put`."""
        self._refuse_configured(key)
        for struct, value in self.read(key, table).items():
            self._bound.keyed.setdefault(struct, {})[key] = value

    def remove(self, key: str) -> None:
        """See :meth:`greatseal.host.KeyedTables.remove`."""
        self._refuse_configured(key)
        for values in self._values():
            values.pop(key, None)

    def _refuse_configured(self, key: str) -> None:
        if key in self.configured:
            raise ValueError(f"[{self._section}.{key}] stands in the configuration file")

    def _values(self) -> list[dict[str, msgspec.Struct]]:
        structs = {one.struct for one in self._binder.declared if one.section == f"{self._section}.*"}
        return [values for struct, values in self._bound.keyed.items() if struct in structs]
