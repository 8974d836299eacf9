"""Bases of the free Lie algebra: their elements, sizes, and the two forms of a Lie element."""

import copy
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

from slicekit import BlockDiagonal, Differences, LogODE, SLiCE
from slicekit.descriptions.words import lie_size
from slicekit.paths import (
    Element,
    LieBasis,
    hall,
    log_signatures,
    lyndon,
    signature,
    tensor_log,
)
from slicekit.paths import sparse_maps as maps
from slicekit.paths.lie_bases import _basis, written

MAKERS = [hall, lyndon]
SHAPES = [(1, 1), (1, 4), (2, 1), (2, 2), (2, 7), (3, 4), (4, 3), (6, 3), (9, 2)]
Maker = Callable[[int, int], LieBasis]


def moebius(n: int) -> int:
    """μ(n), from the sum over divisors that it makes vanish."""
    return 1 if n == 1 else -sum(moebius(k) for k in range(1, n) if n % k == 0)


def witt(channels: int, level: int) -> int:
    """The number of elements of a level, by Witt's formula."""
    divisors = [k for k in range(1, level + 1) if level % k == 0]
    return sum(moebius(k) * channels ** (level // k) for k in divisors) // level


def as_tensor(element: Element, channels: int) -> Tensor:
    """An element in its level of the tensor algebra, by the definition of the bracket."""
    if isinstance(element, int):
        return torch.eye(channels, dtype=torch.float64)[element]
    left, right = (as_tensor(part, channels) for part in element)
    return torch.tensordot(left, right, 0) - torch.tensordot(right, left, 0)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("channels", "depth"), SHAPES)
def test_sizes_are_those_of_witt(make: Maker, channels: int, depth: int) -> None:
    basis = make(channels, depth)
    assert basis.sizes == tuple(witt(channels, level) for level in range(1, depth + 1))
    assert basis.size == sum(basis.sizes) == len(basis.elements) == len(set(basis.elements))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("channels", "depth"), SHAPES)
def test_expanding_follows_the_definition_of_the_bracket(
    make: Maker, channels: int, depth: int
) -> None:
    basis = make(channels, depth)
    expanded = basis.expand(torch.eye(basis.size, dtype=torch.float64))
    levels = expanded.split([channels**level for level in range(1, depth + 1)], -1)
    for row, element in enumerate(basis.elements):
        tensor = as_tensor(element, channels)
        for level, words in enumerate(levels, start=1):
            expected = tensor.flatten() if tensor.ndim == level else 0 * words[row]
            assert torch.equal(words[row], expected)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("channels", "depth"), SHAPES)
def test_projecting_undoes_expanding(make: Maker, channels: int, depth: int) -> None:
    basis = make(channels, depth)
    coefficients = torch.randn(3, basis.size, dtype=torch.float64)
    assert torch.allclose(basis.project(basis.expand(coefficients)), coefficients, atol=1e-12)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("channels", "depth"), SHAPES)
def test_brackets_are_the_factors_of_the_elements(make: Maker, channels: int, depth: int) -> None:
    basis = make(channels, depth)
    assert len(basis.brackets) == depth - 1
    assert basis.elements[:channels] == tuple(range(channels))
    composed = [
        (basis.elements[left], basis.elements[right])
        for lefts, rights in basis.brackets
        for left, right in zip(lefts.tolist(), rights.tolist(), strict=True)
    ]
    assert basis.elements[channels:] == tuple(composed)


def test_the_hall_basis_has_the_order_of_the_paper() -> None:
    assert [written(element) for element in hall(3, 3).elements] == [
        *("1", "2", "3", "[1,2]", "[1,3]", "[2,3]"),
        *("[1,[1,2]]", "[1,[1,3]]", "[2,[1,2]]", "[2,[1,3]]", "[2,[2,3]]"),
        *("[3,[1,2]]", "[3,[1,3]]", "[3,[2,3]]"),
    ]


def test_hall_elements_satisfy_the_hall_conditions() -> None:
    basis = hall(3, 6)
    position = {element: number for number, element in enumerate(basis.elements)}
    for element in basis.elements[3:]:
        assert isinstance(element, tuple)
        left, right = element
        assert position[left] < position[right]
        assert isinstance(right, int) or position[right[0]] <= position[left]


def test_lyndon_elements_read_as_words_smaller_than_their_rotations() -> None:
    def word(element: Element) -> tuple[int, ...]:
        return (element,) if isinstance(element, int) else word(element[0]) + word(element[1])

    words = [word(element) for element in lyndon(3, 6).elements]
    assert words == sorted(words, key=lambda letters: (len(letters), letters))
    for letters in words:
        assert all(letters < letters[cut:] + letters[:cut] for cut in range(1, len(letters)))


