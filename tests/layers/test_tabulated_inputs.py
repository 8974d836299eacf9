"""Discrete tokens as a table: exact, and used where it is less work."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit import (
    Block,
    Differences,
    Mean,
    SequenceModel,
    SLiCE,
    Tabulated,
    Wiring,
)
from slicekit.layers import Drive
from tests.layers.reference import (
    INPUTS,
    assert_near,
    every_drive,
    every_initial,
    every_mode,
    gradients,
    make_layer,
)
from tests.market import STRUCTURES, every_structure

VOCABULARY = 4


def make_tokens() -> tuple[Tensor, Tensor]:
    table = torch.randn(VOCABULARY, INPUTS, dtype=torch.float64, requires_grad=True)
    return table, torch.randint(VOCABULARY, (3, 6))


def assert_exact(layer: SLiCE, lengths: list[int] | None = None) -> None:
    table, index = make_tokens()
    answers = []
    for x in (Tabulated(table, index), table[index]):
        y, state = layer(x, lengths=lengths, return_state=True)
        answers.append({"outputs": y, **state.tensors, **gradients(y, layer, table)})
    assert_near(*answers)


@every_structure
@every_mode
def test_tabulated_inputs_of_every_structure_are_dense_ones(name: str, mode: str) -> None:
    assert_exact(make_layer(name, mode=mode))


@every_drive
@every_initial
@every_mode
@pytest.mark.parametrize("lengths", [None, [2, 6, 1]], ids=["full", "padded"])
def test_tabulated_inputs_of_every_drive_are_dense_ones(
    drive: str, initial: str, mode: str, lengths: list[int] | None
) -> None:
    assert_exact(make_layer("blocks", drive, initial, mode), lengths)


@every_drive
@every_initial
def test_tabulated_parts_are_the_dense_whole(drive: str, initial: str) -> None:
    layer = make_layer("orthogonal-4", drive, initial)
    table, index = make_tokens()
    first, state = layer(Tabulated(table, index[:, :1]), return_state=True)
    rest = layer(Tabulated(table, index[:, 1:]), state)
    y, whole = torch.cat([first, rest], 1), layer(table[index])
    assert_near(
        {"outputs": y, **gradients(y, layer, table)},
        {"outputs": whole, **gradients(whole, layer, table)},
    )


@pytest.mark.parametrize("wiring", [Wiring(), Wiring.pre_norm()], ids=["paper", "pre-norm"])
def test_a_block_takes_a_table_too(wiring: Wiring) -> None:
    block = Block(make_layer("diagonal"), INPUTS, wiring).double()
    table, index = make_tokens()
    answers = []
    for x in (Tabulated(table, index), table[index]):
        y = block(x, lengths=[6, 3, 1])
        answers.append({"outputs": y, **gradients(y, block, table)})
    assert_near(*answers)


class Spy:
    """What the mixer of a model's first block was given."""

    def __init__(self, model: SequenceModel) -> None:
        self.seen: list[Any] = []
        (mixer,) = [m for m in model.blocks[0].modules() if isinstance(m, SLiCE)]
        mixer.register_forward_pre_hook(lambda module, inputs: self.seen.append(inputs[0]))


def make_model(drive: Drive | None = None, **rest: Any) -> SequenceModel:
    return SequenceModel(
        vocabulary=VOCABULARY,
        outputs=3,
        width=4,
        mixer=lambda width: SLiCE(width, STRUCTURES["diagonal"], drive=drive),
        **rest,
    ).double()


def test_a_model_tabulates_when_tokens_repeat() -> None:
    model = make_model(layers=2, wiring=Wiring.pre_norm(), dropout=0.5)
    spy = Spy(model)
    model(torch.randint(VOCABULARY, (1, VOCABULARY + 1)))
    assert isinstance(spy.seen[0], Tabulated)
    assert spy.seen[0].table.shape == (VOCABULARY, 4)


def test_a_model_does_not_tabulate_fewer_positions_than_tokens() -> None:
    model = make_model()
    spy = Spy(model)
    model(torch.randint(VOCABULARY, (2, 2)))
    assert isinstance(spy.seen[0], Tensor)


def test_a_model_does_not_tabulate_what_looks_at_its_neighbours() -> None:
    model = make_model(drive=Differences())
    spy = Spy(model)
    model(torch.randint(VOCABULARY, (3, 6)))
    assert isinstance(spy.seen[0], Tensor)


class Opaque(nn.Module):
    """A mixer of someone else's, which knows nothing of tables."""

    def __init__(self, inner: SLiCE) -> None:
        super().__init__()
        self.inner, self.outputs = inner, inner.outputs

    def forward(self, x: Tensor, *rest: Any) -> Any:
        assert isinstance(x, Tensor)
        return self.inner(x, *rest)


def test_a_model_does_not_tabulate_for_a_mixer_that_does_not_say_it_may() -> None:
    model = SequenceModel(
        vocabulary=VOCABULARY,
        outputs=3,
        width=4,
        mixer=lambda width: Opaque(SLiCE(width, STRUCTURES["diagonal"])),
    )
    assert model(torch.randint(VOCABULARY, (3, 6))).shape == (3, 6, 3)


@pytest.mark.parametrize("pool", [None, Mean()], ids=["positions", "mean"])
def test_a_tabulating_model_gives_what_it_gives_for_one_sequence_at_a_time(
    pool: Mean | None,
) -> None:
    model = make_model(layers=2, pool=pool)
    tokens = torch.randint(VOCABULARY, (5, 3))
    together = model(tokens)
    spy = Spy(model)
    apart = torch.cat([model(row[None]) for row in tokens])
    assert all(isinstance(x, Tensor) for x in spy.seen)
    assert_near(
        {"outputs": together, **gradients(together, model)},
        {"outputs": apart, **gradients(apart, model)},
    )


def test_a_table_of_the_wrong_width_is_named() -> None:
    with pytest.raises(ValueError, match=r"x.table has shape \(4, 3\); expected \(vocabulary, 2\)"):
        make_layer()(Tabulated(torch.zeros(4, 3).double(), torch.zeros(2, 5, dtype=torch.int64)))
