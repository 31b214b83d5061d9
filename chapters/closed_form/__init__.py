"""The study of the chapter on inclusion probabilities in closed form; its card is card.toml."""
