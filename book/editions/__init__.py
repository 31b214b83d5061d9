"""From sources to what a reader holds: execute the chapters, render the pages, look them through."""
