// Checks a proof file with a public key, in the browser. It accepts what signalbox ledger check accepts; docs/reference/ledger-format.md
// specifies it, and a test compares both in Chromium, on valid and on changed proofs and on keys that verifiers disagree about.
//
// Browsers have the hashes and signatures only on pages that are encrypted or from this machine, files among them. Elsewhere
// nothing is checked, and the page says so.
"use strict";

const utf8 = new TextEncoder();

// refuse reports why a proof is not valid.
function refuse(reason) {
  throw new Error(reason);
}

// Unable means that this browser cannot check any proof here, which says nothing about the proof.
class Unable extends Error {}

// checkProof checks the bytes of a proof file with a public key, and returns the event and the checkpoint. It throws an error if the proof is
// not valid. Numbers of events are BigInts.
async function checkProof(bytes, publicKey) {
  if (!globalThis.crypto?.subtle) throw new Unable("A browser checks proofs only on pages with https and on those of this machine. " + instead);
  const key = await parseKey(publicKey);
  const { event, hashes, checkpoint: note } = parseProof(bytes);
  if (hex(await hashEvent(event)) !== event.hash) refuse("Event " + event.seq + " was changed: its hash is not that of its content.");
  const checkpoint = parseCheckpoint(note, key);
  if (event.seq < 1n || event.seq > checkpoint.size) refuse("Event " + event.seq + " is not among the " + checkpoint.size + " events that the checkpoint signed.");
  const root = await rootOf(await leafHash(unhex(event.hash)), event.seq - 1n, checkpoint.size, hashes.map(unhex));
  if (!root || hex(root) !== hex(checkpoint.root)) refuse("Event " + event.seq + " is not in the ledger that the checkpoint signed.");
  if (!(await verifySignature(key.point, checkpoint.text, checkpoint.signature))) refuse("The checkpoint is not signed with this key.");
  return { event, checkpoint };
}

// parseKey parses NAME+ID+KEY.
async function parseKey(text) {
  const match = /^([^+]+)\+([0-9a-fA-F]{8})\+([^]*)$/.exec(trim(text));
  const key = match && decodeBase64(match[3]);
  const shape = "This is not a public key: it is one line, NAME+ID+KEY.";
  if (!key || hasSpace(match[1]) || new TextDecoder("utf-8", { ignoreBOM: true }).decode(utf8.encode(match[1])) !== match[1]) refuse(shape);
  const id = (await sha256(concat(utf8.encode(match[1] + "\n"), key))).slice(0, 4);
  if (hex(id) !== match[2].toLowerCase()) refuse("The public key is damaged: its ID is not that of its name and key.");
  if (key.length !== 33 || key[0] !== 1) refuse("The public key is not an Ed25519 key.");
  return { name: match[1], id, point: key.slice(1) };
}

// space is what Go calls white space, which differs from \s.
const space = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

function hasSpace(text) {
  return new RegExp("[" + space + "]").test(text);
}

function trim(text) {
  return text.replace(new RegExp("^[" + space + "]+|[" + space + "]+$", "g"), "");
}

// parseProof parses a proof file. There is exactly one way to write a proof, and every other is refused, so that every edit is detected.
function parseProof(bytes) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    refuse("The proof file is not valid: it is not text in UTF-8.");
  }
  let at = 0;
  const take = (pattern, what) => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (!match) refuse("The proof file is not valid, or was edited: there is no " + what + " at character " + at + ".");
    at = pattern.lastIndex;
    return match[0];
  };
  const literal = (expected) => {
    if (!text.startsWith(expected, at)) refuse("The proof file is not valid, or was edited, at character " + at + ".");
    at += expected.length;
  };
  const number = () => {
    const n = BigInt(take(/0|[1-9][0-9]{0,19}/y, "number"));
    if (n >= 1n << 64n) refuse("The proof file is not valid: the number " + n + " is too large.");
    return n;
  };
  const string = () => {
    literal('"');
    let end = at;
    while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
    const written = text.slice(at, end);
    at = end;
    literal('"');
    return unescapeText(written);
  };
  const hash = () => take(/"[0-9a-f]{64}"/y, "hash").slice(1, -1);

  const event = {};
  literal('{\n  "format": "signalbox-proof/v1",\n  "event": {\n    "seq": ');
  event.seq = number();
  for (const name of ["time", "type", "work", "session", "actor", "data"]) {
    literal(',\n    "' + name + '": ');
    event[name] = string();
  }
  for (const name of ["prev", "hash"]) {
    literal(',\n    "' + name + '": ');
    event[name] = hash();
  }
  if (!isTime(event.time)) refuse("The proof file is not valid: its time is not a time.");
  literal('\n  },\n  "index": ');
  if (number() !== BigInt.asUintN(64, event.seq - 1n)) refuse("The proof file was edited: its index is not that of the event.");
  literal(',\n  "hashes": [');
  const hashes = [];
  if (!text.startsWith("]", at)) {
    do {
      literal((hashes.length ? "," : "") + "\n    ");
      hashes.push(hash());
    } while (text.startsWith(",", at));
    literal("\n  ");
  }
  literal('],\n  "checkpoint": ');
  const checkpoint = string();
  literal("\n}\n");
  if (at !== text.length) refuse("The proof file was edited: there is something after its end.");
  return { event, hashes, checkpoint };
}

