"""Pages of explorers in a browser, and no figure that another test has left."""

import pytest
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture
def open_quietly(browser):
    """``open_quietly(path, **context)`` -> the page; it may say nothing, fail at nothing and ask nobody."""
    contexts, faults = [], []

    def opened(path, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        own = ("file:", "data:")
        page.on("request", lambda asked: None if asked.url.startswith(own) else faults.append(asked.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []
