"""The tensor algebra truncated at a depth, and signatures in it.

An element is kept in expanded form without its scalar: (..., d + d² + ... + d^N), level after
level, words in lexicographic order. Signatures have the scalar 1, Lie elements 0.

| here | in the paper |
|---|---|
| `signature(increments, depth)` | S^N(X), the iterated integrals of the piecewise linear path |
| `tensor_log(x)`, `tensor_exp(x)` | log and exp of the truncated tensor algebra |
| `tensor_product(x, y)` | x ⊗ y |
"""

import torch
from torch import Tensor

from slicekit.checks import check_floating, check_same, check_shape
from slicekit.descriptions.checks import check_whole
from slicekit.descriptions.words import expanded_size

Levels = list[Tensor]


def signature(increments: Tensor, depth: int, *, stream: bool = False) -> Tensor:
    """The signature of the piecewise linear path with these increments, in expanded form.

    By Chen, a step multiplies by exp(Δ): S^n ← S^n + (S^{n-1} + (S^{n-2} + ...) ⊗ Δ/2) ⊗ Δ. Each
    level is a running sum over the steps of what the levels below it give, so there is no loop over
    time.

    Args:
        increments: (..., length, channels), floating.
        depth: the largest number of letters in a word, at least one.
        stream: whether to give the signature of every prefix.

    Returns:
        (..., channels + ... + channels^depth), with stream (..., length, channels + ...), entry l
        after increment l. The scalar, 1, is left out.

    Raises:
        TypeError: if increments are not floating.
        ValueError: if depth < 1, or increments have fewer than two axes.

    >>> signature(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), 2)
    tensor([1.0000, 1.0000, 0.5000, 1.0000, 0.0000, 0.5000])
    """
    check_shape("increments", increments, (..., "length", "channels"))
    check_floating("increments", increments)
    check_whole("depth", depth)
    before: Levels = []
    results: Levels = []
    for level in range(1, depth + 1):
        factor = _horner(before, increments, level)
        if level == depth and not stream:
            results.append(_sum_of_products(factor, increments))
            break
        after = _outer(factor, increments).cumsum(-2)
        results.append(after if stream else after[..., -1, :])
        before.append(torch.nn.functional.pad(after, (0, 0, 1, 0))[..., :-1, :])
    return torch.cat(results, -1)


def _horner(before: Levels, increments: Tensor, level: int) -> Tensor | None:
    """What stands left of the last ⊗ Δ in the change of a level; None is the scalar 1."""
    if level == 1:
        return None
    sum_ = before[0] + increments / level
    for lower in range(1, level - 1):
        sum_ = before[lower] + _outer(sum_, increments / (level - lower))
    return sum_


def _outer(left: Tensor | None, right: Tensor) -> Tensor:
    """Words of the left, then of the right factor: (..., m) and (..., n) to (..., m n)."""
    if left is None:
        return right
    return (left[..., :, None] * right[..., None, :]).flatten(-2)


def _sum_of_products(left: Tensor | None, right: Tensor) -> Tensor:
    if left is None:
        return right.sum(-2)
    return (left.mT @ right).flatten(-2)


def tensor_product(x: Tensor, y: Tensor, channels: int, depth: int) -> Tensor:
    """The product (1 + x) ⊗ (1 + y) − 1: Chen's relation, if x and y are signatures.

    Args:
        x: (..., channels + ... + channels^depth), of the earlier path.
        y: the same, of the later path.
        channels: the number of letters.
        depth: where to truncate.

    Returns:
        (..., channels + ... + channels^depth).

    Raises:
        TypeError: if the dtypes differ.
        ValueError: if a shape does not fit, or the devices differ.

    >>> x, y = torch.tensor([1.0, 0.5]), torch.tensor([2.0, 2.0])
    >>> tensor_product(x, y, channels=1, depth=2)
    tensor([3.0000, 4.5000])
    """
    size = expanded_size(channels, depth)
    check_shape("x", x, (..., size))
    check_shape("y", y, (..., size))
    check_same("x", x, "y", y)
    x_levels, y_levels = _levels(x, channels, depth), _levels(y, channels, depth)
    products = _product(x_levels, y_levels)
    return torch.cat(
        [
            x_levels[0] + y_levels[0],
            *(
                a + b + product
                for a, b, product in zip(x_levels[1:], y_levels[1:], products, strict=True)
            ),
        ],
        -1,
    )


def tensor_log(x: Tensor, channels: int, depth: int) -> Tensor:
    """log(1 + x) = x − x²/2 + x³/3 − ..., truncated.

    Args:
        x: (..., channels + ... + channels^depth).
        channels: the number of letters.
        depth: where to truncate.

    Returns:
        (..., channels + ... + channels^depth).

    Raises:
        ValueError: if the last axis has another size.

    >>> tensor_log(torch.tensor([2.0, 2.0]), channels=1, depth=2)
    tensor([2., 0.])
    """
    check_shape("x", x, (..., expanded_size(channels, depth)))
    return _series(x, channels, depth, [(-1) ** power / (power + 1) for power in range(depth)])


def tensor_exp(x: Tensor, channels: int, depth: int) -> Tensor:
    """exp(x) − 1 = x + x²/2 + x³/6 + ..., truncated.

    Args:
        x: (..., channels + ... + channels^depth).
        channels: the number of letters.
        depth: where to truncate.

    Returns:
        (..., channels + ... + channels^depth).

    Raises:
        ValueError: if the last axis has another size.

    >>> tensor_exp(torch.tensor([2.0, 0.0]), channels=1, depth=2)
    tensor([2., 2.])
    """
    check_shape("x", x, (..., expanded_size(channels, depth)))
    weights = [1.0]
    for power in range(2, depth + 1):
        weights.append(weights[-1] / power)
    return _series(x, channels, depth, weights)


def _series(x: Tensor, channels: int, depth: int, weights: list[float]) -> Tensor:
    """w_0 x + w_1 x² + ... by Horner: x (w_0 + x (w_1 + ...)); x^n starts at level n."""
    levels = _levels(x, channels, depth)
    sum_ = [weights[-1] * levels[0]]
    for weight in reversed(weights[:-1]):
        scaled = [weight * level for level in levels[: len(sum_) + 1]]
        products = _product(levels[: len(sum_) + 1], sum_)
        sum_ = [scaled[0], *(a + b for a, b in zip(scaled[1:], products, strict=True))]
    return torch.cat(sum_, -1)


def _product(x: Levels, y: Levels) -> Levels:
    """x ⊗ y at levels 2, 3, ..., len(x), both without a scalar."""
    products = []
    for level in range(2, len(x) + 1):
        product = _outer(x[0], y[level - 2])
        for left in range(2, level):
            product = product + _outer(x[left - 1], y[level - left - 1])
        products.append(product)
    return products


def _levels(x: Tensor, channels: int, depth: int) -> Levels:
    return list(x.split([channels**level for level in range(1, depth + 1)], -1))
