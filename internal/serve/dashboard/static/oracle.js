// Shows conversations with the oracle: a question is sent to the API, and the chunks of its answer are shown as they arrive. Recorded
// conversations come as the same chunks. Text of models and tools is hostile: it is set as text, or rendered by markdown.js.
import { boundary, element, printable, render } from "./markdown.js";

const api = "/api/v1/oracle";
const conversation = document.getElementById("conversation");
const form = document.getElementById("ask");
const resume = document.getElementById("resume");
const field = document.getElementById("question");
const stop = document.getElementById("stop");

// Reasons in a done chunk after which an answer can be resumed.
const resumable = ["cancelled", "failed", "model_failed", "tree_failed"];

// shorten returns text on one line with at most some characters.
function shorten(text, limit) {
  const line = printable(text.slice(0, 4 * limit)).replace(/\s+/g, " ").trim();
  return line.length > limit ? line.slice(0, limit) + "…" : line;
}

// Body is the text of a turn, rendered while it arrives. Only what follows the last boundary is rendered again.
class Body {
  constructor(turn) {
    this.turn = turn;
    this.text = "";
    this.settled = 0;
    this.timer = 0;
    this.tail = element("div");
    this.element = element("div", "markdown", this.tail);
  }

  add(text) {
    this.text += text;
    const length = this.text.length - this.settled;
    this.timer ||= setTimeout(() => this.draw(), Math.min(500, length >> 7)); // a long block less often
  }

  draw() {
    this.timer = 0;
    keepingEnd(() => {
      const at = boundary(this.text.slice(this.settled));
      if (at) this.tail.before(render(this.text.slice(this.settled, this.settled + at)));
      this.settled += at;
      this.tail.replaceChildren(render(this.text.slice(this.settled)));
    });
  }

  // finish renders all of the text, as it is complete.
  finish() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.element.replaceChildren(render(this.text));
  }
}

// keepingEnd changes the page, and keeps its end in view if it was.
function keepingEnd(change) {
  const page = document.scrollingElement;
  const atEnd = page.scrollHeight - page.scrollTop - page.clientHeight < 48;
  change();
  if (atEnd) page.scrollTop = page.scrollHeight;
}

// Exchange is a question with its answer.
class Exchange {
  constructor(question, article = element("article")) {
    this.question = question;
    this.article = article;
    this.body = null;
    this.thoughts = null;
    this.calls = new Map(); // by id
    this.done = null;
    this.answer = element("div", "answer");
    article.className = "exchange";
    article.setAttribute("aria-label", "Question and answer");
    article.replaceChildren(element("p", "asked", element("bdi", "", printable(question))), this.answer);
  }

  add(chunk) {
    keepingEnd(() => this.show(chunk));
  }

  show(chunk) {
    switch (chunk.type) {
      case "content":
        if (this.body?.turn !== chunk.turn) this.startBody(chunk.turn);
        this.body.add(chunk.text);
        return;
      case "reasoning":
        if (this.thoughts?.turn !== chunk.turn) this.startThoughts(chunk.turn);
        this.thoughts.text.append(printable(chunk.text));
        return;
      case "tool_call":
        this.call(chunk);
        return;
      case "tool_result":
        this.result(chunk);
        return;
      case "signal":
        this.note("•", `${chunk.signal} (${chunk.confidence.toFixed(2)})${reasonOf(chunk.fields ?? {})}`);
        return;
      case "system":
        if (chunk.name === "reply_restarted" || chunk.name === "reply_cut") this.withdraw(chunk.turn);
        this.note(chunk.level ? "!" : "·", chunk.text, chunk.level ? "warning" : "");
        return;
      case "sources":
        this.sources(chunk.sources ?? []);
        return;
      case "error":
        this.fail(chunk.text);
        return;
      case "done":
        this.done = chunk;
        this.end();
        this.note("■", summary(chunk));
    }
  }

