"""The study of the chapter on The adaptive variational optimizer; its card is card.toml."""
