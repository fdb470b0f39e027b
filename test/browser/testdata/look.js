// Functions that look at a page, and return what is wrong with it.

// where describes an element.
function where(e) {
  return e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.getAttribute("class") ? "." + e.getAttribute("class").replaceAll(" ", ".") : "") +
    " " + JSON.stringify(e.textContent.trim().slice(0, 40));
}

function isShown(e) {
  return e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getClientRects().length > 0;
}

// colour returns a computed colour as [r, g, b, alpha].
function colour(text) {
  const parts = text.match(/[\d.]+/g).map(Number);
  if (text.startsWith("color(srgb")) return [...parts.slice(0, 3).map((c) => c * 255), parts[3] ?? 1];
  return [...parts.slice(0, 3), parts[3] ?? 1];
}

function over(top, below) {
  return [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
}

// behind returns the colour behind the text of an element.
function behind(e) {
  const layers = [];
  for (let at = e; at; at = at.parentElement) {
    const background = colour(getComputedStyle(at).backgroundColor);
    layers.push(background);
    if (background[3] === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
}

function luminance(c) {
  const [r, g, b] = c.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// contrast returns the texts with a contrast below 4.5 to 1, and fails if there is no text.
function contrast() {
  const faults = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !isShown(e) || e.closest("title, script, noscript")) continue;
    count++;
    const style = getComputedStyle(e);
    const below = behind(e);
    let opacity = 1;
    for (let at = e; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const ink = colour(e.closest("svg") ? style.fill : style.color);
    ink[3] *= opacity;
    const [high, low] = [luminance(over(ink, below)), luminance(below)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faults.add("contrast " + ratio.toFixed(2) + " of " + where(e));
  }
  if (count < 5) faults.add("only " + count + " texts");
  return [...faults];
}

// name returns the accessible name of an element, near enough.
function name(e) {
  const label = e.labels?.[0]?.textContent ?? "";
  return (e.getAttribute("aria-label") || label || e.getAttribute("alt") || e.querySelector(":scope > title")?.textContent || "").trim();
}

// structure returns what a screen reader misses.
function structure() {
  const faults = [];
  if (document.documentElement.lang !== "en") faults.push("html has no lang");
  if (!document.title.trim()) faults.push("no title");
  if (document.getElementById("standing")?.textContent.trim() === "") faults.push("the page does not say how the run is");
  if (document.querySelectorAll("h1").length !== 1) faults.push(document.querySelectorAll("h1").length + " h1");
  if (document.querySelectorAll("main").length !== 1) faults.push(document.querySelectorAll("main").length + " main");
  for (const field of document.querySelectorAll("textarea, select, input:not([type=hidden])")) if (!name(field)) faults.push("no label: " + where(field));
  for (const picture of document.querySelectorAll("img, svg, meter, [role=img]")) if (!name(picture)) faults.push("no name: " + where(picture));
  for (const control of document.querySelectorAll("button, a[href]")) {
    if (!control.textContent.trim() && !control.getAttribute("aria-label")) faults.push("no name: " + where(control));
  }
  // What is inside an image does not exist for a screen reader, but the keyboard would reach it.
  for (const control of document.querySelectorAll("[role=img] a, [role=img] button")) faults.push("a control in an image: " + where(control));
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids.filter((id, i) => ids.indexOf(id) !== i)) faults.push("two elements have the id " + id);
  for (const label of document.querySelectorAll("label")) if (!label.control) faults.push("the label of nothing: " + where(label));
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
    if (Number(h.tagName[1]) > level + 1) faults.push("a level of headings is left out: " + where(h));
    level = Number(h.tagName[1]);
  }
  return faults;
}

// phone returns what does not fit a phone.
function phone() {
  const faults = [];
  const wide = document.scrollingElement.scrollWidth;
  if (wide > innerWidth || innerWidth !== 390) {
    faults.push("the page is " + wide + " wide, the window " + innerWidth);
    for (const e of document.querySelectorAll("body *")) {
      if (e.getBoundingClientRect().right > 391 && faults.length < 6) faults.push("too wide: " + where(e));
    }
  }
  for (const button of document.querySelectorAll("button")) {
    // A line of code has a button on its number. It is as high as the target size that WCAG 2.2 asks for, so that one sees some lines.
    const least = button.matches(".comment") ? 24 : 40;
    const height = button.getBoundingClientRect().height;
    if (isShown(button) && height < least) faults.push("only " + height + " px high: " + where(button));
  }
  return faults;
}
