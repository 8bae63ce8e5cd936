"""Greatseal: one system that issues identity for a whole organisation, built from plugins.

A plugin is a class whose methods carry :data:`hookimpl`; :mod:`greatseal.hookspecs` lists every hook in life-cycle order.
"""

from importlib.metadata import version

import pluggy

__all__ = ["__version__", "hookimpl"]

__version__ = version("greatseal")

hookimpl = pluggy.HookimplMarker("greatseal")
"""Marks a method of a plugin as the implementation of the hook of the same name."""