  startBody(turn) {
    this.body?.finish();
    this.body = new Body(turn);
    this.answer.append(this.body.element);
  }

  // withdraw removes the text of a turn, which failed or comes again.
  withdraw(turn) {
    if (this.body?.turn !== turn) return;
    clearTimeout(this.body.timer);
    this.body.element.remove();
    this.body = null;
  }

  startThoughts(turn) {
    const text = element("pre", "output");
    this.thoughts = { turn, text };
    this.answer.append(element("details", "note", element("summary", "", "Thinking"), text));
  }

  call(chunk) {
    const known = typeof chunk.arguments === "string" ? chunk.arguments : JSON.stringify(chunk.arguments);
    const name = shorten(chunk.name, 100);
    const outcome = element("span", "outcome");
    const summary = element("summary", "", mark("→"), element("b", "", element("bdi", "", name)), " ", element("code", "", element("bdi", "", shorten(known, 120))), outcome);
    const details = element("details", "note call", summary, element("pre", "output", printable(JSON.stringify(chunk.arguments, null, 2))));
    this.calls.set(chunk.id, { details, outcome });
    this.answer.append(details);
  }

  result(chunk) {
    if (!this.calls.has(chunk.id)) this.call({ ...chunk, arguments: null });
    const { details, outcome } = this.calls.get(chunk.id);
    outcome.className = chunk.ok ? "outcome good" : "outcome bad";
    outcome.replaceChildren(mark(chunk.ok ? "✓" : "✗"), element("bdi", "", firstLine(chunk.text)));
    details.append(element("pre", "output", printable(chunk.text)));
  }

  sources(all) {
    const lines = new Map();
    for (const s of all) {
      const where = s.path + (s.title ? ` (${s.title})` : "");
      if (!lines.has(where)) lines.set(where, []);
      if (s.line > 0) lines.get(where).push(s.line);
    }
    for (const [where, at] of [...lines].slice(0, 8)) this.note("‣", where + (at.length ? ":" + at.slice(0, 5).join(",") + (at.length > 5 ? ",…" : "") : ""));
    if (lines.size > 8) this.note("‣", `and ${lines.size - 8} more`);
  }

  note(sign, text, kind = "") {
    this.answer.append(element("p", ("note " + kind).trim(), mark(sign), element("bdi", "", printable(text))));
  }

  fail(text, hint) {
    this.note("✗", text, "bad");
    if (hint) this.note("·", hint);
  }

  // end renders the last text: nothing follows.
  end() {
    this.body?.finish();
  }
}

function mark(sign) {
  const e = element("span", "mark", sign + " ");
  return e;
}

// reasonOf returns the explanation in a signal, if it has one.
function reasonOf(fields) {
  for (const name of ["reason", "blocker", "missing", "capability", "caveat"]) {
    if (typeof fields[name] === "string" && fields[name].trim()) return ": " + shorten(fields[name], 200);
  }
  return "";
}

// firstLine returns the verdict of a result that is a brief, and the first line of any other.
function firstLine(text) {
  try {
    const verdict = JSON.parse(text)?.snapshot?.verdict;
    if (typeof verdict === "string" && verdict) return shorten(verdict, 160);
  } catch {
    // other results are text
  }
  const lines = text.trim().split("\n");
  const more = lines.length - 1;
  return shorten(lines[0], 160) + (more ? ` (and ${more} more line${more > 1 ? "s" : ""})` : "");
}

function summary(done) {
  const parts = [done.reason, done.turns + (done.turns === 1 ? " turn" : " turns")];
  if (done.tokens > 0) parts.push(done.tokens + " tokens");
  if (done.cost_usd > 0) parts.push("$" + done.cost_usd.toFixed(4));
  if (done.model) parts.push(done.model);
  if (done.session) parts.push("session " + done.session);
  return parts.join(", ") + (done.detail ? ": " + done.detail : "");
}

