"""Members of discovery documents, of every plugin that adds some."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from greatseal.api.http import Discovery
from greatseal.api.problems import Problem, StartProblem
from greatseal.kernel.hooks import kind_of
from greatseal.kernel.report import PluginFailed

__all__ = ["merged"]


def merged(found: Sequence[tuple[str, Discovery]], document: str, who: Callable[[str], str]) -> dict[str, object]:
    """The members of a document, merged, also inside of ``meta``; keys are joined. ``who`` names the plugin of a feature.

    Raises StartProblem for two owners of one member, PluginFailed where one cannot say its members.
    """
    whole: dict[str, object] = {}
    meta: dict[str, object] = {}
    owners: dict[str, str] = {}
    for feature, one in found:
        if one.document == document:
            members = _members(who(feature), one)
            if document == "jwks":
                members["keys"] = [*whole.pop("keys", ()), *members["keys"]]  # type: ignore[misc]  # each is a list
            shown = members.pop("meta", {})
            double = [*(whole.keys() & members.keys()), *(f"meta.{name}" for name in meta.keys() & shown.keys())]
            if double:
                both = f"{who(owners[min(double)])} and from {who(feature)}"
                raise StartProblem(f"the {document} document's member {min(double)!r} comes from {both}; disable one of them")
            owners |= dict.fromkeys([*members, *(f"meta.{name}" for name in shown)], feature)
            whole |= members
            meta |= shown
    return {**whole, "meta": meta} if meta else whole


def _members(who: str, one: Discovery) -> dict[str, Any]:
    """What a plugin adds to a document. Raises StartProblem where that is none, or cannot be told."""
    where = f"{who}: its members of the {one.document} document"
    try:
        members = one.members()
    except (Problem, StartProblem):
        raise
    except Exception as error:
        raise PluginFailed(f"{where} cannot be told: {type(error).__name__}: {error}") from error
    if not isinstance(members, Mapping):
        raise StartProblem(f"{where} are {kind_of(members)}; return a dict")
    if not isinstance(members.get("meta", {}), Mapping):
        raise StartProblem(f"{who}: the {one.document} document's member 'meta' is no object but {type(members['meta']).__name__}")
    if one.document == "jwks" and not isinstance(members.get("keys"), list):
        raise StartProblem(f"{where} have no 'keys', which is a list of JWKs")
    return dict(members)
