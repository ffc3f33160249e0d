// Marks in the table of contents where the reader is.  The page works without it.
const here = [...document.querySelectorAll(".contents a")].filter((entry) => entry.pathname === location.pathname);
const entries = here.filter((entry) => entry.hash);
const targets = entries.map((entry) => document.getElementById(entry.hash.slice(1)));
const list = document.querySelector(".contents details");
let asked = false;

function mark() {
  asked = false;
  const line = innerHeight / 4;
  const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
  const passed = targets.filter((target) => target.getBoundingClientRect().top <= line).length;
  const current = atEnd ? entries.length - 1 : Math.max(passed - 1, 0);
  entries.forEach((entry, index) => {
    if (index === current) entry.setAttribute("aria-current", "true"); else entry.removeAttribute("aria-current");
  });
  // Only the list itself is scrolled, never the page.
  const entry = entries[current];
  if (list.scrollHeight > list.clientHeight) list.scrollTop = entry.offsetTop - list.offsetTop - list.clientHeight / 2;
}

function askForMark() {
  if (!asked) requestAnimationFrame(mark);
  asked = true;
}

here.filter((entry) => !entry.hash).forEach((entry) => entry.setAttribute("aria-current", "page"));
if (entries.length) {
  for (const event of ["scroll", "resize"]) addEventListener(event, askForMark, { passive: true });
  mark();
}
