"""The study of the chapter that lays all methods side by side; its card is card.toml, its rules are PROTOCOL.md."""
