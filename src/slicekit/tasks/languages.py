"""Regular languages: one answer for a whole word, wanted at its last token.

Token 0 is padding. The classes are the tokens: padding and letters are among them, though no answer
ever is padding. This is how the paper's code has it, so that accuracies compare.
"""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from slicekit.checks import check_whole
from slicekit.paths import valid_mask
from slicekit.tasks.base import Batch, Task
from slicekit.tasks.ranges import check_split, draw_lengths


class Language(Task):
    """Random words with one answer each, which only the last token is asked for.

    Derived classes say how words are drawn and what their answers are.

    Args:
        train_lengths: inclusive range to train on.
        validation_lengths: inclusive range to choose a model on.
        test_lengths: inclusive range to report.
    """

    family = "languages"

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        """Random words with their answers; the splits have one distribution."""
        check_split(split)
        drawn = self.possible(draw_lengths(batch, lengths, generator, self.shortest))
        width = int(self.possible(torch.tensor(lengths[1])))
        words = self.words(drawn, width, generator)
        return Batch.last_position(words, self.answers(words, drawn), drawn)

    def possible(self, lengths: Tensor) -> Tensor:
        """The least lengths from the given ones on that words can have."""
        return lengths

    @abstractmethod
    def words(self, lengths: Tensor, width: int, generator: torch.Generator) -> Tensor:
        """Random words.

        Args:
            lengths: (batch,) int64, possible ones.
            width: of the result, at least the longest of them.
            generator: source of randomness.

        Returns:
            (batch, width) int64; anything may stand past the end of a word.
        """

    @abstractmethod
    def answers(self, words: Tensor, lengths: Tensor) -> Tensor:
        """The class of each word, (batch,) int64, for words as `words` gives them."""

    @abstractmethod
    def answer(self, tokens: Sequence[int]) -> int:
        """The class of one word by the definition of the language, in plain Python."""

    def oracle(self, tokens: Sequence[int]) -> list[int | None]:
        """The answer at the last token, nothing before it."""
        if len(tokens) < self.shortest:
            raise ValueError(f"tokens={list(tokens)}; expected at least {self.shortest}")
        return [None] * (len(tokens) - 1) + [self.answer(tokens)]


class CycleNavigation(Language):
    """Where on a cycle does a walk end?

    Letters are stay (1), forward (2) and back (3), drawn uniformly. From position 0 of a cycle of n
    positions, the walk ends at p = (forwards - backs) mod n, and the answer is the token 4 + p.
    The vocabulary is padding, three letters and n positions.

    Args:
        states: n, the number of positions.
        train_lengths: inclusive range to train on.
        validation_lengths: inclusive range to choose a model on.
        test_lengths: inclusive range to report.

    Example:
        Two steps back from 0 lead to position 3 of 5:

        >>> CycleNavigation().oracle([3, 1, 3])
        [None, None, 7]
    """

    name = "cycle-navigation"

    def __init__(
        self,
        states: int = 5,
        *,
        train_lengths: tuple[int, int] = (3, 40),
        validation_lengths: tuple[int, int] = (40, 256),
        test_lengths: tuple[int, int] = (40, 256),
    ) -> None:
        """Keep the number of positions and the ranges of lengths."""
        super().__init__(
            train_lengths=train_lengths,
            validation_lengths=validation_lengths,
            test_lengths=test_lengths,
        )
        check_whole("states", states)
        self.states = states
        self.vocabulary = self.outputs = 4 + states

    def words(self, lengths: Tensor, width: int, generator: torch.Generator) -> Tensor:
        """Letters 1, 2 and 3 in equal shares."""
        return torch.randint(1, 4, (len(lengths), width), generator=generator)

    def answers(self, words: Tensor, lengths: Tensor) -> Tensor:
        """4 + (forwards - backs) mod n."""
        steps = torch.tensor([0, 0, 1, -1])[words] * valid_mask(lengths, words.shape[1])
        return 4 + steps.sum(1).remainder(self.states)

    def answer(self, tokens: Sequence[int]) -> int:
        """Walk around the cycle, one position at a time."""
        position = 0
        for token in tokens:
            if token == 2:
                position = 0 if position == self.states - 1 else position + 1
            elif token == 3:
                position = self.states - 1 if position == 0 else position - 1
            elif token != 1:
                raise ValueError(f"tokens holds {token}; expected 1, 2 or 3")
        return 4 + position


class _TwoLetters(Language):
    """Words of fair coin tosses: a (1) or b (2)."""

    vocabulary = outputs = 3

    def words(self, lengths: Tensor, width: int, generator: torch.Generator) -> Tensor:
        """Letters 1 and 2 in equal shares."""
        return torch.randint(1, 3, (len(lengths), width), generator=generator)


class EvenPairs(_TwoLetters):
    """Is the number of pairs ab and ba in a word even?

    Letters are a (1) and b (2), by a fair coin. Every ab or ba is a change of letter, so their
    number is even exactly if the last letter is the first: the answer is 1 then, and 2 otherwise.

    Args:
        train_lengths: inclusive range to train on.
        validation_lengths: inclusive range to choose a model on.
        test_lengths: inclusive range to report.

    Example:
        abba holds ab and ba, abb only ab:

        >>> EvenPairs().oracle([1, 2, 2, 1]), EvenPairs().oracle([1, 2, 2])
        ([None, None, None, 1], [None, None, 2])
    """

    name = "even-pairs"

    def answers(self, words: Tensor, lengths: Tensor) -> Tensor:
        """1 if the last letter is the first, else 2."""
        last = words.gather(1, (lengths - 1).unsqueeze(1)).squeeze(1)
        return 1 + (words[:, 0] != last).long()

    def answer(self, tokens: Sequence[int]) -> int:
        """Count the pairs."""
        neighbours = list(pairwise(tokens))
        pairs = neighbours.count((1, 2)) + neighbours.count((2, 1))
        return 1 if pairs % 2 == 0 else 2


class Parity(_TwoLetters):
    """Is the number of b in a word even?

    Letters are a (1) and b (2), by a fair coin. The answer is 1 if the number of b is even, 2 if
    odd.

    Args:
        train_lengths: inclusive range to train on.
        validation_lengths: inclusive range to choose a model on.
        test_lengths: inclusive range to report.

    Example:
        >>> Parity().oracle([2, 1, 2]), Parity().oracle([2, 1, 1])
        ([None, None, 1], [None, None, 2])
    """

    name = "parity"

    def answers(self, words: Tensor, lengths: Tensor) -> Tensor:
        """1 + the number of b mod 2."""
        letters_b = (words == 2) & valid_mask(lengths, words.shape[1])
        return 1 + letters_b.sum(1) % 2

    def answer(self, tokens: Sequence[int]) -> int:
        """Change the answer at every b."""
        answer = 1
        for token in tokens:
            answer = 3 - answer if token == 2 else answer
        return answer
