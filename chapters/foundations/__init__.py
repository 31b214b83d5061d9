"""The study of the chapter on Foundations; its card is card.toml."""