@pytest.mark.parametrize(("channels", "depth"), [(2, 6), (3, 4), (5, 3)])
def test_both_bases_describe_the_same_lie_element(channels: int, depth: int) -> None:
    increments = torch.randn(2, 5, channels, dtype=torch.float64)
    logarithm = tensor_log(signature(increments, depth), channels, depth)
    for basis in (hall(channels, depth), lyndon(channels, depth)):
        assert torch.allclose(basis.expand(basis.project(logarithm)), logarithm, atol=1e-10)


@pytest.mark.parametrize("make", MAKERS)
def test_sparse_and_dense_maps_agree_with_their_gradients(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    basis = make(3, 4)
    found = []
    for limit in (0, 1 << 30):
        monkeypatch.setattr(maps, "DENSE", limit)
        leaf = torch.linspace(-1, 1, basis.size, dtype=torch.float64).requires_grad_()
        expanded = basis.expand(leaf)
        (gradient,) = torch.autograd.grad(expanded.pow(2).sum(), leaf)
        found.append((expanded.detach(), gradient, basis.project(expanded.detach())))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other)


def test_many_channels_are_cheap_at_depth_two() -> None:
    basis = hall(64, 2)
    assert basis.size == 64 + 64 * 63 // 2
    assert basis.expansion.values.numel() == 64 + 64 * 63


def test_a_basis_is_one_object_that_copies_and_pickles() -> None:
    basis = hall(3, 2)
    assert basis is hall(3, 2) and basis != lyndon(3, 2) and basis != hall(3, 3)
    assert copy.deepcopy(basis) is basis and pickle.loads(pickle.dumps(basis)) is basis
    assert len({basis, hall(3, 2), lyndon(3, 2)}) == 2
    assert repr(basis) == "LieBasis(name='hall', channels=3, depth=2)"
    assert str(basis) == "hall basis: 1, 2, 3, [1,2], [1,3], [2,3]"


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "inference mode": torch.inference_mode,
    "fake tensors": FakeTensorMode,
    "default device": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("surroundings", SURROUNDINGS.values(), ids=list(SURROUNDINGS))
@pytest.mark.parametrize("make", MAKERS)
def test_a_basis_holds_plain_tensors_wherever_it_is_made_first(
    make: Maker, surroundings: Callable[[], AbstractContextManager[Any]]
) -> None:
    _basis.cache_clear()
    with surroundings():
        basis = make(3, 3)
    increments = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    log_signatures(increments, basis, window=4).square().sum().backward()
    assert increments.grad is not None
    held = [basis.words, basis.change.rows, basis.change.values, basis.expansion.columns]
    held += sum(basis.brackets, ())
    assert all(type(x) is Tensor and x.device.type == "cpu" for x in held)
    assert not any(x.is_inference() for x in held)


def test_a_layer_first_made_in_inference_mode_can_be_trained() -> None:
    _basis.cache_clear()
    with torch.inference_mode():
        SLiCE(4, BlockDiagonal(4, 2), drive=Differences(), flow=LogODE(3, 4))
    layer = SLiCE(4, BlockDiagonal(4, 2), drive=Differences(), flow=LogODE(3, 4))
    layer(torch.randn(2, 11, 4)).square().sum().backward()
    assert all(x.grad is not None for x in layer.A.parameters())


@pytest.mark.parametrize("make", MAKERS)
def test_what_can_not_be_a_basis_is_refused(make: Maker) -> None:
    with pytest.raises(ValueError, match="depth=0; expected at least 1"):
        make(2, 0)
    with pytest.raises(ValueError, match="channels=0; expected at least 1"):
        make(0, 2)
    with pytest.raises(TypeError, match=r"depth=2\.0 is a float; expected a whole number"):
        make(2, 2.0)  # type: ignore[arg-type]


def test_forms_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"coefficients has shape \(4,\); expected \(..., 3\)"):
        hall(2, 2).expand(torch.zeros(4))
    with pytest.raises(ValueError, match=r"expanded has shape \(3,\); expected \(..., 6\)"):
        hall(2, 2).project(torch.zeros(3))


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_the_size_of_a_basis_is_known_without_it(channels: int) -> None:
    sizes = [lie_size(channels, depth) for depth in (1, 2, 3, 4)]
    assert sizes == [hall(channels, depth).size for depth in (1, 2, 3, 4)]
