"""Figures that slicekit must reach, measured: the command `slicekit bench`.

problems     what is timed: structures at shapes, the same numbers for every contender
floors       the matrix products that no method avoids
contenders   who is timed
races        contenders checked against each other, then timed in turns
memory       peak memory, in processes of their own
targets      the table of figures to reach
structures   the table of every structure beside other methods
scaling      time and memory over length and over dim
report       tables on the screen, JSON on disk
plots        pictures of all that
command      the order in which it happens
"""
