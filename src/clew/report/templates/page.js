"use strict";
(() => {
  // Every text goes into the page by textContent: the output of a tool is never read as HTML.
  const table = JSON.parse(document.getElementById("rows").textContent);
  const rows = table.rows.map(([number, role, tool, tokens, after, fate, text, left, now, nowLeft]) => ({
    number, role: table.roles[role], tool: table.tools[tool], tokens, after, fate: table.fates[fate], text, left, now, nowLeft,
  }));
  const words = { kept: "kept word for word", pruned: "shortened", summarised: "folded into the " + table.summary_name, removed: "removed" };
  const letters = { system: "S", developer: "S", user: "U", assistant: "A", tool: "T" };
  const byId = (id) => document.getElementById(id);
  const cells = byId("cells"), tip = byId("tip"), panel = byId("message");
  const places = new Map(rows.map((row, place) => [name(row), place]));
  let current = -1, opener = null;

  function isPrompt(row) { return row.role === "system" || row.role === "developer"; }
  function name(row) { return row.number !== null ? "m" + row.number : isPrompt(row) ? "system-prompt" : "handoff-before"; }
  function label(row) {
    if (row.number !== null) return "m" + row.number;
    return isPrompt(row) ? "System prompt" : row.fate === "removed" ? "A removed message" : "An earlier handoff";
  }
  function kind(row) {
    if (row.role === "tool") return row.tool ? "result of " + row.tool : "tool result";
    const who = isPrompt(row) ? "system prompt" : row.role;
    return row.tool ? who + ", calls " + row.tool : who;
  }
  function size(row) {
    const before = row.tokens.toLocaleString("en") + " tokens";
    return row.fate === "pruned" ? before + ", now " + row.after.toLocaleString("en") : before;
  }
  // Four shades by size; most messages are small, so the steps are.
  function weight(row) { return "w" + (row.tokens >= 1500 ? 3 : row.tokens >= 400 ? 2 : row.tokens >= 120 ? 1 : 0); }
  function opening(row) { return row.text.replace(/\s+/g, " ").slice(0, 110); }

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function draw() {
    cells.className = rows.length > 4000 ? "small" : rows.length > 700 ? "medium" : "";
    const fragment = document.createDocumentFragment();
    rows.forEach((row, place) => fragment.append(cellOf(row, place, place ? "-1" : "0")));
    cells.append(fragment);
  }

  function cellOf(row, place, tabindex) {
    const cell = element("button", { type: "button", class: ["cell", row.fate, row.role, weight(row)].join(" "), tabindex });
    cell.setAttribute("aria-label", [label(row), kind(row), size(row), words[row.fate]].join(", "));
    cell.dataset.place = place;
    const letter = row.number === null && !isPrompt(row) ? "H" : letters[row.role] || "?";
    cell.textContent = row.fate === "removed" ? "×" : letter;
    return cell;
  }

  // The messages of a leaf, drawn when it is opened.
  function drawCovered(node) {
    const covers = node.querySelector(":scope > .inside > .covers");
    if (!covers || covers.childElementCount) return;
    for (let number = Number(covers.dataset.first); number < Number(covers.dataset.last); number++) {
      const place = places.get("m" + number);
      if (place !== undefined) covers.append(cellOf(rows[place], place, "0"));
    }
  }

  function openNode(node) {
    for (let each = node; each; each = each.parentElement.closest("details")) each.open = true;
    drawCovered(node);
    node.scrollIntoView({ block: "start" });
  }

  function placeOf(target) {
    const cell = target.closest && target.closest(".cell");
    return cell ? Number(cell.dataset.place) : -1;
  }

  function showTip(place, box) {
    const row = rows[place];
    tip.replaceChildren(element("b", {}, label(row) + " · " + kind(row)), size(row) + " · " + words[row.fate],
      element("br", {}), opening(row));
    tip.hidden = false;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = Math.max(6, Math.min(innerWidth - width - 6, box.left + box.width / 2 - width / 2)) + "px";
    tip.style.top = (box.top > height + 12 ? box.top - height - 8 : box.bottom + 8) + "px";
  }

  function excerpt(title, text, left) {
    const shown = element("pre", {}, text || "(nothing to show)");
    const parts = [element("h3", {}, title), shown];
    if (left) parts.push(element("p", { class: "note" }, left.toLocaleString("en") + " more chars are not in this page."));
    return parts;
  }

  function linesAbout(row) {
    const links = [...document.querySelectorAll(`.handoff a[href="#${name(row)}"]`)];
    return [...new Set(links.map((link) => link.closest(".line")).filter(Boolean))];
  }

  function open(place, focus) {
    if (panel.hidden) opener = document.activeElement;
    const row = rows[place];
    mark(place);
    byId("message-title").textContent = label(row) + " · " + kind(row);
    byId("message-facts").textContent = size(row) + " · " + words[row.fate];
    const body = byId("message-body");
    body.replaceChildren();
    if (row.now !== undefined) body.append(...excerpt("Now", row.now, row.nowLeft));
    body.append(...excerpt(row.fate === "kept" ? "Message" : "The original", row.text, row.left));
    const lines = linesAbout(row);
    if (lines.length) body.append(element("h3", {}, "In the " + table.summary_name));
    for (const line of lines.slice(0, 12)) {
      const jump = element("button", { type: "button", class: "mention" }, line.textContent.replace(/\s+/g, " ").trim().slice(0, 220));
      jump.addEventListener("click", () => flash(line));
      body.append(jump);
    }
    byId("previous").disabled = place === 0;
    byId("next").disabled = place === rows.length - 1;
    panel.hidden = false;
    panel.scrollTop = 0;
    document.body.classList.add("reading");
    tip.hidden = true;
    if (focus) byId("message-title").focus({ preventScroll: true });
    if (location.hash !== "#" + name(row)) history.replaceState(null, "", "#" + name(row));
  }

  function mark(place) {
    if (current >= 0) cells.children[current].classList.remove("current");
    current = place;
    if (current >= 0) {
      cells.querySelectorAll('[tabindex="0"]').forEach((cell) => cell.setAttribute("tabindex", "-1"));
      cells.children[current].classList.add("current");
      cells.children[current].setAttribute("tabindex", "0");
      const top = cells.children[current].offsetTop - cells.offsetTop;
      if (top < cells.scrollTop || top > cells.scrollTop + cells.clientHeight - 30) cells.scrollTop = top - cells.clientHeight / 2;
    }
  }

  function close() {
    panel.hidden = true;
    document.body.classList.remove("reading");
    mark(-1);
    history.replaceState(null, "", location.pathname + location.search);
    if (opener && opener.focus) opener.focus({ preventScroll: true });
  }

  function flash(line) {
    if (innerWidth < 1120) close();
    for (let each = line.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
    line.classList.add("flash");
    line.scrollIntoView({ block: "center" });
    setTimeout(() => line.classList.remove("flash"), 2500);
  }

  function fromHash() {
    const place = places.get(decodeURIComponent(location.hash.slice(1)));
    if (place !== undefined) open(place, false);
    const node = place === undefined && location.hash.startsWith("#node-") ? byId(location.hash.slice(1)) : null;
    if (node) openNode(node);
  }

  cells.addEventListener("click", (event) => { const place = placeOf(event.target); if (place >= 0) open(place, true); });
  cells.addEventListener("pointerover", (event) => {
    const place = placeOf(event.target);
    if (place >= 0 && event.pointerType !== "touch") showTip(place, event.target.closest(".cell").getBoundingClientRect());
  });
  cells.addEventListener("pointerleave", () => { tip.hidden = true; });
  cells.addEventListener("focusin", (event) => {
    const place = placeOf(event.target);
    const asked = place >= 0 && panel.hidden && event.target.matches(":focus-visible");
    if (asked) showTip(place, event.target.getBoundingClientRect());
  });
  for (const node of document.querySelectorAll("details.node")) {
    node.addEventListener("toggle", () => { if (node.open) drawCovered(node); });
  }
  document.addEventListener("click", (event) => {
    const cell = event.target.closest && event.target.closest(".covers .cell");
    if (cell) open(Number(cell.dataset.place), true);
    const link = event.target.closest && event.target.closest(".depth-row a");
    if (!link) return;
    event.preventDefault();
    openNode(byId(link.getAttribute("href").slice(1)));
  });
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  cells.addEventListener("focusout", () => { tip.hidden = true; });
  cells.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const place = Math.max(0, Math.min(rows.length - 1, placeOf(event.target) + step));
    event.target.setAttribute("tabindex", "-1");
    cells.children[place].setAttribute("tabindex", "0");
    cells.children[place].focus();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a.ref");
    const place = link ? places.get(link.getAttribute("href").slice(1)) : undefined;
    if (place === undefined) return;
    event.preventDefault();
    open(place, true);
  });
  document.addEventListener("keydown", (event) => {
    if (panel.hidden) return;
    if (event.key === "Escape") close();
    const inside = panel.contains(document.activeElement);
    if (inside && event.key === "ArrowRight" && current < rows.length - 1) open(current + 1, false);
    if (inside && event.key === "ArrowLeft" && current > 0) open(current - 1, false);
  });
  byId("close").addEventListener("click", close);
  byId("previous").addEventListener("click", () => current > 0 && open(current - 1, false));
  byId("next").addEventListener("click", () => current < rows.length - 1 && open(current + 1, false));
  byId("legend").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const only = button.getAttribute("aria-pressed") === "true" ? null : button.dataset.fate;
    for (const each of byId("legend").querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.dataset.fate === only));
    if (only) cells.dataset.only = only; else delete cells.dataset.only;
  });
  addEventListener("hashchange", fromHash);
  draw();
  fromHash();
})();
