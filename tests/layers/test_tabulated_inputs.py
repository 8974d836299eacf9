"""Discrete tokens as a table: exact, and used where it is less work."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.nn.utils import parametrize

from slicekit import (
    Block,
    Differences,
    Mean,
    Pointwise,
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


class Tripled(nn.Embedding):
    """An embedding of someone else's."""

    def forward(self, input: Tensor) -> Tensor:
        return 3 * super().forward(input)


class Negative(nn.Module):
    """A parametrisation."""

    def forward(self, weight: Tensor) -> Tensor:
        return -weight.square()


def tripled(module: nn.Module, given: Any, rows: Any) -> Any:
    return 3 * rows


def replaced(model: SequenceModel, embedding: nn.Module) -> None:
    model.embedding = embedding.double()


def patched(model: SequenceModel) -> None:
    rows = model.embedding.forward
    model.embedding.forward = lambda tokens: 3 * rows(tokens)


CHANGES: dict[str, Callable[[SequenceModel], Any]] = {
    "forward hook": lambda m: m.embedding.register_forward_hook(tripled),
    "pre-hook": lambda m: m.embedding.register_forward_pre_hook(lambda _, given: (3 - given[0],)),
    "backward hook": lambda m: m.embedding.register_full_backward_hook(lambda *_: None),
    "own class": lambda m: replaced(m, Tripled(VOCABULARY, 4)),
    "own forward": patched,
    "parametrised": lambda m: parametrize.register_parametrization(
        m.embedding, "weight", Negative()
    ),
    "several modules": lambda m: replaced(m, nn.Sequential(Tripled(VOCABULARY, 4), nn.Tanh())),
    "max_norm": lambda m: replaced(m, nn.Embedding(VOCABULARY, 4, max_norm=0.5)),
    "padding_idx": lambda m: replaced(m, nn.Embedding(VOCABULARY, 4, padding_idx=1)),
    "scale_grad_by_freq": lambda m: replaced(
        m, nn.Embedding(VOCABULARY, 4, scale_grad_by_freq=True)
    ),
    "sparse": lambda m: replaced(m, nn.Embedding(VOCABULARY, 4, sparse=True)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_embedding_that_does_more_than_look_rows_up_is_called(
    change: Callable[[SequenceModel], Any],
) -> None:
    model = make_model()
    change(model)
    tokens = torch.randint(VOCABULARY, (5, 3))
    spy = Spy(model)
    together = model(tokens)
    assert isinstance(spy.seen[0], Tensor)
    torch.testing.assert_close(together, torch.cat([model(row[None]) for row in tokens]))
    torch.testing.assert_close(together[:, 0], model.step(tokens[:, 0])[0])


def test_a_hook_on_all_modules_hears_of_the_embedding() -> None:
    model, heard = make_model(), []
    handle = modules.register_module_forward_hook(lambda module, *_: heard.append(module))
    try:
        model(torch.randint(VOCABULARY, (5, 3)))
    finally:
        handle.remove()
    assert model.embedding in heard


def noisy(module: nn.Module) -> None:
    def disturbed(module: nn.Module, given: Any, y: Any) -> Any:
        return y + torch.randn_like(y)

    module.register_forward_hook(disturbed)


@pytest.mark.parametrize("place", ["norm", "drive"])
@pytest.mark.parametrize("disturb", [noisy, None], ids=["hook", "dropout"])
def test_noise_is_drawn_for_each_position_and_not_for_each_token(
    place: str, disturb: Callable[[nn.Module], None] | None
) -> None:
    drive = Pointwise(nn.Sequential(nn.Linear(4, 4)), 4)
    model = make_model(drive=drive, wiring=Wiring.pre_norm())
    norm: Any = model.blocks[0].norm_before_mixer
    if disturb is not None:
        disturb(norm if place == "norm" else drive.module)  # type: ignore[arg-type]
    elif place == "norm":
        model.blocks[0].norm_before_mixer = nn.Sequential(norm, nn.Dropout(0.5))
    else:
        drive.module.append(nn.Dropout(0.5))  # type: ignore[attr-defined]
    first, second = model(torch.zeros(2, 40, dtype=torch.int64))
    assert not torch.equal(first, second)


def test_a_table_of_the_wrong_width_is_named() -> None:
    with pytest.raises(ValueError, match=r"x.table has shape \(4, 3\); expected \(vocabulary, 2\)"):
        make_layer()(Tabulated(torch.zeros(4, 3).double(), torch.zeros(2, 5, dtype=torch.int64)))
