"use strict";
// The differences of two texts, line by line, for the versions of a student's file.
(function () {
  // Above this many pairs of lines, the middle is shown as removed and added as a whole: a larger table is slow.
  const MAX_PAIRS = 4_000_000;
  // Equal lines that are shown around a change.
  const AROUND = 3;

  // [kind, line] in order, where kind is " ", "-" for a line only in `before`, or "+" for a line only in `after`.
  function linesOf(before, after) {
    const [a, b] = [before.split("\n"), after.split("\n")];
    let [begin, aEnd, bEnd] = [0, a.length, b.length];
    while (begin < aEnd && begin < bEnd && a[begin] === b[begin]) begin++;
    while (begin < aEnd && begin < bEnd && a[aEnd - 1] === b[bEnd - 1]) [aEnd, bEnd] = [aEnd - 1, bEnd - 1];
    const same = (line) => [" ", line];
    return [
      ...a.slice(0, begin).map(same),
      ...middleOf(a.slice(begin, aEnd), b.slice(begin, bEnd)),
      ...a.slice(aEnd).map(same),
    ];
  }

  // By the longest common subsequence: longest[i][j] is its length for a from i on and b from j on.
  function middleOf(a, b) {
    const found = [];
    let [i, j] = [0, 0];
    if (a.length * b.length <= MAX_PAIRS) {
      const longest = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
      for (let i = a.length - 1; i >= 0; i--) {
        for (let j = b.length - 1; j >= 0; j--) {
          longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
        }
      }
      while (i < a.length && j < b.length) {
        if (a[i] === b[j]) {
          found.push([" ", a[i++]]);
          j++;
        } else if (longest[i + 1][j] >= longest[i][j + 1]) found.push(["-", a[i++]]);
        else found.push(["+", b[j++]]);
      }
    }
    while (i < a.length) found.push(["-", a[i++]]);
    while (j < b.length) found.push(["+", b[j++]]);
    return found;
  }

  // The lines as elements; changed lines say so in words, too, for people who do not see colors.
  function shown(lines) {
    const list = document.createElement("div");
    const changed = lines.map(([kind]) => kind !== " ");
    const isNear = (at) => changed.slice(Math.max(at - AROUND, 0), at + AROUND + 1).includes(true);
    const [tags, words] = [{ "+": "ins", "-": "del", " ": "div" }, { "+": "added: ", "-": "removed: " }];
    let left = 0;
    const tellLeft = () => {
      if (!left) return;
      const line = document.createElement("div");
      line.className = "muted";
      line.textContent = left === 1 ? "1 equal line" : left + " equal lines";
      list.append(line);
      left = 0;
    };
    lines.forEach(([kind, text], at) => {
      if (!isNear(at)) {
        left++;
        return;
      }
      tellLeft();
      const line = document.createElement(tags[kind]);
      if (words[kind]) {
        const [word, sign] = [document.createElement("span"), document.createElement("span")];
        [word.className, word.textContent, sign.textContent] = ["aside", words[kind], kind === "+" ? "+ " : "− "];
        sign.setAttribute("aria-hidden", "true");
        line.append(word, sign, text);
      } else line.textContent = "  " + text;
      list.append(line);
    });
    tellLeft();
    return list.childNodes;
  }

  window.changes = { linesOf, shown };
})();
