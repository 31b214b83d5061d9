// Mends what the theme and docutils get wrong for screen readers; the tests in tests/e2e look at the result.
document.addEventListener("DOMContentLoaded", () => {
  // A name that differs from the visible words cannot be spoken to by voice control: let the words be the name.
  document.querySelectorAll(".search-button-field[aria-label]").forEach((button) => button.removeAttribute("aria-label"));

  // Not everybody knows that the Enter key searches, and voice control and switches need something to press.
  document.querySelectorAll("form.bd-search").forEach((form) => {
    form.append(Object.assign(document.createElement("button"), { className: "btn btn-primary", textContent: "Search" }));
  });

  // The sidebar is no landmark by itself, so the book's title would stand outside of all of them.
  const sidebar = document.getElementById("pst-primary-sidebar");
  if (sidebar) {
    sidebar.setAttribute("role", "region");
    sidebar.setAttribute("aria-label", "Book navigation");
  }

  // docutils puts role="doc-biblioentry" (deprecated) inside role="list", which may only hold list items.
  document.querySelectorAll("[role='list'] > [role='doc-biblioentry']").forEach((entry) => entry.setAttribute("role", "listitem"));

  // "Show code cell source" is the visible text of a <summary>; a second name beside it only disagrees.
  document.querySelectorAll("details.hide > summary[aria-label]").forEach((summary) => summary.removeAttribute("aria-label"));

  // A signature on several lines is written as definitions without terms.
  document.querySelectorAll("dt.sig dl, dt.sig dl > dd").forEach((part) => part.setAttribute("role", "presentation"));

  // The arrow that unfolds a part of the sidebar has no words.
  document.querySelectorAll(".has-children > details > summary").forEach((summary) => {
    const above = summary.closest(".has-children").querySelector(":scope > a");
    if (above) summary.setAttribute("aria-label", `Pages of ${above.textContent.trim()}`);
  });

  // A button says what it opens or closes, not "Toggle hidden content"; its visible word (Show, Hide) comes first.
  const nameToggle = (button) => {
    const title = button.closest(".admonition-title");
    if (title) button.setAttribute("aria-label", `${button.dataset.toggleHint}: ${title.textContent.trim()}`);
  };
  document.querySelectorAll("button.toggle-button").forEach((button) => {
    nameToggle(button);
    const changed = new MutationObserver(() => nameToggle(button));
    changed.observe(button, { attributeFilter: ["data-toggle-hint"] });
  });
});
