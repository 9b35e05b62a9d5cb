// The list of kernels, by cost, and the one that is selected.

const kColumns = [
  {key: 'number', title: '#', value: (k) => k.index, numeric: true},
  {key: 'what', title: 'What', value: (k) => kernelTitle(k).names.join(' ')},
  {key: 'template', title: 'Template', value: (k) => k.template || ''},
  {key: 'us', title: 'Predicted', value: (k) => k.us, numeric: true, falling: true},
  {
    key: 'measured',
    title: 'Measured',
    value: (k) => k.measuredUs || 0,
    numeric: true,
    falling: true
  },
  {key: 'bytes', title: 'Bytes', value: (k) => k.bytes, numeric: true, falling: true},
  {key: 'roofline', title: 'Roofline', value: (k) => rooflineShare(k, bestTime(k)), numeric: true},
];
const kListed = {
  column: 'us',
  falling: true,
  selected: null,
  order: []
};
/** Rows that are there at once. The others follow when the page has been drawn. */
const kFirstRows = 150;

function bestTime(kernel) {
  return kernel.measuredUs === null ? kernel.us : kernel.measuredUs;
}

/** What the list is about: the best known time. */
function costColumn() {
  return kMeasured ? 'measured' : 'us';
}

function shownColumns() {
  return kColumns.filter((c) => c.key !== 'measured' || kMeasured);
}

function costliest() {
  return kKernels.reduce((most, k) => Math.max(most, bestTime(k)), 0) || 1;
}

function titleCell(kernel) {
  const {prefix, names} = kernelTitle(kernel);
  const shown =
      names.slice(0, 6).join(' · ') + (names.length > 6 ? ` · ${names.length - 6} more` : '');
  return [el('span', {class: 'ops'}, shown), prefix ? el('span', {class: 'path'}, prefix) : null];
}

function kernelRow(kernel, most) {
  const share = bestTime(kernel) / most;
  const cells = {
    number: kernelChip(kernel),
    what: titleCell(kernel),
    template:
        [visible(kernel.template || ''), kernel.times > 1 ? ` ×${countText(kernel.times)}` : ''],
    us: timeText(kernel.us),
    measured: kernel.measuredUs === null ? '–' : timeText(kernel.measuredUs),
    bytes: bytesText(kernel.bytes),
    roofline: meter(
        rooflineShare(kernel, bestTime(kernel)),
        percentText(rooflineShare(kernel, bestTime(kernel))) + ' of the roofline'),
  };
  return el(
      'tr', {
        id: kernel.id,
        style: {...kernelStyle(kernel), '--share': (100 * share).toFixed(2) + '%'},
        onclick: () => go(kernel.id)
      },
      shownColumns().map(
          (c) =>
              el('td', {
                class: c.key + (c.key === costColumn() ? ' cost' : ''),
                title: c.key === 'what' ? visible((kernel.ops || []).join(', ')) : null
              },
                 cells[c.key])));
}

function sortedKernels() {
  const column = kColumns.find((c) => c.key === kListed.column);
  const sign = kListed.falling ? -1 : 1;
  return [...kKernels].sort((a, b) => {
    const x = column.value(a), y = column.value(b);
    return (x < y ? -sign : x > y ? sign : 0) || a.index - b.index;
  });
}

/** The next rows of the list; all that it lacks, if no count is given. */
function addKernelRows(count = Infinity) {
  const rows = byId('kernel-rows'), at = rows.children.length, most = costliest();
  if (at === kListed.order.length) return;
  rows.append(...kListed.order.slice(at, at + count).map((k) => kernelRow(k, most)));
  markSelectedRow();
}

function fillKernelList() {
  kListed.order = sortedKernels();
  byId('kernel-rows').replaceChildren();
  addKernelRows(kFirstRows);
  requestAnimationFrame(() => setTimeout(addKernelRows));
  for (const head of document.querySelectorAll('#kernel-list th')) {
    const sorted = head.dataset.key === kListed.column;
    head.setAttribute('aria-sort', !sorted ? 'none' : kListed.falling ? 'descending' : 'ascending');
  }
  markSelectedRow();
}

function sortBy(column) {
  kListed.falling = kListed.column === column.key ? !kListed.falling : Boolean(column.falling);
  kListed.column = column.key;
  fillKernelList();
}

function markSelectedRow() {
  for (const row of document.querySelectorAll('#kernel-rows tr.selected'))
    row.classList.remove('selected');
  const row = kListed.selected && byId(kListed.selected.id);
  if (row) row.classList.add('selected');
}

/** The kernel above or below the selected one in the list. */
function stepInList(by) {
  const order = kListed.order;
  const at = order.indexOf(kListed.selected);
  const next = order[Math.max(0, Math.min(order.length - 1, at + by))];
  if (next) go(next.id);
}

function selectKernel(kernel, scroll) {
  kListed.selected = kernel;
  markSelectedRow();
  byId('kernel-detail').replaceChildren(...kernelDetail(kernel));
  if (!scroll) return;
  addKernelRows();
  const row = byId(kernel.id), box = byId('kernel-list');
  byId('kernels').scrollIntoView();
  box.scrollTop = row.offsetTop - box.clientHeight / 3;
}

function buildKernels() {
  kListed.column = costColumn();
  const head = shownColumns().map(
      (c) =>
          el('th', {'data-key': c.key, class: c.key, scope: 'col'},
             el('button', {type: 'button', onclick: () => sortBy(c)}, c.title)));
  byId('kernels').append(
      el('p', {class: 'hint'}, 'The costliest first; a column’s title sorts by it. ',
         el('kbd', {}, 'j'), ' and ', el('kbd', {}, 'k'), ' go down and up.'),
      el('div', {class: 'split kernels'},
         el('div', {id: 'kernel-list', class: 'box', tabindex: '0'},
            el('table', {}, el('thead', {}, el('tr', {}, head)), el('tbody', {id: 'kernel-rows'}))),
         el('div', {id: 'kernel-detail', class: 'box detail'})));
  fillKernelList();
  addEventListener('beforeprint', () => addKernelRows());
  const first = kListed.order[0];
  if (first) selectKernel(first, false);
}
