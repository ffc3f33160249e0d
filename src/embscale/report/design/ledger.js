// Claims can be filtered by verdict and by words, and sorted by column.  Without scripts their tables are complete.
// A dollar sign would be one of pandoc's templates, which this is a part of.
for (const ledger of document.querySelectorAll(".ledger")) {
  const table = ledger.querySelector("table"), tallies = ledger.querySelector("ul");
  if (!table) continue;
  const body = table.tBodies[0], inOrder = [...body.rows];
  const status = document.createElement("p"), search = document.createElement("input");
  let verdict = null;

  function filter() {
    const words = search.value.trim().toLowerCase();
    for (const row of inOrder) {
      const fits = !verdict || [...row.cells].some((cell) => cell.dataset.verdict === verdict);
      row.hidden = !(fits && row.textContent.toLowerCase().includes(words));
    }
    const shown = inOrder.filter((row) => !row.hidden).length;
    status.textContent = shown + " of " + inOrder.length + " claims shown";
  }

  for (const tally of tallies ? tallies.querySelectorAll("li:has(strong)") : []) {
    const button = document.createElement("button"), word = tally.querySelector("strong").textContent;
    button.append(...tally.childNodes);
    button.dataset.verdict = word;
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      verdict = verdict === word ? null : word;
      for (const other of tallies.querySelectorAll("button")) {
        other.setAttribute("aria-pressed", String(other.dataset.verdict === verdict));
      }
      filter();
    });
    tally.append(button);
  }

  // A number at the start of a cell counts as such; other cells are compared as words, with C2 before C10.
  function key(row, place) {
    const text = row.cells[place].textContent.trim(), number = parseFloat(text.replace("−", "-"));
    return { text, number: Number.isNaN(number) ? -Infinity : number };
  }
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = inOrder.map((row) => [row, key(row, place)]);
      rows.sort(([, a], [, b]) => (a.number !== b.number ? a.number - b.number
        : a.text.localeCompare(b.text, "en", { numeric: true })) * (down ? -1 : 1));
      body.append(...rows.map(([row]) => row));
    });
  });

  search.type = "search";
  search.placeholder = "Find a claim";
  search.setAttribute("aria-label", "Find a claim");
  search.addEventListener("input", filter);
  status.setAttribute("role", "status");
  const bar = document.createElement("div");
  bar.className = "ledger-bar";
  bar.append(search, status);
  (tallies ?? ledger.firstElementChild).after(bar);
  filter();
}
