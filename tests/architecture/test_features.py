"""Every feature that is a distribution of its own is built, or has decisive lines that run: the table of features.toml."""

import tomllib
from pathlib import Path

import pytest

from greatseal.kernel.known import known

HERE = Path(__file__).parent
AREAS = tomllib.loads((HERE / "features.toml").read_text())
UNFIT = AREAS.pop("unfit")
FEATURES = {feature: lines for area in AREAS.values() for feature, lines in area.items()}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_built_or_has_lines_that_run(feature: str) -> None:
    if (HERE.parents[1] / "plugins" / feature / "pyproject.toml").exists():
        return
    assert FEATURES[feature], f"{feature} is not built and has no lines"
    run = "".join(file.read_text() for file in HERE.glob("test_*.py"))
    for line in FEATURES[feature]:
        file, _, name = line.partition(":")
        text = (HERE / "typing" / file).read_text()
        assert f"\nclass {name}" in text or f"def {name}(" in text, f"{feature}: there is no {line}"
        assert f".{name}" in run, f"{feature}: no test here runs {line}"


def test_the_table_has_every_feature_that_the_configuration_waits_for_and_every_plugin() -> None:
    planned = {key.owner for keys in known().planned.values() for key in keys.values()}
    plugins = {folder.name for folder in (HERE.parents[1] / "plugins").iterdir() if not folder.name.startswith("bundle-")}

    assert (planned | plugins) - {"core"} <= FEATURES.keys()


def test_what_does_not_fit_is_little_and_has_a_reason() -> None:
    assert len(UNFIT) <= 5
    assert UNFIT.keys() <= FEATURES.keys()
    assert all(reason.endswith(".") for reason in UNFIT.values())
