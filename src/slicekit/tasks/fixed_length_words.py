"""The paper's protocol for A5: words of one length, distinct, split once and for all."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from slicekit.checks import check_whole
from slicekit.tasks.base import Batch
from slicekit.tasks.groups import Group
from slicekit.tasks.ranges import check_range_of_lengths, check_split, draw_lengths
from slicekit.tasks.word_problems import WordProblem

SPLIT_SEED = 1234
"""Of the data set and its split, as in the paper's code; the seed of a run does not touch them."""

_ODD = 0x9E3779B97F4A7C15 - 2**64  # 2^64 over the golden ratio; odd, so that products lose nothing


class FixedLengthWords(WordProblem):
    """A word problem on a fixed set of distinct words of one length.

    The data set holds all |letters|^length words if there are at most `sequences` of them, and so
    many distinct random ones otherwise. Four fifths are for training. The others are both the
    validation and the test set, as the paper has only one. The split is the same in every run. At
    each step of training, `helper` gives a tenth of a batch of words of length 2.

    Training draws words uniformly, independently of each other; validation and test draw no word
    twice before every other has come. At shorter lengths, training gives prefixes of its words, all
    of whose positions are labelled, so that lengths can grow. At any other length than its own,
    "test" gives fresh random words.

    Args:
        group: a `Group`, or the name of one.
        length: the length of all words.
        letters: numbers of the elements that occur in words; all of them by default.
        sequences: the largest size of the data set. It is made when first needed, and takes about
            one byte for each letter.
        pairs: whether `helper` gives words of length 2.

    Raises:
        ValueError: if a value is out of bounds, or there are too few words for two parts.

    Example:
        >>> task = FixedLengthWords("z60", length=3, sequences=1000)
        >>> len(task.words("train")), len(task.words("validation"))
        (800, 200)
        >>> task.sample(2, (3, 3), torch.Generator()).inputs.shape
        torch.Size([2, 3])
        >>> task.helper(256, torch.Generator()).inputs.shape
        torch.Size([25, 2])
    """

    def __init__(
        self,
        group: Group | str = "a5",
        length: int = 20,
        *,
        letters: Sequence[int] | None = None,
        sequences: int = 1_000_000,
        pairs: bool = True,
    ) -> None:
        """Keep the settings; the words are made when first needed."""
        check_whole("length", length)
        check_whole("sequences", sequences, least=2)
        lengths = (length, length)
        super().__init__(
            group,
            letters=letters,
            train_lengths=lengths,
            validation_lengths=lengths,
            test_lengths=lengths,
        )
        self.name = f"{self.group.name}-fixed"
        self.length, self.pairs = length, pairs
        self.sequences = min(sequences, len(self.letters) ** length)
        self._training = self.sequences * 4 // 5
        if self.sequences < 2:
            raise ValueError(
                f"letters={self.letters.tolist()} make one word of length {length}; expected "
                "two or more to split"
            )

    def words(self, split: str) -> Tensor:
        """All words of a split.

        Args:
            split: "train", "validation" or "test"; the last two are the same.

        Returns:
            (words, length) int64 tokens, distinct.
        """
        check_split(split)
        return self.letters[self._part(split).long()]

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        """Words of a split, or prefixes of them for "train"; lengths are any for "test"."""
        check_split(split)
        low, high = check_range_of_lengths("lengths", lengths)
        whole = low == high == self.length
        if split == "test" and not whole:
            return super().sample(batch, lengths, generator)
        if high > self.length or (split == "validation" and not whole):
            least = "at most " if split == "train" else ""
            raise ValueError(
                f"lengths={lengths}; expected {least}({self.length}, {self.length}) for the split "
                f"{split}: the words of {self.name} have one length"
            )
        check_whole("batch", batch)
        words = self._part(split)
        if split == "train":
            rows = torch.randint(len(words), (batch,), generator=generator)
        else:
            rows = _passes(len(words), batch, generator)
        drawn = draw_lengths(batch, (low, high), generator)
        return self.labelled(self.letters[words[rows, :high].long()], drawn)

    def helper(self, batch: int, generator: torch.Generator) -> Batch | None:
        """batch // 10 words of length 2, drawn from all of them; None if that is none."""
        count = batch // 10
        if not self.pairs or count == 0:
            return None
        return super().sample(count, (2, 2), generator)

    @cached_property
    def _words(self) -> Tensor:
        generator = torch.Generator().manual_seed(SPLIT_SEED)
        words = distinct_words(len(self.letters), self.length, self.sequences, generator)
        return words[torch.randperm(self.sequences, generator=generator)]

    def _part(self, split: str) -> Tensor:
        if split == "train":
            return self._words[: self._training]
        return self._words[self._training :]


def distinct_words(letters: int, length: int, count: int, generator: torch.Generator) -> Tensor:
    """Random words, no two of them equal, every set of so many words equally likely.

    Args:
        letters: how many letters there are.
        length: of each word.
        count: how many words, at most letters^length.
        generator: source of randomness.

    Returns:
        (count, length) letters 0..letters-1, uint8, or int16 if there are more than 256 of them.
        The order of the words means nothing.

    >>> words = distinct_words(2, 2, 4, torch.Generator())
    >>> sorted(words.tolist())
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    dtype = torch.uint8 if letters <= 256 else torch.int16
    total = letters**length
    if total <= 4 * count:
        codes = torch.randperm(total, generator=generator)[:count]
        digits = [codes // letters**place % letters for place in range(length)]
        return torch.stack([digit.to(dtype) for digit in digits], 1)
    words = torch.empty(0, length, dtype=dtype)
    while len(words) < count:
        missing = (count - len(words), length)
        fresh = torch.randint(letters, missing, generator=generator, dtype=dtype)
        words = _without_repeats(torch.cat([words, fresh]), letters)
    return words


def _without_repeats(words: Tensor, letters: int) -> Tensor:
    """Each word once.

    Words are compared by a number of 64 bits. Where these are too few for all words, two different
    words may have the same, once in 10^7 data sets or so; then one of them is dropped and replaced.
    """
    exact = letters ** words.shape[1] < 2**63
    codes = torch.zeros(len(words), dtype=torch.int64)
    for column in words.unbind(1):
        codes.mul_(letters if exact else _ODD).add_(column)
    codes, order = codes.sort(stable=True)
    first = torch.ones(len(words), dtype=torch.bool)
    first[1:] = codes[1:] != codes[:-1]
    return words[order[first]]


def _passes(count: int, batch: int, generator: torch.Generator) -> Tensor:
    """(batch,) numbers below count: whole random passes over them, the last one cut short."""
    passes = -(-batch // count)
    orders = [torch.randperm(count, generator=generator) for _ in range(passes)]
    return torch.cat(orders)[:batch]
