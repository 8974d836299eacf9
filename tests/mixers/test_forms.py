"""Linear mixers are affine linear CDEs: `solve` with their structure gives their states."""

from pathlib import Path

import pytest
import torch

from slicekit import mixers
from slicekit.mixers.forms import FORMS, affine_cde, table
from slicekit.structures import BlockDiagonal, Diagonal, JointDPLR

WIDTH = 8
CASES = {
    "S4D": (lambda: mixers.S4D(WIDTH, 6), BlockDiagonal),
    "S5": (lambda: mixers.S5(WIDTH, 6), BlockDiagonal),
    "LRU": (lambda: mixers.LRU(WIDTH, 5), BlockDiagonal),
    "S6": (lambda: mixers.S6(WIDTH, 3), Diagonal),
    "Mamba": (lambda: mixers.Mamba(WIDTH, 3), Diagonal),
    "Mamba-2": (lambda: mixers.Mamba2(WIDTH, 3, head_dim=4), Diagonal),
    "mLSTM": (lambda: mixers.MLSTM(WIDTH, heads=2), Diagonal),
    "GLA": (lambda: mixers.GatedLinearAttention(WIDTH, heads=2), Diagonal),
    "DeltaNet": (lambda: mixers.DeltaNet(WIDTH, heads=2), JointDPLR),
    "DeltaNet[-1, 1]": (lambda: mixers.DeltaNet(WIDTH, heads=2, negative=True), JointDPLR),
    "Gated DeltaNet": (lambda: mixers.GatedDeltaNet(WIDTH, heads=2), JointDPLR),
    "DeltaProduct": (lambda: mixers.GatedDeltaProduct(WIDTH, heads=2, gated=False), JointDPLR),
    "Gated DeltaProduct": (lambda: mixers.GatedDeltaProduct(WIDTH, heads=2, rank=3), JointDPLR),
    "RWKV-7": (lambda: mixers.RWKV7(WIDTH, head_dim=4), JointDPLR),
}


@pytest.mark.parametrize("name", CASES)
def test_solve_gives_the_states_of_the_mixer(name: str) -> None:
    make, structure = CASES[name]
    torch.manual_seed(0)
    mixer = make().double()
    x = torch.randn(3, 7, WIDTH, dtype=torch.float64)
    cde = affine_cde(mixer, x)
    assert isinstance(cde.structure, structure)
    state, expected = None, []
    for element in x.unbind(1):
        _, state = mixer.step(element, state)
        expected.append(state["hidden"])
    torch.testing.assert_close(cde.states(), torch.stack(expected, 1), rtol=1e-9, atol=1e-11)


def test_a_nonlinear_recurrence_is_refused() -> None:
    with pytest.raises(TypeError, match="LSTM is no affine linear CDE"):
        affine_cde(mixers.LSTM(4, 4), torch.randn(1, 2, 4))


def test_the_table_has_a_row_for_each_form() -> None:
    lines = table().splitlines()
    assert len(lines) == len(FORMS) + 2
    assert all(line.count(" | ") == 5 for line in lines)


def test_the_page_shows_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "unification.md"
    assert table() in page.read_text()
