// Mends what the theme and docutils get wrong for screen readers; the tests in tests/e2e look at the result.
document.addEventListener("DOMContentLoaded", () => {
  // A name that differs from the visible words cannot be spoken to by voice control: let the words be the name.
  document.querySelectorAll(".search-button-field[aria-label]").forEach((button) => button.removeAttribute("aria-label"));

  // The sidebar is no landmark by itself, so the book's title would stand outside of all of them.
  const sidebar = document.getElementById("pst-primary-sidebar");
  if (sidebar) {
    sidebar.setAttribute("role", "region");
    sidebar.setAttribute("aria-label", "Book navigation");
  }

  // docutils puts role="doc-biblioentry" (deprecated) inside role="list", which may only hold list items.
  document.querySelectorAll("[role='list'] > [role='doc-biblioentry']").forEach((entry) => entry.setAttribute("role", "listitem"));

  // What scrolls sideways must be reachable by the keyboard.
  const scrolling = ".bd-article pre, .pst-scrollable-table-container, .bnn-table";
  document.querySelectorAll(scrolling).forEach((box) => {
    if (box.scrollWidth > box.clientWidth && !box.hasAttribute("tabindex")) box.tabIndex = 0;
  });

  // "Show code cell source" is the visible text of a <summary>; a second name beside it only disagrees.
  document.querySelectorAll("details.hide > summary[aria-label]").forEach((summary) => summary.removeAttribute("aria-label"));
});
