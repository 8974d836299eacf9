"""What is missing is named, with the command that installs it."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules["{name}"] = None
import slicekit
try:
    import {module}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("sklearn", "slicekit.estimators", "slicekit[sklearn]"),
        ("aeon", "slicekit.estimators.aeon", "slicekit[aeon]"),
    ],
)
def test_a_missing_package_is_named(name: str, module: str, extra: str) -> None:
    if name == "aeon":
        pytest.importorskip("sklearn")
    program = WITHOUT.format(name=name, module=module)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"pip install {extra}" in run.stdout, run.stderr
