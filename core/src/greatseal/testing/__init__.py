"""The testing kit for plugin authors: fixtures, fakes and contract test classes."""

from greatseal.clock import FakeClock

__all__ = ["FakeClock"]
