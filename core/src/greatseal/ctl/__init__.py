"""``greatseal ctl``: the admin API on the command line, as tables for people and as JSON for programs."""

from greatseal.ctl.session import ctl

__all__ = ["ctl"]
