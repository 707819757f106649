
"use strict";
const root = document.documentElement;
const KEY = "promptmill-theme";
// A file's page may be refused storage: the choice then lasts until the page is left.
try {
  const kept = localStorage.getItem(KEY);
  if (kept) root.dataset.theme = kept;
} catch {}
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem(KEY, root.dataset.theme);
  } catch {}
});
const copy = document.getElementById("copy");
copy?.addEventListener("click", async () => {
  const command = document.getElementById("command");
  try {
    await navigator.clipboard.writeText(command.textContent);
    copy.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(command);
    copy.textContent = "Selected";
  }
});
