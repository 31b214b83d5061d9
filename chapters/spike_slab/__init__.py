"""The study of the chapter on variational spike-and-slab networks; its card is card.toml."""
