"""Figures of the fault tests at the end of a run: what was done to the service, and what it did meanwhile."""

from collections.abc import Iterator

import pytest
from faults.forked import IDLE


@pytest.fixture(scope="session", autouse=True)
def parents() -> Iterator[None]:
    """The warm parents end with the session."""
    yield
    for parent in IDLE:
        parent.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures = [
        f"{report.nodeid.partition('::')[2]}: {value}"
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "figures"
    ]
    if figures:
        terminalreporter.section("faults")
        terminalreporter.write_line("\n".join(figures))
