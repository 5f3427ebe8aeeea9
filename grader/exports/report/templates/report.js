"use strict";
// Sorting and searching the table of students; without this, the whole table is there, in the order of ids.
(function () {
  const table = document.getElementById("students");
  const body = table.tBodies[0];
  const find = document.getElementById("find");
  const show = document.getElementById("show");
  const section = document.getElementById("section");
  const found = document.getElementById("found");
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  // Read once: reading the page for every comparison makes large tables slow.
  // Python folded the searchable text; here the typed text gets the same plain letters.
  const letters = { ł: "l", ø: "o", đ: "d", ð: "d", þ: "th", ß: "ss", æ: "ae", œ: "oe", ı: "i" };
  const plain = (text) =>
    text
      .toLowerCase()
      .replace(/[łøđðþßæœı]/g, (letter) => letters[letter])
      .normalize("NFKD")
      .replace(/\p{M}/gu, "");
  const rows = Array.from(body.rows, (row, place) => ({
    row,
    place,
    text: row.dataset.sought,
    sections: JSON.parse(row.dataset.sections),
    tags: row.dataset.tags.trim().split(/\s+/),
  }));

  function search() {
    const words = plain(find.value).split(/\s+/).filter(Boolean);
    let count = 0;
    for (const each of rows) {
      const fits =
        words.every((word) => each.text.includes(word)) &&
        (!show.value || each.tags.includes(show.value)) &&
        (!section?.value || each.sections.includes(section.value));
      each.row.hidden = !fits;
      count += fits;
    }
    found.textContent = count + " of " + rows.length + " students";
  }

  function sort(header, column) {
    const number = header.dataset.kind === "number";
    const before = header.getAttribute("aria-sort");
    // The first click on points puts the highest first, and on a name, the first of the alphabet.
    const first = number ? "descending" : "ascending";
    const other = number ? "ascending" : "descending";
    const order = before === first ? other : first;
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const keys = new Map(
      rows.map(({ row }) => {
        const cell = row.cells[column];
        return [row, number ? Number(cell.dataset.value) : cell.textContent.trim()];
      }),
    );
    const compare = number ? (a, b) => a - b : collator.compare;
    rows.sort((a, b) => sign * compare(keys.get(a.row), keys.get(b.row)) || a.place - b.place);
    body.append(...rows.map(({ row }) => row));
  }

  Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    button.addEventListener("click", () => sort(header, column));
    header.replaceChildren(button);
  });
  // For a long course, the table shows the chapters, or the exercises of the chosen one.
  const columns = document.getElementById("columns");
  if (columns) {
    const cells = Array.from(table.querySelectorAll("[data-column]"));
    columns.addEventListener("change", () => {
      for (const cell of cells) cell.hidden = cell.dataset.column !== columns.value;
    });
  }
  find.addEventListener("input", search);
  show.addEventListener("change", search);
  section?.addEventListener("change", search);
  document.getElementById("controls").hidden = false;
  search();
})();
