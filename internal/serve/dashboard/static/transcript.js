// Shows a transcript of any size: of all its bytes, only the pieces around what the user sees are in the page. The space before and after them
// stands for the rest, so that the scroll bar reaches every byte. The server makes the lines; this script moves them.
"use strict";

const log = document.getElementById("log");
const maxPieces = 6;
// maxHeight is what browsers can show, with room to spare.
const maxHeight = 8e6;

// start shows a transcript, and returns functions for the rest of the page.
function start() {
  const above = document.createElement("div");
  const below = document.createElement("div");
  let pieces = [];
  let source = "";
  let size = 0;
  let scale = 0; // pixels for a byte
  let wanted = 0; // how often the user went somewhere; what was asked for before that no longer counts
  let busy = false; // look or grow is waiting for an answer
  let missed = 0; // how often in a row grow could not show what was written
  let retry; // the timer of the next attempt

  const fromOf = (e) => Number(e.dataset.from);
  const toOf = (e) => Number(e.dataset.to);
  const first = () => fromOf(pieces[0]);
  const last = () => toOf(pieces[pieces.length - 1]);
  const isAtBottom = () => log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  const isAtEnd = () => pieces.length === 0 || (last() >= size && isAtBottom());

  // prepare marks the line that the address names, and takes the links of a piece out of the tab order, because there is one for nearly every line:
  // keys go from one to the next.
  function prepare(piece) {
    const at = new URLSearchParams(location.search).get("at");
    for (const line of piece.querySelectorAll(".line")) line.classList.toggle("here", at !== null && fromOf(line) <= Number(at) && Number(at) < toOf(line));
    for (const link of piece.querySelectorAll("a")) link.tabIndex = -1;
    return piece;
  }

  // drop removes a piece. The focus stays in the transcript.
  function drop(piece) {
    if (piece.contains(document.activeElement)) log.focus({ preventScroll: true });
    piece.remove();
  }

  // load fetches a piece. The answer is null if the server cannot give it now.
  async function load(parameters) {
    try {
      const address = new URL(source, location.href);
      for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value);
      const answer = await fetch(address);
      if (!answer.ok) return null;
      const piece = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".piece");
      return piece && prepare(document.adoptNode(piece));
    } catch {
      return null;
    }
  }

  // settle changes the pieces, gives the space around the pieces its height, and keeps the line that the user sees where it is.
  function settle(change) {
    const anchor = [...log.querySelectorAll(".line")].find((l) => l.getBoundingClientRect().bottom > log.getBoundingClientRect().top);
    const before = anchor?.getBoundingClientRect().top;
    change();
    if (pieces.length > 0) {
      above.style.height = first() * scale + "px";
      below.style.height = Math.max(0, size - last()) * scale + "px";
    }
    if (anchor?.isConnected) log.scrollTop += anchor.getBoundingClientRect().top - before;
    document.body.dataset.pieces = pieces.length;
  }

  // show shows one piece instead of all others.
  function show(piece) {
    for (const p of pieces) drop(p);
    pieces = [piece];
    size = Math.max(size, Number(piece.dataset.size));
    above.after(piece);
    if (toOf(piece) > fromOf(piece)) scale = Math.min(piece.offsetHeight / (toOf(piece) - fromOf(piece)), maxHeight / Math.max(size, 1));
    settle(() => {});
  }

  // cutFrom removes the lines from a byte on: those of a line that was incomplete, and is there again.
  function cutFrom(at) {
    while (pieces.length > 0 && last() > at) {
      const piece = pieces[pieces.length - 1];
      for (const line of [...piece.children]) if (fromOf(line) >= at) line.remove();
      piece.dataset.to = Math.max(at, fromOf(piece));
      if (piece.children.length > 0) break;
      piece.remove();
      pieces.pop();
    }
  }

  // append and prepend add a piece. One without lines only makes its neighbour larger, so that it is not asked for again.
  function append(piece) {
    settle(() => {
      size = Number(piece.dataset.size);
      cutFrom(fromOf(piece));
      if (piece.children.length > 0) {
        below.before(piece);
        pieces.push(piece);
      } else if (pieces.length > 0 && toOf(piece) > last()) {
        pieces[pieces.length - 1].dataset.to = toOf(piece);
      }
      while (pieces.length > maxPieces) drop(pieces.shift());
    });
  }

  function prepend(piece) {
    settle(() => {
      if (piece.children.length === 0) {
        pieces[0].dataset.from = Math.min(fromOf(piece), first());
        return;
      }
      above.after(piece);
      pieces.unshift(piece);
      while (pieces.length > maxPieces) drop(pieces.pop());
    });
  }

  // look loads what the user sees, or is about to see.
  async function look() {
    if (busy || pieces.length === 0) return;
    const top = log.scrollTop;
    const bottom = top + log.clientHeight;
    const start = above.offsetHeight;
    const end = log.scrollHeight - below.offsetHeight;
    busy = true;
    const number = wanted;
    let piece;
    try {
      if (bottom < start || top > end) {
        const atBottom = log.scrollHeight - bottom < 2;
        const byte = top > end ? last() + (top - end) / scale : top / scale;
        piece = await load(atBottom ? { before: size } : { at: Math.min(Math.floor(byte), size - 1) });
        if (piece && number === wanted) {
          show(piece);
          log.scrollTop = atBottom ? log.scrollHeight : above.offsetHeight + 1;
        }
      } else if (first() > 0 && top - start < log.clientHeight) {
        const before = first();
        piece = await load({ before });
        if (piece && number === wanted) {
          prepend(piece);
          if (first() === before) return; // there is nothing before it
        }
      } else if (last() < size && end - bottom < log.clientHeight) {
        const at = last();
        piece = await load({ at });
        if (piece && number === wanted) {
          const atBottom = isAtBottom(); // the rest may be higher than the space that stood for it
          append(piece);
          if (atBottom) log.scrollTop = log.scrollHeight;
          if (pieces.length > 0 && last() === at) return; // the rest cannot be shown yet
        }
      } else {
        return;
      }
    } finally {
      busy = false;
    }
    if (piece) schedule();
    else setTimeout(schedule, 1000);
  }

  let scheduled = false;
  function schedule() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      look();
    });
  }

  // goTo shows the line of a byte, and reports whether the server gave it. The user may have gone elsewhere meanwhile.
  async function goTo(parameters, place) {
    const number = ++wanted;
    const piece = await load(parameters);
    if (piece && number === wanted) {
      show(piece);
      place();
      schedule();
    }
    return piece !== null;
  }
  const goStart = () => goTo({ at: 0 }, () => (log.scrollTop = 0));
  const goEnd = () => goTo({}, () => (log.scrollTop = log.scrollHeight)); // where it ends now, which may be after size

  // grow shows what was written meanwhile. It stays at the end if the user is there. What it cannot show now it shows later: if the agent has ended,
  // nothing else announces it.
  async function grow() {
    if (busy) return growLater();
    busy = true;
    const number = wanted;
    try {
      const lines = log.querySelectorAll(".line");
      const at = isAtEnd() && lines.length > 0 ? fromOf(lines[lines.length - 1]) : size;
      const piece = await load({ at });
      if (!piece || number !== wanted) return growLater();
      missed = 0;
      const atEnd = isAtEnd(); // the user may have scrolled meanwhile
      if (atEnd && pieces.length > 0) append(piece);
      else if (atEnd) show(piece);
      else
        settle(() => {
          size = Number(piece.dataset.size);
        });
      if (atEnd) log.scrollTop = log.scrollHeight;
    } finally {
      busy = false;
    }
    schedule();
  }

  function growLater() {
    clearTimeout(retry);
    if (++missed < 30) retry = setTimeout(follow, 1000);
  }

  // check has the server look at all of the transcript for signals, some of it with each request. Then it shows the lines again, with their marks.
  async function check() {
    for (let checked = Number(pieces[0]?.dataset.checked ?? size); checked < size; ) {
      const piece = await load({ before: 0 });
      if (!piece || Number(piece.dataset.checked) <= checked) return;
      checked = Number(piece.dataset.checked);
      if (checked < size) continue;
      refresh(); // the number of signals
      const line = [...log.querySelectorAll(".line")].find(isSeen);
      const down = line ? line.getBoundingClientRect().top - log.getBoundingClientRect().top : 0;
      if (isAtEnd()) await goEnd();
      else if (line) await goTo({ at: fromOf(line) }, () => (log.scrollTop = above.offsetHeight - down));
    }
  }

  // follow reads which transcript the page shows. Without a session in its address, that is the one of the last agent.
  async function follow() {
    const now = document.getElementById("source");
    if (!now) return;
    if (now.value !== source) {
      const atEnd = isAtEnd();
      if (source !== "" && !atEnd) return; // the user reads; the sessions are listed above
      const before = source;
      source = now.value;
      size = Number(now.dataset.size);
      if (!(await goEnd())) {
        source = before;
        growLater();
      }
    } else if (Number(now.dataset.size) !== size || now.hasAttribute("data-running")) {
      await grow();
    }
  }

  const isSeen = (e) => e.getBoundingClientRect().bottom > log.getBoundingClientRect().top && e.getBoundingClientRect().top < log.getBoundingClientRect().bottom;

  // move puts the focus on the next or the previous link of the transcript, or on the first or the last one that the user sees.
  function move(by) {
    const links = [...log.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const seen = links.filter(isSeen);
    (at >= 0 ? links[at + by] : seen.at(by > 0 ? 0 : -1))?.focus();
  }

  // here returns the byte after which to look for the next signal or text: the one that the address names, if the user sees it.
  function here() {
    const at = new URLSearchParams(location.search).get("at");
    const line = log.querySelector(".line.here");
    if (at && line && isSeen(line)) return Number(at);
    const seen = [...log.querySelectorAll(".line")].find(isSeen);
    return seen ? fromOf(seen) - 1 : -1;
  }

  const given = log.querySelector(".piece");
  const about = document.getElementById("source");
  log.prepend(above);
  log.append(below);
  if (about && given) {
    source = about.value;
    size = Number(about.dataset.size);
    show(prepare(given));
    const line = given.querySelector(".here");
    if (line) line.scrollIntoView({ block: "center" });
    else if (toOf(given) >= size) log.scrollTop = log.scrollHeight;
    else log.scrollTop = above.offsetHeight;
  }
  log.addEventListener("scroll", schedule, { passive: true });
  addEventListener("resize", schedule);
  schedule();
  if (about && !about.hasAttribute("data-running")) check();
  return { follow, here, move, goStart, goEnd };
}

