"""What the whole book on paper makes of its pages."""

from bs4 import BeautifulSoup

from book.editions.print import leave_out_folds


def test_a_folded_list_is_named_on_paper_and_not_printed():
    fold = '<details class="bnn-fold"><summary>Runs: 2</summary><ul><li>run-a</li><li>run-b</li></ul></details>'
    article = BeautifulSoup(f"<article><h1>Report</h1>{fold}<details>kept</details></article>", "html.parser").article
    leave_out_folds(article)
    assert article.get_text("|") == "Report|Only on the screen: Runs: 2|kept"