// last is the last exchange on the page, and asking what is being answered: null if nothing is.
let last = null;
let asking = null;

for (const article of conversation.querySelectorAll("article")) {
  last = new Exchange(article.dataset.question, article);
  for (const line of article.dataset.chunks.split("\n")) if (line) last.show(JSON.parse(line));
  last.end();
  if (!last.done) last.note("!", "the answer was cut off here", "warning");
}

function say(text) {
  document.getElementById("asking").textContent = text;
}

// busy shows whether a question is being answered.
function busy(is) {
  form.querySelector(".primary").disabled = is;
  stop.hidden = !is;
  stop.disabled = false;
  if (is) resume.hidden = true;
}

// inSession makes a conversation that of the page, so that the next question continues it, and so that it can be read again.
function inSession(session) {
  if (asking) asking.session = session;
  if (!session || form.elements.session.value === session) return;
  form.elements.session.value = resume.elements.session.value = session;
  history.replaceState(null, "", "/oracle/" + session);
  document.getElementById("conversations")?.remove();
}

// lines calls a function for each line of an answer, as soon as it is complete.
async function lines(answer, each) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const line of parts) if (line) each(line);
  }
}

// ask asks a question, or resumes the last answer if it is "".
async function ask(question) {
  if (asking) return;
  asking = { abort: new AbortController(), session: "" };
  busy(true);
  say(question ? "Answering…" : "Resuming…");
  if (!question) last?.article.remove();
  const exchange = new Exchange(question || last?.question || "");
  last = exchange;
  conversation.append(exchange.article);
  exchange.article.scrollIntoView({ block: "nearest" });
  const session = form.elements.session.value;
  let refused = false;
  try {
    const answer = await fetch(api, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...(question && { question }), ...(session && { session }) }),
      signal: asking.abort.signal,
    });
    if (answer.ok) {
      inSession(answer.headers.get("Signalbox-Session"));
      await lines(answer, (line) => exchange.add(JSON.parse(line)));
      if (!exchange.done) exchange.fail("The answer ended early.");
    } else {
      refused = true;
      const problem = await answer.json().catch(() => ({}));
      exchange.fail(problem.error ?? "The server answered with status " + answer.status, problem.hint);
    }
  } catch (err) {
    exchange.fail(err.name === "AbortError" ? "stopped" : "The connection was lost.");
  }
  exchange.end();
  if (refused && question && !field.value) field.value = question; // to send it again
  const over = asking.session !== "" && (!exchange.done || resumable.includes(exchange.done.reason));
  resume.hidden = !over && !(refused && !question);
  asking = null;
  busy(false);
  say(exchange.done && !over ? "Answered." : "There is no complete answer.");
  field.focus({ preventScroll: true });
}

// send asks what is in the field.
function send() {
  const question = field.value.trim();
  if (!question || asking) return;
  field.value = "";
  ask(question);
}

if (form) {
  document.getElementById("keys").hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  resume.addEventListener("submit", (event) => {
    event.preventDefault();
    ask("");
  });
  // Enter asks. Keyboards of phones have no keys, but all browsers say that a line is about to begin; pasted lines are something else.
  let shift = false;
  field.addEventListener("keydown", (event) => {
    shift = event.shiftKey;
  });
  field.addEventListener("beforeinput", (event) => {
    if (event.inputType !== "insertLineBreak" || shift || event.isComposing) return;
    event.preventDefault();
    send();
  });
  // The server ends the work and says so in the last chunks. Before there are any, leaving ends it.
  stop.addEventListener("click", async () => {
    if (!asking) return;
    const { abort, session } = asking;
    stop.disabled = true;
    say("Stopping…");
    const stopped = session && (await fetch(`${api}/conversations/${session}/stop`, { method: "POST" }).catch(() => null));
    if (!stopped || (!stopped.ok && stopped.status !== 404)) abort.abort();
  });
  if (last) form.scrollIntoView({ block: "end" });
}