if (log) {
  const viewer = start();
  const paging = document.getElementById("paging");
  if (paging) paging.hidden = true;

  new MutationObserver(viewer.follow).observe(document.getElementById("about"), { childList: true, subtree: true });
  // The output of a running agent is not on the ledger, so no event announces it.
  setInterval(() => {
    if (!document.hidden && document.querySelector("#source[data-running]")) viewer.follow();
  }, 1000);

  // Searching starts where the user is.
  const form = document.querySelector("form.find");
  form.addEventListener("submit", () => {
    form.elements.at.value = viewer.here();
  });
  function lead(link) {
    const address = new URL(link.href);
    address.searchParams.set("at", link.id === "other" ? Math.max(0, viewer.here()) : viewer.here());
    link.href = address;
  }
  for (const link of document.querySelectorAll("[data-here]")) link.addEventListener("click", () => lead(link));
  const click = (id) => document.getElementById(id).click();
  const search = (way) => form.elements.find.value && form.requestSubmit(form.querySelector(`button[value=${way}]`));
  const find = () => {
    form.elements.find.focus();
    form.elements.find.select();
  };
  const keys = {
    s: () => click("next"), S: () => click("previous"), r: () => click("other"), n: () => search("next"), N: () => search("previous"),
    j: () => viewer.move(1), k: () => viewer.move(-1), g: viewer.goStart, G: viewer.goEnd, Home: viewer.goStart, End: viewer.goEnd, "/": find,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select") || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
