"""The study of the chapter on structured Bayesian pruning; its card is card.toml."""
