"""What a kernel can take A or M to be, as native/include has it."""

from enum import IntEnum


class Kind(IntEnum):
    """Kinds of parts; the header says what each is made of."""

    BLOCKS = 0
    SKEW = 1
    LOW_RANK = 2
    HADAMARD = 3
    SPARSE = 4
    SHARED_FACTORS = 5
    DIAGONAL = 6  # of given transitions only
