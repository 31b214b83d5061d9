"""The study of the chapter on implicit Metropolis-Hastings; its card is card.toml."""
