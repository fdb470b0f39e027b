// Keeps the page up to date: when an event arrives, it fetches the page again and replaces the parts marked data-live that differ. What
// the user is typing stays. It also lets the user comment on lines of a diff.
"use strict";

const live = document.getElementById("live");
let pending = false;
let fetching = false;
let deferred = false;
let loggedOut = false;

function say(text) {
  if (live) live.textContent = text;
}

// isEdited reports whether the user has typed something in a part of the page, or is about to.
function isEdited(part) {
  if (part.contains(document.activeElement) && document.activeElement.matches("textarea, input, select")) return true;
  return [...part.querySelectorAll("textarea")].some((t) => t.value !== t.defaultValue);
}

// replace makes a part of the page look like its next version.
function replace(part, next) {
  if (!next || part.innerHTML === next.innerHTML) return;
  if (part.querySelector(":active")) {
    deferred = true; // until the click is over, which would be lost
    return;
  }
  if (part.tagName !== next.tagName) {
    part.replaceWith(next);
    return;
  }
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  replaceAround(part, next);
  if (focused && !focused.isConnected) twin(focused, part)?.focus({ preventScroll: true });
}

// replaceAround replaces the children of a part, except for those in which the user types. They are not even moved: that would take the focus
// from them. They stay if the next version does not have them any more.
function replaceAround(part, next) {
  const kept = [...part.children].filter(isEdited);
  for (const child of [...part.childNodes]) if (!kept.includes(child)) child.remove();
  let at = part.firstChild;
  for (const child of [...next.childNodes]) {
    const same = kept.find((k) => k.id && k.id === child.id);
    if (same) at = same.nextSibling;
    else part.insertBefore(child, at);
  }
}

// twin returns the link or button in a part that does what another one did, which was replaced.
function twin(control, part) {
  const does = (e) => [e.getAttribute("href"), e.getAttribute("value"), e.closest("form")?.getAttribute("action")].join("\n");
  return [...part.querySelectorAll(control.tagName)].find((e) => does(e) === does(control));
}

async function refresh() {
  if (fetching) {
    pending = true;
    return;
  }
  fetching = true;
  try {
    do {
      pending = deferred = false;
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      loggedOut = answer.status === 401;
      if (loggedOut) say("· logged out");
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      for (const part of document.querySelectorAll("[data-live]")) replace(part, page.getElementById(part.id));
      document.body.dataset.shown = page.body.dataset.seq;
    } while (pending);
  } catch {
    say("· not connected");
  } finally {
    fetching = false;
  }
}

let stream = null;

// follow refreshes the page on every event while it is visible: a browser has few connections to a server, and each stream takes one. The
// browser connects again by itself, unless the server refused.
function follow() {
  if (stream || loggedOut || document.hidden || !document.querySelector("main [data-live]")) return;
  stream = new EventSource("/api/v1/events?after=" + (document.body.dataset.shown || document.body.dataset.seq));
  let lost = false;
  stream.onopen = () => {
    say("· live");
    if (lost) refresh(); // what failed meanwhile
    lost = false;
  };
  stream.onmessage = () => refresh();
  stream.onerror = () => {
    say("· reconnecting");
    lost = true;
    if (stream.readyState !== EventSource.CLOSED) return;
    stream = null;
    refresh(); // which finds out whether the login has ended
    setTimeout(follow, 3000);
  };
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    if (!stream && document.querySelector("main [data-live]")) refresh();
    follow();
    return;
  }
  stream?.close();
  stream = null;
  say("");
});

document.addEventListener("pointerup", () => {
  if (deferred) refresh();
});

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
