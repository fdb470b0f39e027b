// Keeps the page up to date: when an event arrives, it fetches the page again and replaces the parts marked data-live that differ. What
// the user is typing stays. It also lets the user comment on lines of a diff.
"use strict";

const live = document.getElementById("live");
let pending = false;
let fetching = false;

function say(text) {
  if (live) live.textContent = text;
}

// isEdited reports whether the user has typed something in a part of the page, or is about to.
function isEdited(part) {
  if (part.contains(document.activeElement) && document.activeElement.matches("textarea, input, select, button")) return true;
  return [...part.querySelectorAll("textarea")].some((t) => t.value !== t.defaultValue);
}

function replace(part, next) {
  if (!next || part.innerHTML === next.innerHTML) return;
  const atEnd = part.scrollHeight - part.scrollTop - part.clientHeight < 8;
  if (isEdited(part)) {
    replaceAround(part, next);
    return;
  }
  part.replaceChildren(...next.childNodes);
  if (part.hasAttribute("data-follow") && atEnd) part.scrollTop = part.scrollHeight;
}

// replaceAround leaves the children that the user edits, and adds or removes the others.
function replaceAround(part, next) {
  const old = [...part.children];
  const kept = old.filter(isEdited);
  for (const child of old) if (!kept.includes(child)) child.remove();
  for (const child of [...next.children]) {
    const edited = kept.some((k) => k.querySelector("h2")?.textContent.split("·")[0] === child.querySelector("h2")?.textContent.split("·")[0]);
    if (!edited) part.append(child);
  }
}

async function refresh() {
  if (fetching) {
    pending = true;
    return;
  }
  fetching = true;
  try {
    do {
      pending = false;
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      document.querySelector("header nav")?.replaceChildren(...page.querySelector("header nav").childNodes);
      for (const part of document.querySelectorAll("[data-live]")) replace(part, page.getElementById(part.id));
      document.body.dataset.shown = page.body.dataset.seq;
    } while (pending);
  } catch {
    say("· not connected");
  } finally {
    fetching = false;
  }
}

function follow() {
  if (!document.querySelector("[data-live]")) return;
  const stream = new EventSource("/api/v1/events?after=" + document.body.dataset.seq);
  stream.onopen = () => say("· live");
  stream.onmessage = () => refresh();
  stream.onerror = () => say("· reconnecting");
}

// comment adds a text field below a line of the diff. Its value becomes a finding: "file:line: text".
function comment(button) {
  const row = button.closest("tr");
  if (row.nextElementSibling?.classList.contains("note")) {
    row.nextElementSibling.querySelector("textarea").focus();
    return;
  }
  const file = button.closest("table").dataset.file;
  const note = document.createElement("tr");
  note.className = "note";
  const cell = document.createElement("td");
  cell.colSpan = 3;
  const field = document.createElement("textarea");
  field.rows = 2;
  field.setAttribute("aria-label", "Comment on line " + button.dataset.line + " of " + file);
  field.dataset.where = file + ":" + button.dataset.line + ": ";
  cell.append(field);
  note.append(cell);
  row.after(note);
  field.focus();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.comment");
  if (button) comment(button);
});

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-review]")) return;
  for (const field of event.target.querySelectorAll("textarea[data-where]")) {
    if (!field.value.trim()) continue;
    const hidden = document.createElement("input");
    hidden.type = "hidden";
    hidden.name = "comment";
    hidden.value = field.dataset.where + field.value;
    event.target.append(hidden);
  }
});

for (const part of document.querySelectorAll("[data-follow], .end")) part.scrollTop = part.scrollHeight;
follow();
