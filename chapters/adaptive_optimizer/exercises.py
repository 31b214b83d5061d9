"""Exercises of the chapter on The adaptive variational optimizer."""

from __future__ import annotations

from book.display.exercises.registry import Exercise

# Each is checked by the notebook's solution cell: exercises.check("avo-1", ..., strict=True).
EXERCISES: list[Exercise] = []
