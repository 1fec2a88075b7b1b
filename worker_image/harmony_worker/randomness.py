"""Randomness as a function of the seed, the worker and the iteration.

A worker that replays an iteration must draw what its predecessor drew. No random state is
carried along: torch, numpy and random are seeded anew at the start of every iteration, so an
iteration does not depend on what was drawn before it.
"""

import random

import numpy as np
import torch


def derived_seed(*coordinates: int) -> int:
    """Return 64 bits that depend on all non-negative `coordinates` and their order."""
    (state,) = np.random.SeedSequence(coordinates).generate_state(1, np.uint64)
    return int(state)


def seed_everything(*coordinates: int) -> None:
    """Seed torch, numpy's global generator and random from the coordinates.

    Cheap enough for every iteration: torch.manual_seed would note a call for each kind of
    device that has not been used yet, every time.
    """
    seed = derived_seed(*coordinates)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    random.seed(seed)
