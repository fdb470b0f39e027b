// Renders Markdown as elements. The text is hostile: elements are made one by one and text is set as text, so HTML in it stays text, and only
// http and https links become links. Nothing is hidden: a link is followed by its target unless it is the same, and images are links.
//
// All of it takes time in proportion to the length of the text, and nesting has a limit.
"use strict";

const maxDepth = 12; // of lists and quotes in each other
const maxOpen = 24; // marks of emphasis that are not closed yet
const maxColumns = 100; // of a table; a wider one is shown as text
const maxTicks = 32; // of a mark of code in a line: the text is searched once for each length that has no end

// printable makes characters visible that a browser would obey or hide: control characters, directions of text, invisible ones. IsUnsafe
// in package text has the same list.
export function printable(text) {
  return text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

// element returns an element with children: nodes, texts, and lists of them.
export function element(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  return fill(e, children);
}

// fill appends children one by one: a hostile text has more than a call can have arguments.
function fill(e, children) {
  for (const child of children) Array.isArray(child) ? fill(e, child) : e.append(child);
  return e;
}

// render returns a fragment with the elements of a text.
export function render(text) {
  const lines = printable(text.replaceAll("\r\n", "\n")).split("\n");
  let code = null;
  for (const [i, line] of lines.entries()) { // tabs in code stay, so that it can be copied
    if (!code) lines[i] = line.replace(/^[ \t]+/, (blanks) => blanks.replaceAll("\t", "    "));
    code = code ? (closes(line, code) ? null : code) : fenceOf(line);
  }
  return fill(document.createDocumentFragment(), blocks(lines, 0));
}

// boundary returns a position in a text before which the rendered blocks do not depend on what follows: the last line after an empty one
// that begins a block of its own, and that is not in code. It is 0 if there is none.
export function boundary(text) {
  let found = 0;
  let at = 0;
  let code = null;
  let blank = false;
  for (const line of text.split("\n").slice(0, -1)) { // the last line may be incomplete
    if (!code && blank && /^[^\s>|]/.test(line) && !itemOf(line)) found = at;
    code = code ? (closes(line, code) ? null : code) : fenceOf(line);
    blank = line.trim() === "";
    at += line.length + 1;
  }
  return found;
}

// fenceOf returns the fence with which a line begins a block of code, also in a list or a quote, null if it does not.
function fenceOf(line) {
  const match = /^[\s>]*(?:[-*+] +|\d{1,9}[.)] +)*(`{3,}|~{3,})([^\n]*)$/.exec(line);
  return match && !(match[1][0] === "`" && match[2].includes("`")) ? match[1] : null;
}

function closes(line, fence) {
  const text = line.replace(/^[\s>]+/, "").trimEnd();
  return text.startsWith(fence) && [...text].every((c) => c === fence[0]);
}

// itemOf returns the marker of an item of a list, null if a line is none.
function itemOf(line) {
  const match = /^( {0,3})([-*+]|(\d{1,9})[.)])( +|$)/.exec(line);
  if (!match) return null;
  const blanks = match[4].length > 4 ? 1 : Math.max(match[4].length, 1);
  return { kind: match[2].at(-1), number: match[3], width: match[1].length + match[2].length + blanks };
}

function isRule(line) {
  if (/^ {4}/.test(line)) return false;
  const text = line.replaceAll(" ", "");
  return text.length >= 3 && "-*_".includes(text[0]) && [...text].every((c) => c === text[0]);
}

const headingOf = (line) => /^ {0,3}(#{1,6})(?: |$)/.exec(line);

// startsBlock reports whether a line ends a paragraph before it.
function startsBlock(line) {
  const item = itemOf(line);
  return headingOf(line) || isRule(line) || /^ {0,3}(>|```|~~~)/.test(line) || (item && (!item.number || item.number === "1"));
}

function cells(line) {
  const text = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return text.split("|").map((cell) => cell.trim()); // an escaped | is rare, and divides a cell
}

// startsTable reports whether a line and the next one, which divides as many columns, begin a table.
function startsTable(line, next) {
  if (!line.includes("|") || !next?.includes("|")) return false;
  const rule = cells(next);
  return rule.length <= maxColumns && rule.every((cell) => /^:?-+:?$/.test(cell)) && cells(line).length === rule.length;
}

