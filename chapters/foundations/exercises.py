"""Exercises of the chapter on Foundations."""

from __future__ import annotations

from book.display.exercises.registry import Exercise

# Each is checked by the notebook's solution cell: exercises.check("fnd-1", ..., strict=True).
EXERCISES: list[Exercise] = []
