"""What targets may import is said by what they may: whatever is added beside it is forbidden to them."""

import tomllib
from pathlib import Path

import tocsin

SOURCE = Path(tocsin.__file__).parent
ALLOWED = {"tocsin.targets", "tocsin.domain", "tocsin.clock"}


def test_targets_may_import_the_domain_and_the_clock_and_nothing_else() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())
    [contract] = [
        one
        for one in project["tool"]["importlinter"]["contracts"]
        if one.get("source_modules") == ["tocsin.targets"]
    ]
    modules = {
        f"tocsin.{path.stem}"
        for path in SOURCE.iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").is_file()
    }
    assert set(contract["forbidden_modules"]) == modules - ALLOWED
