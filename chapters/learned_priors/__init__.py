"""The study of the chapter on sampling with learned priors; its card is card.toml."""
