"""Signatures and log-signatures against their definition, their identities and other packages."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit.paths import (
    LieBasis,
    chen,
    hall,
    log_signatures,
    lyndon,
    signature,
    tensor_exp,
    tensor_log,
    tensor_product,
)

SHAPES = [(1, 3), (2, 1), (2, 2), (2, 5), (3, 3), (4, 2)]
BASES = [make(*shape) for make in (hall, lyndon) for shape in SHAPES]


def steps_of(*shape: int) -> Tensor:
    """Increments of a random path, in double precision."""
    return torch.randn(shape, dtype=torch.float64) / 2


def iterated_integral(increments: Tensor, word: tuple[int, ...]) -> float:
    """∫_{t_1 < ... < t_n} dω^{i_1} ... dω^{i_n}: the letters are shared out among the segments.

    Letters on one segment contribute their increments, divided by the factorial of their number.
    """
    total = 0.0
    for segments in itertools.combinations_with_replacement(range(len(increments)), len(word)):
        product = 1.0
        for segment, letter in zip(segments, word, strict=True):
            product *= float(increments[segment, letter])
        for segment in set(segments):
            product /= math.factorial(segments.count(segment))
        total += product
    return total


def place(word: tuple[int, ...], channels: int) -> int:
    """Where a word stands in the expanded form."""
    number = sum(letter * channels**power for power, letter in enumerate(reversed(word)))
    return sum(channels**level for level in range(1, len(word))) + number


def shuffles(u: tuple[int, ...], v: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All words that keep the order of both."""
    if not u or not v:
        return [u + v]
    heads = [(*w, u[-1]) for w in shuffles(u[:-1], v)]
    return heads + [(*w, v[-1]) for w in shuffles(u, v[:-1])]


def logarithm(increments: Tensor, depth: int) -> Tensor:
    """The expanded log-signature of each whole path."""
    return tensor_log(signature(increments, depth), increments.shape[-1], depth)


@pytest.mark.parametrize(("channels", "depth"), [(2, 4), (3, 3)])
def test_signatures_are_iterated_integrals(channels: int, depth: int) -> None:
    increments = steps_of(4, channels)
    found = signature(increments, depth)
    for level in range(1, depth + 1):
        for word in itertools.product(range(channels), repeat=level):
            expected = iterated_integral(increments, word)
            assert float(found[place(word, channels)]) == pytest.approx(expected, abs=1e-12)


def test_signatures_satisfy_the_shuffle_identity() -> None:
    found = signature(steps_of(6, 3), 4)
    for u, v in [
        ((0,), (1,)),
        ((0, 2), (1,)),
        ((0, 0), (0, 1)),
        ((2, 1), (1, 0)),
        ((0, 1, 2), (2,)),
    ]:
        product = found[place(u, 3)] * found[place(v, 3)]
        total = sum(found[place(word, 3)] for word in shuffles(u, v))
        assert torch.allclose(product, torch.as_tensor(total))


@pytest.mark.parametrize(("channels", "depth"), SHAPES)
def test_signatures_satisfy_chens_relation(channels: int, depth: int) -> None:
    increments = steps_of(2, 7, channels)
    first, second = signature(increments[:, :3], depth), signature(increments[:, 3:], depth)
    whole = signature(increments, depth)
    assert torch.allclose(tensor_product(first, second, channels, depth), whole)


@pytest.mark.parametrize(("channels", "depth"), SHAPES)
def test_exp_and_log_undo_each_other(channels: int, depth: int) -> None:
    x = signature(steps_of(2, 5, channels), depth)
    assert torch.allclose(tensor_exp(tensor_log(x, channels, depth), channels, depth), x)
    y = torch.randn_like(x) / 2
    assert torch.allclose(tensor_log(tensor_exp(y, channels, depth), channels, depth), y)


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_one_segment_has_no_brackets(basis: LieBasis) -> None:
    increments = steps_of(2, 3, basis.channels)
    found = log_signatures(increments, basis, window=1)
    assert torch.allclose(found[..., : basis.channels], increments)
    assert found[..., basis.channels :].abs().max() < 1e-15 if basis.size > basis.channels else True


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_windows_have_the_logarithm_of_their_own_signature(basis: LieBasis) -> None:
    increments = steps_of(2, 8, basis.channels)
    found = log_signatures(increments, basis, window=3)
    assert found.shape == (2, 3, basis.size)
    for number, part in enumerate(increments.split(3, dim=1)):
        assert torch.allclose(basis.expand(found[:, number]), logarithm(part, basis.depth))


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_windows_put_together_are_the_whole(basis: LieBasis) -> None:
    increments = steps_of(2, 8, basis.channels)
    first, second, third = log_signatures(increments, basis, window=3).unbind(1)
    (whole,) = log_signatures(increments, basis, window=99).unbind(1)
    assert torch.allclose(chen(basis, chen(basis, first, second), third), whole)
    assert torch.allclose(chen(basis, first, chen(basis, second, third)), whole)
    assert torch.allclose(chen(basis, whole, -whole), torch.zeros_like(whole), atol=1e-12)


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_a_segment_in_parts_is_the_segment(basis: LieBasis) -> None:
    increments = steps_of(2, 4, basis.channels)
    parts = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    finer = (increments[:, :, None] * parts[:, None]).flatten(1, 2)
    whole = log_signatures(increments, basis, window=2)
    assert torch.allclose(log_signatures(finer, basis, window=6), whole)


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_zero_increments_are_neutral(basis: LieBasis) -> None:
    increments = steps_of(2, 4, basis.channels)
    padded = torch.nn.functional.pad(increments, (0, 0, 3, 2))
    whole = log_signatures(increments, basis, window=9)
    assert torch.allclose(log_signatures(padded, basis, window=9), whole, atol=1e-14)
    assert log_signatures(torch.zeros_like(increments), basis, window=2).eq(0).all()


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("window", [1, 3, 50])
def test_the_stream_ends_in_the_window(basis: LieBasis, window: int) -> None:
    increments = steps_of(2, 8, basis.channels)
    stream = log_signatures(increments, basis, window, stream=True)
    assert stream.shape == (2, 8, basis.size)
    ends = [min(end, 8) - 1 for end in range(window, 8 + window, window)]
    assert torch.allclose(stream[:, ends], log_signatures(increments, basis, window), atol=1e-12)
    prefix = log_signatures(increments[:, :2], basis, window)[:, -1]
    assert torch.allclose(stream[:, 1], prefix, atol=1e-12)


