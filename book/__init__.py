"""How the book is made: ``python -m book.build`` executes the chapters and renders the pages, ``book.check`` looks them through."""
