"""Extension points that are not the kernel's: a family of plugins brings its own.

A distribution that the family shares has the contract, a direct subclass of :class:`Component`; plugins return their implementations from
the hook ``components``; whoever reads them asks ``host.components(Contract)``, from the lifespans on.
"""

from abc import ABC
from typing import ClassVar

__all__ = ["Component", "contract_of"]


class Component(ABC):
    """The base of a contract. Async methods of components have the kernel's deadline around them, or the component's ``deadline``."""

    name: ClassVar[str]
    """Its key: no two components of one contract have the same."""
    most: ClassVar[int | None] = None
    """How many components of the contract there may be; None for any number."""


def contract_of(component: Component) -> type[Component]:
    """The contract that a component keeps: the direct subclass of :class:`Component` that it comes from."""
    return next(one for one in type(component).__mro__ if Component in one.__bases__)
