"""Settings of all tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

# The first example of a process builds Unicode tables, which takes seconds on a busy machine: not the fault of a test.
settings.register_profile("greatseal", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("greatseal")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: tests of outages and stops wait for most of their time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2