@pytest.mark.parametrize("basis", [hall(2, 3), lyndon(3, 2), hall(2, 1)], ids=repr)
def test_gradients_are_true(basis: LieBasis) -> None:
    increments = steps_of(2, 5, basis.channels).requires_grad_()
    one, other = (steps_of(2, basis.size).requires_grad_() for _ in range(2))
    torch.autograd.gradcheck(lambda x: log_signatures(x, basis, 3), increments)
    torch.autograd.gradcheck(lambda x: log_signatures(x, basis, 3, stream=True), increments)
    torch.autograd.gradcheck(lambda a, b: chen(basis, a, b), (one, other))
    torch.autograd.gradgradcheck(lambda x: log_signatures(x, basis, 3), increments)


@pytest.mark.parametrize("depth", [2, 3])
def test_single_precision_is_kept_over_long_windows(depth: int) -> None:
    steps = 18_000
    increments = torch.randn(2, steps, 3, dtype=torch.float64) / steps**0.5
    basis = hall(3, depth)
    exact = log_signatures(increments, basis, steps)
    single = log_signatures(increments.float(), basis, steps)
    assert (single - exact).abs().max() < 1e-5 * exact.abs().max()


def peer(name: str) -> Any:
    """Another package, or a skipped test."""
    return pytest.importorskip(name, reason=f"{name} is not installed to compare with")


def positions(increments: Tensor) -> Tensor:
    """The path that has these increments."""
    return torch.nn.functional.pad(increments.cumsum(1), (0, 0, 1, 0))


@pytest.mark.parametrize(("channels", "depth"), [(2, 4), (3, 3)])
def test_expanded_forms_are_those_of_pysiglib(channels: int, depth: int) -> None:
    increments = steps_of(2, 6, channels)
    basis = lyndon(channels, depth)
    path = positions(increments).numpy().copy()
    expected = torch.as_tensor(peer("pysiglib").log_sig(path, depth, method=0))
    found = basis.expand(log_signatures(increments, basis, window=6)[:, 0])
    assert torch.allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize(("channels", "depth"), [(2, 4), (3, 3)])
def test_expanded_forms_are_those_of_iisignature(channels: int, depth: int) -> None:
    package = peer("iisignature")
    increments = steps_of(1, 6, channels)
    prepared = package.prepare(channels, depth, "x")
    expected = torch.as_tensor(package.logsig(positions(increments)[0].numpy(), prepared, "x"))
    basis = hall(channels, depth)
    found = basis.expand(log_signatures(increments, basis, window=6)[0, 0])
    assert torch.allclose(found, expected.to(found), atol=1e-10)


@pytest.mark.parametrize(("channels", "depth"), [(2, 4), (3, 3)])
def test_signatures_are_those_of_signax(channels: int, depth: int) -> None:
    package = peer("signax")
    increments = steps_of(2, 6, channels)
    expected = torch.tensor(
        package.signature(positions(increments).float().numpy(), depth).tolist()
    )
    assert torch.allclose(signature(increments, depth).float(), expected, atol=1e-5)


def test_other_values_are_refused_in_words() -> None:
    basis = hall(2, 2)
    with pytest.raises(ValueError, match=r"has 3 channels, but the basis is hall\(2, 2\)"):
        log_signatures(torch.zeros(1, 4, 3), basis, 2)
    with pytest.raises(ValueError, match=r"expected \(batch, length, channels\)"):
        log_signatures(torch.zeros(4, 2), basis, 2)
    with pytest.raises(ValueError, match="window=0; expected at least 1"):
        log_signatures(torch.zeros(1, 4, 2), basis, 0)
    with pytest.raises(TypeError, match=r"increments has dtype torch\.int64"):
        log_signatures(torch.zeros(1, 4, 2, dtype=torch.int64), basis, 2)
    with pytest.raises(ValueError, match="depth=0"):
        signature(torch.zeros(4, 2), 0)
    with pytest.raises(ValueError, match=r"later has shape \(1, 2\); expected \(..., 3\)"):
        chen(basis, torch.zeros(1, 3), torch.zeros(1, 2))
    with pytest.raises(TypeError, match="expected one dtype"):
        chen(basis, torch.zeros(3), torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nothing_has_a_shape(depth: int) -> None:
    basis = hall(2, depth)
    assert log_signatures(torch.zeros(0, 4, 2), basis, 3).shape == (0, 2, basis.size)
    assert log_signatures(torch.zeros(2, 0, 2), basis, 3).shape == (2, 0, basis.size)
