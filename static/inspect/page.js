"use strict";
// Pointing at a token shows its text, and the other way round. Arrow keys do the same: each panel
// is one stop of the tab key.
const told = document.getElementById("told");

const rangeOf = (element) => (element.dataset.t || "").split("-").map(Number);

function byToken(elements) {
  const found = new Map();
  for (const element of elements) {
    const [first, last] = rangeOf(element);
    for (let token = first; token <= last; token++) {
      if (found.has(token)) found.get(token).push(element);
      else found.set(token, [element]);
    }
  }
  return found;
}

function reveal(element, panel) {
  const box = element.getBoundingClientRect(), frame = panel.getBoundingClientRect();
  if (box.top < frame.top + 28 || box.bottom > frame.bottom) {
    panel.scrollTop += box.top - frame.top - frame.height / 2;
  }
}

for (const section of document.querySelectorAll("section")) {
  const sides = [...section.querySelectorAll(".scroll")].map((panel) => {
    const items = [...panel.querySelectorAll("[data-t]")];
    return { panel, items, tokens: byToken(items) };
  });
  let lit = [], pinned = null;

  function show(item, side) {
    for (const element of lit) element.classList.remove("on");
    lit = [];
    if (!item) return (told.textContent = "");
    const [first, last] = rangeOf(item);
    lit.push(item);
    for (const other of sides) {
      if (other === side) continue;
      const matches = new Set();
      for (let token = first; token <= last; token++) {
        for (const match of other.tokens.get(token) || []) matches.add(match);
      }
      lit.push(...matches);
      const [match] = matches;
      if (match) reveal(match, other.panel);
    }
    for (const element of lit) element.classList.add("on");
    const row = lit.find((element) => element.matches("tr"));
    told.textContent = row ? [...row.cells].map((cell) => cell.textContent).join("  ") : "";
  }

  for (const side of sides) {
    const { panel, items } = side;
    const itemAt = (target) => target.closest("[data-t]");
    panel.addEventListener("mouseover", (event) => show(itemAt(event.target) || pinned, side));
    panel.addEventListener("mouseleave", () => show(pinned, side));
    panel.addEventListener("focusin", (event) => {
      const item = itemAt(event.target);
      if (!item) return;
      for (const one of items) if (one.tabIndex === 0) one.tabIndex = -1;
      item.tabIndex = 0;
      pinned = item;
      show(item, side);
    });
    panel.addEventListener("focusout", () => { pinned = null; show(null, side); });
    panel.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const from = items.indexOf(itemAt(event.target));
      let to = from + (step || 0);
      if (event.key === "Home") to = 0;
      else if (event.key === "End") to = items.length - 1;
      else if (!step) return;
      event.preventDefault();
      if (items[to]) { items[to].focus({ preventScroll: true }); reveal(items[to], panel); }
    });
    if (items.length) {
      panel.tabIndex = -1;
      items[0].tabIndex = 0;
    }
  }
}
