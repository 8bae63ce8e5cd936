"""Makes installable-looking distributions in a folder, so that loading is tested through real entry points."""

import sys
from pathlib import Path


def install(folder: Path, distribution: str, code: str, *, feature: str | None = None, group: str = "greatseal.plugins") -> str:
    """Write a module and its metadata under ``folder``; returns the feature name. The folder must be on ``sys.path``."""
    module = distribution.replace("-", "_")
    name = feature or distribution.removeprefix("greatseal-")
    (folder / f"{module}.py").write_text(code)
    meta = folder / f"{module}-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:Plugin\n")
    sys.modules.pop(module, None)
    return name
