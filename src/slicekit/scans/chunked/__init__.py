"""The portable scan: steps in chunks, one by one (`steps`) or as matrix products (`products`)."""
