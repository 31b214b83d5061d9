"""What makes a book of the library: ``lab`` runs experiments, ``display`` draws, ``editions`` execute and render."""
