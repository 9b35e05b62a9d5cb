// What was decided about an edge, why, and what would change it.

function edgeLabel(edge) {
  return `${visible(edge.from)} → ${visible(edge.to)}`;
}

/** What a reason calls for, by its words. The first that fits counts. */
const kRemedies = [
  [
    /reduction, not \d+/,
    'A kernel of several stages that hand each other values on chip may hold more reductions: --compositions leaf,block.'
  ],
  [
    /opaque step/,
    'Sorts, scatters, loops and branches are steps of their own, which nothing is fused with.'
  ],
  [
    /another kernel lies between/,
    'Both could only meet if what lies between them joined the same kernel.'
  ],
  [
    /again for each of its outputs/,
    'The value would be computed many times over. It is worth that only where it is cheap; else it must be stored, or handed over on chip: --compositions leaf,block.'
  ],
  [
    /not element by element/,
    'The reader needs elements that another part of the kernel makes. Stages that hand each other values on chip allow that: --compositions leaf,block.'
  ],
  [
    /no tile of .* holds/,
    'Fewer columns, or a target with more memory on chip, would let one tile hold them.'
  ],
  [
    /lacks rows, columns or depth|no product of two matrices/,
    'As a product of two matrices it would fit the template.'
  ],
  [
    /does not have$|lacks an axis|reduces over other axes|does not reduce/,
    'Both run along different axes. Stages that hand each other values on chip need not share them: --compositions leaf,block.'
  ],
  [
    /length that the model leaves open|leaves open/,
    'With that dimension bound (--bind), its length is known.'
  ],
];

function remedies(edge) {
  if (edge.verdict === 'fused') {
    return ['It stays fused as long as the kernel is predicted to take less than its parts.'];
  }
  if (edge.verdict === 'unprofitable') {
    return [
      'It was allowed, but predicted to cost more. Other sizes, another --target, or a target measured here (weft calibrate) may tip it.'
    ];
  }
  const found = kRemedies.find(([words]) => words.test(edge.reason));
  return found ? [found[1]] : ['The model would have to compute it otherwise.'];
}

function asCommand(...words) {
  return el('pre', {class: 'command'}, words.join(' '));
}

function trial(edge) {
  if (edge.verdict === 'illegal') return null;
  return [
    el('p', {}, 'To try the other way, edit the plan and measure it:'),
    asCommand(
        'weft dump MODEL --stage plan > m.plan\nweft explain MODEL --plan m.plan --html m.html --measure')
  ];
}

function endLine(label, node) {
  if (!node) return null;
  return el(
      'div', {}, el('dt', {}, label),
      el('dd', {}, node.kernel ? [kernelChip(node.kernel), ' '] : null,
         el('a', {href: '#' + node.id}, visible(node.names.join(', ')))));
}

function edgeDetail(edge) {
  return [
    el('h3', {id: edge.id}, el('span', {class: 'verdict ' + edge.verdict}, edge.verdict), ' ',
       visible(edge.tensor || '')),
    edge.reason ? el('p', {class: 'reason'}, visible(edge.reason)) : null,
    el('dl', {class: 'ends'}, endLine('made by', edge.producer), endLine('read by', edge.consumer),
       el('div', {}, el('dt', {}, 'value'), el('dd', {}, bytesText(edge.bytes || 0)))),
    el('h4', {}, 'What would change it'),
    remedies(edge).map((text) => el('p', {}, text)),
    trial(edge),
  ].flat(Infinity)
      .filter((part) => part !== null);
}

function edgeItem(edge, other) {
  return el(
      'li', {},
      el('a', {href: '#' + edge.id}, el('span', {class: 'verdict ' + edge.verdict}, edge.verdict)),
      ' ', other ? visible(other.names[other.names.length - 1]) : '', ' ',
      el('small', {}, bytesText(edge.bytes || 0)));
}

function edgeList(title, edges, other) {
  return edges.length === 0 ?
      [] :
      [el('h4', {}, title), el('ul', {class: 'edges'}, edges.map((e) => edgeItem(e, other(e))))];
}

function nodeDetail(node) {
  return [
    el('h3', {}, node.kernel ? [kernelChip(node.kernel), ' '] : null,
       visible(node.names[node.names.length - 1])),
    node.names.length > 1 ?
        el('p', {class: 'path'}, 'with ', visible(node.names.slice(0, -1).join(', '))) :
        null,
    el('p', {}, 'makes ', el('code', {}, visible(node.tensor)),
       node.kernel ? null : ', a step of its own'),
    ...edgeList('Reads', node.reads, (e) => e.producer),
    ...edgeList('Read by', node.readBy, (e) => e.consumer),
  ].filter((part) => part !== null);
}
