"""Figures of the fault tests at the end of a run: what was done to the service, and what it did meanwhile."""

import pytest


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
