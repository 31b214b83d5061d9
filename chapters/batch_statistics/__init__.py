"""The study of the chapter on stochastic batch normalization; its card is card.toml."""
