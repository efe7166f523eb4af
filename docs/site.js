// The theme leaves its search dialog and copy buttons without names, which screen readers need. A
// keyboard has to reach tables and code that scroll. Some of these are added while a page loads.
const name_added_parts = () => {
  document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("nav.md-code__nav").forEach((nav, place) => {
    nav.setAttribute("aria-label", `Code ${place + 1}`);
  });
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((part) => { part.tabIndex = 0; });
  document.querySelectorAll(".md-typeset pre > code").forEach((part) => { part.tabIndex = 0; });
};
new MutationObserver(name_added_parts).observe(document.body, { childList: true, subtree: true });
name_added_parts();
