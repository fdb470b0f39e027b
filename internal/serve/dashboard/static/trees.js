// Steps through a recorded run without loading the whole page: with links, keys and the slider. While a run is active and the page follows it,
// it looks for new ticks: they are not events of the ledger. It uses replace of live.js.
"use strict";

const slider = document.getElementById("tick");
let stepping = null; // the address that is being fetched
let wanted = null; // the address to fetch next

// go shows another step. If several are asked for at once, only the last one is shown.
async function go(address) {
  wanted = address;
  if (stepping) return;
  while (wanted) {
    stepping = wanted;
    wanted = null;
    try {
      const answer = await fetch(stepping, { headers: { Accept: "text/html" } });
      if (!answer.ok) break;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (wanted) continue;
      if (stepping !== location.href) history.replaceState(null, "", stepping);
      show(page);
    } catch {
      say("· not connected");
      break;
    }
  }
  stepping = null;
}

// show replaces the parts of the page that belong to a step.
function show(page) {
  document.title = page.title;
  for (const part of document.querySelectorAll("[data-step]")) replace(part, page.getElementById(part.id));
  reveal();
  const now = document.querySelector("[data-ticks]")?.dataset;
  if (!slider || !now) return;
  slider.max = now.ticks;
  if (!sliding) slider.value = now.tick;
}

// reveal scrolls the picture to the node that published a signal, or else to the running one that is deepest in the tree.
function reveal() {
  const picture = document.getElementById("picture");
  const nodes = [...picture.querySelectorAll(".note, .live")];
  const node = nodes.find((e) => e.matches(".note")) ?? nodes.at(-1);
  if (!node) return;
  const at = node.getBoundingClientRect(), room = picture.getBoundingClientRect();
  if (at.right > room.right - 8 || at.left < room.left + 8) picture.scrollLeft += at.left - room.left - (room.width - at.width) / 2;
  if (at.bottom > room.bottom - 8 || at.top < room.top + 8) picture.scrollTop += at.top - room.top - (room.height - at.height) / 2;
}

let sliding = false; // the user moves the slider

slider?.addEventListener("input", () => {
  sliding = true;
  const address = new URL(slider.form.action);
  address.searchParams.set("tick", slider.value);
  go(address.href);
});
slider?.addEventListener("change", () => {
  sliding = false;
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-to]");
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.href);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, .picture, pre")) return;
  const key = (event.shiftKey ? "Shift+" : "") + event.key;
  const link = document.querySelector(`a[data-key="${CSS.escape(key)}"]`);
  if (!link) return;
  event.preventDefault();
  go(link.href);
});

reveal();
setInterval(() => {
  if (!document.hidden && !stepping && document.querySelector("[data-running]")) go(location.href);
}, 1000);
