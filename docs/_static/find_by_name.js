/* Search names first: headings, terms of "Where is it?" and names of the API. The order of the words
 * does not matter, and "softmax gradient" finds "Backward of Softmax". The results of Sphinx's own
 * search, which finds words anywhere on a page, follow.
 */
"use strict";

const FILLERS = new Set(
  "a an and are do does for find how i in is of on the to what where which with".split(" "),
);
const SYNONYMS = {
  backprop: "backward", derivative: "backward", grad: "backward", gradient: "backward",
  vjp: "backward",
};

/* The words of a query or a name: "W_q" is one word, "LayerNorm" and "x @ y" are several. */
const wordsOf = (text) => {
  const words = text
    .replace(/([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])/g, "$1$3 $2$4")
    .toLowerCase()
    .replace(/[-_'’]/g, "")
    .split(/[^\p{Letter}\p{Number}@*/+]+/u)
    .filter((word) => word)
    .map((word) => (word.length > 3 ? word.replace(/([^s])s$/, "$1") : word))
    .map((word) => (Object.hasOwn(SYNONYMS, word) ? SYNONYMS[word] : word));
  const telling = words.filter((word) => !FILLERS.has(word));
  return telling.length ? telling : words;
};

/* Fraction of a name that a query covers; 0 if the name lacks a word of the query. */
const covered = (query, name) => {
  const words = wordsOf(name);
  const joined = words.join("");
  const has = (word) => (word.length < 3 ? words.includes(word) : joined.includes(word));
  return query.every(has) ? Math.min(1, query.join("").length / joined.length) : 0;
};

/* Yield [names, result in Sphinx's format, advantage in a tie] for everything that has a name. In a
 * tie, the API comes before "Where is it?", and both before the headings of other pages.
 */
function* named(index) {
  const at = (file) => [index.docnames[file], index.titles[file], index.filenames[file]];
  for (const [title, places] of Object.entries(index.alltitles))
    for (const [file, id] of places) {
      const [doc, page, filename] = at(file);
      const shown = page === title ? title : `${page} > ${title}`;
      yield [[title], [doc, shown, id ? `#${id}` : "", null, 0, filename, "title"], rank(doc)];
    }
  for (const [term, places] of Object.entries(index.indexentries))
    for (const [file, id, isMain] of places) {
      const [doc, page, filename] = at(file);
      const result = [doc, `${page} > ${term}`, `#${id}`, null, 0, filename, "index"];
      if (isMain) yield [[term], result, rank(doc)];
    }
  for (const [prefix, members] of Object.entries(index.objects))
    for (const [file, kind, , anchor, last] of members) {
      const [doc, page, filename] = at(file);
      const name = prefix ? `${prefix}.${last}` : last;
      const [, role, label] = index.objnames[kind];
      const id = { "": name, "-": `${role}-${name}` }[anchor] ?? anchor;
      const names = [last, name.split(".").slice(-2).join(" ")];
      yield [names, [doc, name, `#${id}`, `${label}, in ${page}`, 0, filename, "object"], RANKS[role] ?? 4];
    }
}

const RANKS = { module: 3.5, method: 2.5 };
const rank = (doc) => (doc.startsWith("api/") ? 3 : doc === "where_is_it" ? 2 : 1);

/* Return the results by name without duplicates, the best last, which is also Sphinx's order. */
const findByName = (query) => {
  const words = wordsOf(query);
  const plain = query.trim();
  const found = new Map();
  if (!words.length) return [];
  for (const [names, result, advantage] of named(Search._index)) {
    const share = Math.max(...names.map((name) => covered(words, name)));
    if (share < 1 / 3) continue;
    const isName = result[6] === "object" && names[0].toLowerCase() === plain.toLowerCase();
    const isExact = isName && names[0] === plain;
    result[4] = 1000 * share + advantage + (isName ? 500 : 0) + (isExact ? 1 : 0);
    const place = result[0] + result[2];
    if (!(found.get(place)?.[4] >= result[4])) found.set(place, result);
  }
  return [...found.values()].sort((a, b) => a[4] - b[4] || (a[1] < b[1] ? 1 : -1));
};

document.addEventListener("DOMContentLoaded", () => {
  const fullText = Search._performSearch;
  Search._performSearch = (query, ...terms) => {
    const byName = findByName(query);
    const places = new Set(byName.map((result) => result[0] + result[2]));
    const others = fullText(query, ...terms).filter((item) => !places.has(item[0] + item[2]));
    return [...others, ...byName];
  };
});
