"""What the kernel of log-signatures must know of the words of a basis.

See native/include/slicekit_log_signatures.h: a state is 1, then all words of 1, ..., depth - 1
letters in lexicographic order, then the Lyndon words of depth letters.
"""

import itertools
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slicekit.descriptions.words import Word, expanded_size, lyndon_words, number


class WordTables(NamedTuple):
    """Integer tables, for `channels` letters and words of up to `depth` of them.

    Attributes:
        places: (size,) of the Lyndon words in a state.
        split_starts: (size + 1,) into the splits, of each Lyndon word.
        splits: (splits, 2) places of the two parts of a word.
        prefixes: (prefixes, 3), the beginnings of the longest Lyndon words.
        top: how many Lyndon words have `depth` letters.
    """

    places: np.ndarray
    split_starts: np.ndarray
    splits: np.ndarray
    prefixes: np.ndarray
    top: int


@lru_cache(maxsize=64)
def word_tables(channels: int, depth: int) -> WordTables:
    """The tables, for a depth of at least 2."""
    words = lyndon_words(channels, depth)
    starts = [1 + expanded_size(channels, level) for level in range(depth)]

    def place(word: Word) -> int:
        return starts[len(word) - 1] + number(word, channels)

    top = sum(len(word) == depth for word in words)
    short = len(words) - top
    places = [place(word) for word in words[:short]]
    places += [starts[-1] + position for position in range(top)]
    cuts = [[(word[:cut], word[cut:]) for cut in range(1, len(word))] for word in words]
    splits = [(place(left), place(right)) for pairs in cuts for left, right in pairs]
    prefixes = []
    for prefix, longer in itertools.groupby(words[short:], key=lambda word: word[:-1]):
        prefixes.append((number(prefix[:-1], channels), prefix[-1], next(longer)[-1]))
    edges = [0, *itertools.accumulate(len(pairs) for pairs in cuts)]
    return WordTables(
        np.array(places, np.int64),
        np.array(edges, np.int64),
        np.array(splits, np.int64),
        np.array(prefixes, np.int64),
        top,
    )
