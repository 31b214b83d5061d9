// The button of a chapter gives its notebook to keep. Of a page that lies on a disk a browser would show the JSON, whatever
// the link says, and would not let a script read the file: beside each notebook lies a script that holds it.
(() => {
  let link = null;
  window.bnnKeep = (notebook) => {
    const kept = document.createElement("a");
    kept.href = URL.createObjectURL(new Blob([notebook], { type: "application/x-ipynb+json" }));
    kept.download = link.href.split("/").pop();
    kept.click();
    URL.revokeObjectURL(kept.href);
  };
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll('a.btn-download-source-button[href$=".ipynb"]').forEach((button) => {
      button.removeAttribute("target");
      button.download = "";
      if (location.protocol !== "file:") return;
      button.addEventListener("click", (event) => {
        event.preventDefault();
        link = button;
        const script = document.createElement("script");
        script.src = `${button.href}.js`;
        document.head.append(script);
      });
    });
  });
})();