// Characters that are escaped in a proof: controls and direction marks, which could hide something.
const escaped = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

// escapeText returns text as it is in a proof.
function escapeText(text) {
  const escape = (c) => (c === '"' || c === "\\" ? "\\" + c : c === "\n" ? "\\n" : "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  return text.replace(new RegExp(escaped.source + '|["\\\\]', "g"), escape);
}

// unescapeText is the reverse of escapeText. It refuses everything that escapeText would not write.
function unescapeText(written) {
  const text = written.replace(/\\(?:u([0-9a-f]{4})|([^]))/g, (_, code, c) => (code ? String.fromCharCode(parseInt(code, 16)) : c === "n" ? "\n" : c));
  if (escapeText(text) !== written) refuse("The proof file was edited: a text is not written as signalbox writes it.");
  return text;
}

// isTime reports whether a text is a time in the years 1 to 9999, with nine digits after the point.
function isTime(text) {
  const match = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.\d{9}Z$/.exec(text);
  if (!match) return false;
  const [year, month, day, hour, minute, second] = match.slice(1).map(Number);
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1];
  return year >= 1 && day >= 1 && day <= days && hour < 24 && minute < 60 && second < 60;
}

// hashEvent returns the hash of an event: SHA-256 of a tag and every field, each with its length.
function hashEvent(event) {
  const parts = [utf8.encode("signalbox/event/v1\n")];
  const add = (bytes) => parts.push(bigEndian(BigInt(bytes.length)), bytes);
  add(bigEndian(event.seq));
  for (const name of ["time", "type", "work", "session", "actor", "data"]) add(utf8.encode(event[name]));
  add(unhex(event.prev));
  return sha256(concat(...parts));
}

// parseCheckpoint parses a signed note: the origin, the number of events, the root, an empty line, and the line of one signature.
function parseCheckpoint(note, key) {
  const malformed = "The checkpoint in the proof is not valid, or was edited.";
  const lines = note.split("\n");
  if (lines.length !== 6 || /[\x00-\x09\x0b-\x1f]/.test(note)) refuse(malformed);
  const [origin, size, root, , signature] = lines;
  if (origin !== key.name) refuse("The proof is from the ledger of " + show(origin) + ", but the key is that of " + show(key.name) + ".");
  const prefix = "— " + key.name + " ";
  const signed = signature.startsWith(prefix) ? decodeBase64(signature.slice(prefix.length)) : null;
  const hash = decodeBase64(root);
  if (!/^(0|[1-9][0-9]{0,18})$/.test(size) || BigInt(size) > maxEvents || hash?.length !== 32 || !signed) refuse(malformed);
  const text = origin + "\n" + size + "\n" + encodeBase64(hash) + "\n";
  if (note !== text + "\n" + prefix + encodeBase64(signed) + "\n") refuse(malformed);
  if (signed.length !== 68 || hex(signed.slice(0, 4)) !== hex(key.id)) refuse("The checkpoint is not signed with this key.");
  return { origin, size: BigInt(size), root: hash, text: utf8.encode(text), signature: signed.slice(4) };
}

// maxEvents is how many events a ledger can have.
const maxEvents = (1n << 60n) - 1n;

// rootOf follows the path from a leaf to the root of a tree, as RFC 9162, section 2.1.3.2, describes it. It returns null if the path has the wrong length.
async function rootOf(hash, index, size, path) {
  let last = size - 1n;
  for (const other of path) {
    if (last === 0n) return null;
    if (index & 1n || index === last) {
      hash = await nodeHash(other, hash);
      while (!(index & 1n) && index !== 0n) {
        index >>= 1n;
        last >>= 1n;
      }
    } else {
      hash = await nodeHash(hash, other);
    }
    index >>= 1n;
    last >>= 1n;
  }
  return last === 0n ? hash : null;
}

