"""A run that tests of the command line share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is finished; copy it to change it."""
    from tests.cli.calls import TINY, succeed

    folder = tmp_path_factory.mktemp("finished") / "run"
    succeed("train", "parity", *TINY, "--out", folder)
    return folder


@pytest.fixture(autouse=True)
def _no_picture_of_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than such small runs; that of `finished_run` is drawn."""
    monkeypatch.setattr("slicekit.training.plots.curves_if_possible", lambda run: None)
