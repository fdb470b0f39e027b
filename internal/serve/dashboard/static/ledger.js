// Helps on the pages about the ledger. It uses refresh of live.js.
"use strict";

// A verification that is running, and what it has done so far, is not an event.
setInterval(() => {
  if (!document.hidden && document.querySelector("[data-running]")) refresh();
}, 1000);

// A search that has found nothing yet continues by itself.
const onward = document.querySelector("a[data-continue]");
if (onward) location.replace(onward.href);

// The arrow keys lead to the previous and the next event, except where they move something else.
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest("input, select, textarea, pre, table")) return;
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (rel) document.querySelector('a[aria-keyshortcuts][rel="' + rel + '"]')?.click();
});
