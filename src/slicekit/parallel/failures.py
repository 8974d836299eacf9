"""What goes wrong between ranks."""


class LostRank(RuntimeError):
    """A rank of the group did not answer: it has died, or does something else."""
