// Search by name: kernels, nodes, tensors, edges' reasons.

const kMostFound = 40;
const kSearch = {
  entries: null,
  found: [],
  at: 0
};

function searchEntries() {
  const entries = [];
  for (const k of kKernels)
    entries.push({kind: 'kernel ' + k.number, id: k.id, text: visible(k.name), kernel: k});
  for (const n of kNodes) {
    for (const name of n.names)
      entries.push({kind: 'node', id: n.id, text: visible(name), kernel: n.kernel});
    if (!n.names.includes(n.tensor))
      entries.push({kind: 'tensor', id: n.id, text: visible(n.tensor), kernel: n.kernel});
  }
  return entries.map((entry) => ({...entry, folded: entry.text.toLowerCase()}));
}

/**
 * All words in any order; names that begin or end with one stand in front. A number alone is a
 * kernel's.
 */
function findEntries(query) {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word);
  if (words.length === 0) return [];
  const rank = (e) =>
      (e.kind === 'kernel ' + query.trim()                                 ? 0 :
           words.some((w) => e.folded === w || e.folded.endsWith('/' + w)) ? 1 :
                                                                             2);
  return kSearch.entries
      .filter(
          (e) => e.kind === 'kernel ' + query.trim() || words.every((w) => e.folded.includes(w)))
      .map((e) => [rank(e), e])
      .sort((a, b) => a[0] - b[0])
      .map(([, e]) => e);
}

function marked(text, query) {
  const word = query.trim().split(/\s+/)[0].toLowerCase();
  const at = text.toLowerCase().indexOf(word);
  return at < 0 ? [text] : [
    text.slice(0, at), el('mark', {}, text.slice(at, at + word.length)),
    text.slice(at + word.length)
  ];
}

function foundItem(entry, at, query) {
  return el(
      'li', {
        id: 'found-' + at,
        role: 'option',
        'aria-selected': String(at === kSearch.at),
        onmousedown: (event) => {
          event.preventDefault();
          openFound(at);
        }
      },
      entry.kernel ?
          el('span', {class: 'chip', style: kernelStyle(entry.kernel)}, entry.kernel.number) :
          null,
      el('span', {class: 'what'}, marked(entry.text, query)),
      el('span', {class: 'kind'}, entry.kind));
}

function showFound() {
  const input = byId('search'), list = byId('found'), query = input.value;
  const open = query.trim() !== '';
  list.hidden = !open;
  input.setAttribute('aria-expanded', String(open));
  if (!open) return;
  const shown = kSearch.found.slice(0, kMostFound).map((entry, at) => foundItem(entry, at, query));
  const more = kSearch.found.length - shown.length;
  if (shown.length === 0) shown.push(el('li', {class: 'hint'}, 'Nothing has that name.'));
  if (more > 0) shown.push(el('li', {class: 'hint'}, `${countText(more)} more`));
  list.replaceChildren(...shown);
  input.setAttribute('aria-activedescendant', 'found-' + kSearch.at);
  const active = byId('found-' + kSearch.at);
  if (active) active.scrollIntoView({block: 'nearest'});
}

function search() {
  kSearch.entries = kSearch.entries || searchEntries();
  kSearch.found = findEntries(byId('search').value);
  kSearch.at = 0;
  showFound();
}

function openFound(at) {
  const entry = kSearch.found[at];
  if (!entry) return;
  closeSearch();
  go(entry.id);
}

function closeSearch() {
  byId('search').value = '';
  byId('search').blur();
  byId('found').hidden = true;
  byId('search').setAttribute('aria-expanded', 'false');
}

function moveFound(by) {
  const last = Math.min(kSearch.found.length, kMostFound) - 1;
  kSearch.at = Math.max(0, Math.min(last, kSearch.at + by));
  showFound();
}

function onSearchKey(event) {
  const keys = {
    ArrowDown: () => moveFound(1),
    ArrowUp: () => moveFound(-1),
    Enter: () => openFound(kSearch.at),
    Escape: closeSearch
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function buildSearch() {
  const input = byId('search');
  input.addEventListener('input', search);
  input.addEventListener('keydown', onSearchKey);
  input.addEventListener('blur', () => {
    byId('found').hidden = true;
  });
  input.addEventListener('focus', () => {
    if (input.value) search();
  });
}