function leafHash(hash) {
  return sha256(concat(Uint8Array.of(0), hash));
}

function nodeHash(left, right) {
  return sha256(concat(Uint8Array.of(1), left, right));
}

// Bytes.

function concat(...parts) {
  const all = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function hex(bytes) {
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

function unhex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function bigEndian(n) {
  return unhex(n.toString(16).padStart(16, "0"));
}

// decodeBase64 decodes base64 with padding, and returns null if it is not that. Like Go, it ignores line ends and unused bits.
function decodeBase64(text) {
  text = text.replace(/[\r\n]/g, "");
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) return null;
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

function encodeBase64(bytes) {
  return btoa(String.fromCharCode(...bytes));
}

// Cryptography.

async function sha256(message) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", message));
}

// verifySignature reports whether a signature of a message is valid. A key that is not a point on the curve has none.
async function verifySignature(publicKey, message, signature) {
  let key;
  try {
    key = await crypto.subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
  } catch (err) {
    if (err.name === "NotSupportedError") throw new Unable("This browser cannot check signatures with Ed25519. " + instead);
    return false;
  }
  return crypto.subtle.verify("Ed25519", key, signature, message);
}

const instead = "Use signalbox ledger check --key KEY FILE.";

// The page.

// maxFile is more than the proof of the largest event needs.
const maxFile = 8 << 20;

// show returns text without what could hide something or change the text around it.
function show(text) {
  return text.replace(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu, (c) => {
    const code = c.codePointAt(0).toString(16);
    return code.length > 4 ? "\\u{" + code + "}" : "\\u" + code.padStart(4, "0");
  });
}

// element makes an element of the page. Children are elements and text.
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function showResult(className, lamp, title, ...rest) {
  const heading = element("h2", "", element("span", "lamp " + lamp), " ", title);
  heading.firstChild.setAttribute("aria-hidden", "true");
  document.getElementById("result").replaceChildren(element("article", "request " + className, heading, ...rest));
}

function showValid({ event, checkpoint }) {
  const list = element("dl", "event");
  for (const name of ["time", "type", "work", "session", "actor", "hash"]) {
    if (event[name]) list.append(element("dt", "", name), element("dd", "", element("bdi", "", show(event[name]))));
  }
  const signed = " of " + (checkpoint.size === 1n ? "1 event" : checkpoint.size + " events") + ", by ";
  list.append(element("dt", "", "checkpoint"), element("dd", "", signed.trim() + " ", element("bdi", "", show(checkpoint.origin))));
  const data = element("pre", "output all", element("bdi", "", show(event.data)));
  showResult("verified", "good", "Event " + event.seq + " is in the ledger", list, data);
}

// bytesOf returns what the user has chosen or typed.
async function bytesOf(name) {
  const file = document.getElementById(name + "-file").files[0];
  const text = document.getElementById(name + "-text").value;
  if (!file && !text.trim()) refuse(name === "key" ? "There is no public key to check the proof with." : "There is no proof to check.");
  if (!file) return utf8.encode(text.replace(/\n*$/, "\n")); // a line end at the end is easily lost when text is copied
  if (file.size > maxFile) refuse("The file " + show(file.name) + " is too large.");
  return new Uint8Array(await file.arrayBuffer());
}

async function check() {
  let key;
  try {
    key = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await bytesOf("key"));
  } catch (err) {
    refuse(err instanceof TypeError ? "This is not a public key: it is one line, NAME+ID+KEY." : err.message);
  }
  return checkProof(await bytesOf("proof"), key);
}

document.getElementById("check")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    showValid(await check());
  } catch (err) {
    if (err instanceof Unable) return showResult("", "ask", "Not checked", element("p", "text", err.message));
    showResult("refused", "bad", "Not valid", element("p", "text", element("bdi", "", show(err.message))), element("p", "faint", "Do not rely on it. Ask the owner of the ledger for a new proof of that event."));
  }
});

// A file and a text exclude each other.
for (const name of ["proof", "key"]) {
  const file = document.getElementById(name + "-file");
  const text = document.getElementById(name + "-text");
  file?.addEventListener("change", () => (text.value = ""));
  text?.addEventListener("input", () => (file.value = ""));
}
