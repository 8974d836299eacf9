"""The example of the paper's appendix does what it says."""

import sys
from pathlib import Path

import pytest
import torch

from examples import parity

DTYPES = (torch.float32, torch.float64)


@pytest.mark.parametrize("make", [parity.dense, parity.orthogonal])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_rotation_computes_parity_exactly(make, dtype: torch.dtype) -> None:
    bits = torch.randint(2, (4, 2000))
    odd = torch.tensor([[sum(row[: n + 1]) % 2 == 1 for n in range(2000)] for row in bits.tolist()])
    assert torch.equal(make(dtype).predict(bits), odd)


@pytest.mark.parametrize("dtype", DTYPES)
def test_orthogonal_is_the_same_as_dense(dtype: torch.dtype) -> None:
    bits = torch.randint(2, (3, 100))
    found, expected = parity.orthogonal(dtype).states(bits), parity.dense(dtype).states(bits)
    torch.testing.assert_close(found, expected, rtol=0, atol=100 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dim", [2, 8])
def test_a_fitted_diagonal_uses_all_the_changes_it_has_and_ends_at_chance(dim: int) -> None:
    model = parity.fitted_diagonal(dim)
    found = parity.accuracies(model, 2000)
    assert parity.changes(model) == dim
    assert found[dim // 2] > 0.95
    assert abs(found[2000] - 0.5) < 0.03


def test_marks_are_powers_of_two_and_the_last_length() -> None:
    assert parity.marks(1) == [1]
    assert parity.marks(8) == [1, 2, 4, 8]
    assert parity.marks(10) == [1, 2, 4, 8, 10]


@pytest.mark.parametrize("length", [1, 300])
def test_main_prints_a_table_and_saves_the_plot(
    length: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "new"
    parity.main(["--length", str(length), "--out", str(folder)])
    printed = capsys.readouterr().out
    assert "100.00%" in printed and str(folder) in printed.replace("\n", "")
    assert (folder / "parity.png").read_bytes().startswith(b"\x89PNG")


def test_main_does_without_rich_and_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("rich.console", "rich.table", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    parity.main(["--length", "20", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "Orthogonal(2) float64" in printed and "slicekit[plot]" in printed
    assert not list(tmp_path.iterdir())


def test_a_length_below_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        parity.main(["--length", "0"])
    assert exit_info.value.code == 2
    assert "--length 0" in capsys.readouterr().err
