"""How the book is made: ``book.build`` executes the chapters and renders the pages, ``book.check`` checks them."""
