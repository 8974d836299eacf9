"""What torch and JAX share, in plain Python: descriptions, facts, costs, starts, checks, Lie bases.

A structure is a description (here) and its mathematics (in `slicekit.structures` for torch, and in
`slicekit.jax.structures` for JAX). Nothing in this room imports either library.
"""