// blocks returns the elements of some lines.
function blocks(lines, depth) {
  const out = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    if (line.trim() === "") {
      i++;
      continue;
    }
    if (depth > maxDepth) {
      out.push(element("p", "", lines.slice(i).join("\n")));
      break;
    }
    const fence = /^ {0,3}[`~]/.test(line) ? fenceOf(line) : null;
    const heading = headingOf(line);
    if (fence) {
      let end = i + 1;
      while (end < lines.length && !closes(lines[end], fence)) end++;
      const indent = line.length - line.trimStart().length;
      out.push(element("pre", "", element("code", "", lines.slice(i + 1, end).map((l) => l.slice(Math.min(indent, l.length - l.trimStart().length))).join("\n"))));
      i = end + 1;
    } else if (/^ {4}/.test(line)) {
      let end = i;
      while (end < lines.length && (/^ {4}/.test(lines[end]) || lines[end].trim() === "")) end++;
      out.push(element("pre", "", element("code", "", lines.slice(i, end).map((l) => l.slice(4)).join("\n").trimEnd())));
      i = end;
    } else if (heading) {
      let text = line.trim().slice(heading[1].length).trim();
      if (/ #+$/.test(text.slice(-8))) text = text.slice(0, text.lastIndexOf(" ")).trimEnd();
      const e = element("p", "heading level-" + heading[1].length, inline(text));
      e.setAttribute("role", "heading");
      e.setAttribute("aria-level", String(Math.min(6, heading[1].length + 2)));
      out.push(e);
      i++;
    } else if (isRule(line)) {
      out.push(element("hr", ""));
      i++;
    } else if (/^ {0,3}>/.test(line)) {
      let end = i;
      while (end < lines.length && /^ {0,3}>/.test(lines[end])) end++;
      out.push(element("blockquote", "", blocks(lines.slice(i, end).map((l) => l.trimStart().replace(/^> ?/, "")), depth + 1)));
      i = end;
    } else if (itemOf(line)) {
      i = list(lines, i, depth, out);
    } else if (startsTable(line, lines[i + 1])) {
      i = table(lines, i, out);
    } else {
      let end = i + 1;
      while (end < lines.length && lines[end].trim() !== "" && !startsBlock(lines[end])) end++;
      out.push(element("p", "", inline(lines.slice(i, end).map((l) => l.trimStart()).join("\n"))));
      i = end;
    }
  }
  return out;
}

// list adds the list that begins at a line, and returns the line after it.
function list(lines, i, depth, out) {
  const first = itemOf(lines[i]);
  const e = element(first.number ? "ol" : "ul", "");
  if (first.number && first.number !== "1") e.start = Number(first.number);
  while (i < lines.length) {
    const item = itemOf(lines[i]);
    if (!item || item.kind !== first.kind || isRule(lines[i])) break;
    const inner = [lines[i].slice(item.width)];
    for (i++; i < lines.length; i++) {
      const blank = lines[i].trim() === "";
      const indent = lines[i].length - lines[i].trimStart().length;
      if (!blank && indent < item.width && (inner.at(-1).trim() === "" || startsBlock(lines[i]) || itemOf(lines[i]))) break;
      inner.push(lines[i].slice(Math.min(indent, item.width)));
    }
    while (inner.length > 1 && inner.at(-1).trim() === "") inner.pop();
    const loose = inner.some((l) => l.trim() === "");
    const task = /^\[([ xX])\] /.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(4);
    const children = blocks(inner, depth + 1);
    // A tight item is text, not a paragraph.
    if (!loose && children[0]?.tagName === "P" && !children[0].className) children[0] = [...children[0].childNodes];
    e.append(element("li", "", task ? (task[1] === " " ? "☐ " : "☑ ") : [], children));
  }
  out.push(e);
  return i;
}

// table adds the table that begins at a line, and returns the line after it. A row has only the cells that its line has: with all columns, a
// few empty lines would make many elements.
function table(lines, i, out) {
  const heads = cells(lines[i]);
  const right = cells(lines[i + 1]).map((cell) => cell.endsWith(":"));
  const row = (tag, texts) => element("tr", "", texts.slice(0, heads.length).map((text, n) => element(tag, right[n] ? "number" : "", inline(text))));
  const body = element("tbody", "");
  const e = element("table", "", element("thead", "", row("th", heads)), body);
  for (i += 2; i < lines.length && lines[i].includes("|") && lines[i].trim() !== ""; i++) body.append(row("td", cells(lines[i])));
  out.push(e);
  return i;
}

const marks = { "*": "em", _: "em", "**": "strong", __: "strong", "~~": "del" };

// inline returns the elements and texts of a paragraph, without links if it is the label of one.
function inline(text, inLink = false) {
  const out = [];
  const open = []; // marks of emphasis: where they are in out
  const brackets = inLink ? new Map() : pairs(text);
  const unclosed = new Set(); // lengths of runs of ` that have no end
  let plain = "";
  const flush = () => {
    if (plain) out.push(plain);
    plain = "";
  };
  let i = 0;
  while (i < text.length) {
    const c = text[i];
    if (c === "\\" && i + 1 < text.length && /[!-/:-@[-`{-~]/.test(text[i + 1])) {
      plain += text[i + 1];
      i += 2;
    } else if (c === " " || (c === "\\" && text[i + 1] === "\n")) { // before the end of a line, two blanks or a \ break it
      const run = runOf(text, i);
      if (text[i + run] === "\n" && (run > 1 || c === "\\")) {
        flush();
        out.push(document.createElement("br"));
        i += run + 1;
        continue;
      }
      plain += text.slice(i, i + run);
      i += run;
    } else if (c === "`") {
      const run = runOf(text, i);
      const end = run > maxTicks || unclosed.has(run) ? -1 : endOfCode(text, i + run, run);
      if (end < 0) {
        unclosed.add(run);
        plain += text.slice(i, i + run);
        i += run;
        continue;
      }
      flush();
      let code = text.slice(i + run, end).replaceAll("\n", " ");
      if (code.length > 2 && code.startsWith(" ") && code.endsWith(" ")) code = code.slice(1, -1);
      out.push(element("code", "", code));
      i = end + run;
    } else if ((c === "[" || (c === "!" && text[i + 1] === "[")) && linkAt(text, i + (c === "!"), brackets)) {
      const found = linkAt(text, i + (c === "!"), brackets);
      flush();
      out.push(...link(found.target, inline(found.label, true), found.label, c === "!"));
      i = found.end;
    } else if (!inLink && (c === "h" || c === "<") && addressAt(text, i)) {
      const found = addressAt(text, i);
      flush();
      out.push(...link(found.target, [found.target], found.target, false));
      i = found.end;
    } else if (c === "*" || c === "_" || c === "~") {
      const run = runOf(text, i);
      const before = text[i - 1] ?? " ";
      const after = text[i + run] ?? " ";
      let opens = !/\s/.test(after);
      let ends = !/\s/.test(before);
      if (c === "_") [opens, ends] = [opens && !/[\p{L}\p{N}]/u.test(before), ends && !/[\p{L}\p{N}]/u.test(after)];
      flush();
      emphasis(out, open, c.repeat(run), opens, ends);
      i += run;
    } else {
      plain += c;
      i++;
    }
  }
  flush();
  return out;
}

// emphasis adds a mark: it ends the emphasis that began with the same mark, or may begin one.
function emphasis(out, open, mark, opens, ends) {
  const known = marks[mark] || mark === "***" || mark === "___";
  const opener = open.findLastIndex((o) => o.mark === mark);
  if (known && ends && opener >= 0) {
    const { at } = open[opener];
    open.length = opener; // what began later has no end
    const inner = out.splice(at + 1);
    out[at] = mark.length === 3 ? element("em", "", element("strong", "", inner)) : element(marks[mark], "", inner);
    return;
  }
  if (known && opens && open.length < maxOpen) open.push({ mark, at: out.length });
  out.push(mark);
}

// runOf returns how often the character at a position is repeated.
function runOf(text, at) {
  let end = at;
  while (text[end] === text[at]) end++;
  return end - at;
}

// endOfCode returns where a run of ` of a length is, -1 if there is none.
function endOfCode(text, from, length) {
  for (let at = text.indexOf("`", from); at >= 0; at = text.indexOf("`", at)) {
    const run = runOf(text, at);
    if (run === length) return at;
    at += run;
  }
  return -1;
}

// pairs returns the closing bracket of each opening one.
function pairs(text) {
  const found = new Map();
  const open = [];
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === "[") open.push(i);
    else if (text[i] === "]" && open.length) found.set(open.pop(), i);
  }
  return found;
}

const target = /\(<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"\n]{0,200}")?\)/y;

