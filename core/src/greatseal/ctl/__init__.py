"""``greatseal ctl``: the admin API on the command line, as tables for people and as JSON for programs."""

from greatseal.ctl import clients, resources
from greatseal.ctl.base import ctl

__all__ = ["clients", "ctl", "resources"]
