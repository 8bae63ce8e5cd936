"""PAM services in a folder, and what the plugin makes of them."""

from contextlib import AsyncExitStack

import pytest
import structlog
from rig.pam import Stack

from greatseal.testing import FakeClock
from greatseal_pam.password import Stack as Asked
from greatseal_pam.pool import Helpers
from greatseal_pam.settings import PamSettings


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path / "pam.d").people(ann="wonderland", bob="builder").say()


@pytest.fixture
async def helpers():
    """``helpers(most=2, seconds=30)``: all end with the test."""
    async with AsyncExitStack() as ends:

        def make(most=2, seconds=30.0):
            made = Helpers("test", most=most, seconds=seconds, log=structlog.get_logger())
            ends.push_async_callback(made.close)
            return made

        yield make


@pytest.fixture
def ask(stack, helpers):
    """``ask(most=..., seconds=..., accounts=...)``: the stack as the plugin asks it."""

    def make(most=2, seconds=30.0, **settings):
        whole = PamSettings(service=stack.settings["service"], config_dir=stack.folder, **{"accounts": False, **settings})
        return Asked(whole, "EXAMPLE.ORG", helpers(most, seconds), FakeClock(), structlog.get_logger())

    return make
