"""Sums of products modulo n, written out in tokens.

The value is a sum over terms. Products inside terms are running products in a finite monoid: its
elements are pairs (starts, v) of a flag and a residue, and (s, v)·(t, w) is (1, w) if t, as a new
term forgets what was before it, and (s, v·w) otherwise. So all expressions are evaluated together,
in a number of operations that grows like the square root of their length.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from slicekit.checks import check_whole
from slicekit.tasks.languages import Language
from slicekit.tasks.monoids import prefix_products

PLUS, MINUS, TIMES, EQUALS, ZERO = 1, 2, 3, 4, 5


class ModularArithmetic(Language):
    """What is the value of an expression modulo n?

    A word is d_1 o_1 d_2 o_2 ... d_k =, with digits d_i drawn uniformly from 0..n-1 and operators
    o_i from +, - and *. Products come before sums and differences, which go from left to right;
    there are no brackets. The answer, wanted at the sign =, is the digit that equals the value
    modulo n.

    The tokens are + (1), - (2), * (3), = (4), and 5 + d for the digit d.

    Words have even lengths, so an odd length that was drawn is raised by one. The range (3, 40)
    gives the lengths 4, 6, ..., 40 with equal shares; (3, 39) gives the same lengths, and is also
    padded to 40; (4, 4) and (3, 3) both give 4.

    Args:
        modulus: n.
        train_lengths: inclusive range to train on.
        validation_lengths: inclusive range to choose a model on.
        test_lengths: inclusive range to report.

    Example:
        1 - 2 * 3 = -5, which is 0 modulo 5:

        >>> ModularArithmetic().oracle([6, 2, 7, 3, 8, 4])
        [None, None, None, None, None, 5]
    """

    name = "modular-arithmetic"
    shortest = 2

    def __init__(
        self,
        modulus: int = 5,
        *,
        train_lengths: tuple[int, int] = (3, 40),
        validation_lengths: tuple[int, int] = (40, 256),
        test_lengths: tuple[int, int] = (40, 256),
    ) -> None:
        """Keep the modulus and the ranges of lengths."""
        super().__init__(
            train_lengths=train_lengths,
            validation_lengths=validation_lengths,
            test_lengths=test_lengths,
        )
        check_whole("modulus", modulus, least=2)
        self.modulus = modulus
        self.vocabulary = self.outputs = ZERO + modulus
        self._terms = _monoid_of_terms(modulus)

    def possible(self, lengths: Tensor) -> Tensor:
        """Even lengths."""
        return lengths + lengths % 2

    def words(self, lengths: Tensor, width: int, generator: torch.Generator) -> Tensor:
        """Digits and operators in turn, and = at the end."""
        shape = (len(lengths), width // 2)
        digits = torch.randint(ZERO, ZERO + self.modulus, shape, generator=generator)
        operators = torch.randint(PLUS, TIMES + 1, shape, generator=generator)
        words = torch.stack([digits, operators], -1).flatten(1)
        return words.scatter_(1, (lengths - 1).unsqueeze(1), EQUALS)

    def answers(self, words: Tensor, lengths: Tensor) -> Tensor:
        """The sum of the terms' products, each counted at the last digit of its term."""
        digits, after = words[:, 0::2] - ZERO, words[:, 1::2]
        before = torch.nn.functional.pad(after[:, :-1], (1, 0), value=PLUS)
        signed = torch.where(before == MINUS, -digits, digits).remainder(self.modulus)
        products = prefix_products(self._terms, signed + self.modulus * (before != TIMES))
        inside = torch.arange(digits.shape[1]) < lengths[:, None] // 2
        terms = products.remainder(self.modulus) * ((after != TIMES) & inside)
        return ZERO + terms.sum(1).remainder(self.modulus)

    def answer(self, tokens: Sequence[int]) -> int:
        """Read the expression from the left, a term at a time."""
        *expression, equals = tokens
        if equals != EQUALS or len(expression) % 2 == 0:
            raise ValueError(
                f"tokens={list(tokens)}; expected digits and operators in turn, then ="
            )
        value, place = 0, 0
        sign = PLUS
        while place < len(expression):
            term, place = self._term(expression, place)
            value = value + term if sign == PLUS else value - term
            if place < len(expression):
                sign, place = expression[place], place + 1
        return ZERO + value % self.modulus

    def _term(self, expression: Sequence[int], place: int) -> tuple[int, int]:
        """The product that starts at a place, and the place after it."""
        value = self._digit(expression[place])
        place += 1
        while place < len(expression) and expression[place] == TIMES:
            value = value * self._digit(expression[place + 1]) % self.modulus
            place += 2
        if place < len(expression) and expression[place] not in (PLUS, MINUS):
            raise ValueError(f"tokens holds {expression[place]} at {place}; expected an operator")
        return value, place

    def _digit(self, token: int) -> int:
        if not ZERO <= token < ZERO + self.modulus:
            raise ValueError(
                f"tokens holds {token}; expected a digit, {ZERO}..{ZERO + self.modulus - 1}"
            )
        return token - ZERO


def _monoid_of_terms(modulus: int) -> Tensor:
    """(2n, 2n) int64: the product of elements v + n·starts."""
    elements = torch.arange(2 * modulus)
    starts, values = elements >= modulus, elements % modulus
    product = values[:, None] * values % modulus + modulus * starts[:, None]
    return torch.where(starts, elements, product)