// linkAt returns the link [label](target) at a position.
function linkAt(text, at, brackets) {
  const close = brackets.get(at);
  if (close === undefined || close - at > 1000) return null;
  target.lastIndex = close + 1;
  const match = target.exec(text);
  return match && { label: text.slice(at + 1, close), target: match[1], end: target.lastIndex };
}

const address = /<?(https?:\/\/[^\s<>"`]+)>?/y;

// addressAt returns the address that begins at a position, without the punctuation of the sentence around it.
function addressAt(text, at) {
  if (text[at] === "h" && /[\p{L}\p{N}]/u.test(text[at - 1] ?? " ")) return null;
  address.lastIndex = at;
  const match = address.exec(text);
  if (!match) return null;
  if (text[at] === "<") return match[0].endsWith(">") ? { target: match[1], end: address.lastIndex } : null;
  const found = match[1].replace(/[.,;:!?'*_~)\]]{1,8}$/, "");
  return { target: found, end: at + found.length };
}

// link returns a link and its target. What is not an address on the web is only text.
function link(to, label, text, image) {
  const shown = text === to ? [] : [" ", element("span", "target", "(" + to + ")")];
  const kind = image ? [element("span", "target", "image: ")] : [];
  if (!/^https?:\/\//i.test(to) || !URL.canParse(to)) return [...kind, ...label, ...(to ? shown : [])];
  const a = element("a", "", text.trim() ? label : to);
  a.href = to;
  a.rel = "noopener noreferrer nofollow";
  a.target = "_blank";
  return [...kind, a, ...(text.trim() ? shown : [])];
}
