"""The study of the chapter on The Metropolis-Hastings view; its card is card.toml."""
