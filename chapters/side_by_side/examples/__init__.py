"""Methods from outside, as a reader would enter them; `python -m chapters.side_by_side.enter FILE` runs one."""
