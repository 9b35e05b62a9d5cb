// The graph: a row a node in the order of the run, values as lines from who makes them to who reads
// them. Only the rows in sight are elements.

const kRow = 24, kSpare = 400;
const kGraph = {
  lanes: [],
  spacing: 14,
  width: 0,
  selectedNode: null,
  selectedEdge: null,
  waiting: false
};

/** A lane for each node's value, free again behind its last reader. */
function assignLanes() {
  const lastUse = kNodes.map(
      (node) => node.readBy.reduce(
          (last, e) => Math.max(last, e.consumer ? e.consumer.index : -1), node.index));
  const busyUntil = [];
  for (const node of kNodes) {
    const preferred =
        node.reads.map((e) => e.producer)
            .filter((p) => p && p.index < node.index && lastUse[p.index] === node.index);
    const inherited = preferred.map((p) => kGraph.lanes[p.index]).sort((a, b) => a - b)[0];
    let lane = inherited;
    if (lane === undefined) {
      lane = busyUntil.findIndex((until) => until < node.index);
      if (lane < 0) lane = busyUntil.length;
    }
    kGraph.lanes[node.index] = lane;
    busyUntil[lane] = lastUse[node.index];
  }
  kGraph.spacing = Math.max(3, Math.min(14, 420 / Math.max(1, busyUntil.length)));
  kGraph.width = Math.ceil(20 + busyUntil.length * kGraph.spacing);
}

const laneX = (node) => 12 + kGraph.lanes[node.index] * kGraph.spacing;
const rowY = (node) => node.index * kRow + kRow / 2;

/** Down the producer's lane, and over to the consumer in its last row. */
function edgePath(edge) {
  const x0 = laneX(edge.producer), y0 = rowY(edge.producer), x1 = laneX(edge.consumer),
        y1 = rowY(edge.consumer);
  if (x0 === x1) return `M${x0},${y0}V${y1}`;
  const turn = y1 > y0 ? y1 - kRow : y1 + kRow;
  return `M${x0},${y0}V${turn}C${x0},${(turn + y1) / 2} ${x1},${(turn + y1) / 2} ${x1},${y1}`;
}

function edgeElement(edge) {
  const path = edgePath(edge);
  const label = `${edgeLabel(edge)}: ${edge.verdict}`;
  const selected = kGraph.selectedEdge === edge ? ' selected' : '';
  return svg(
      'g', {
        class: `edge ${edge.verdict}${selected}`,
        style: kernelStyle(edge.producer.kernel),
        onclick: () => go(edge.id)
      },
      svg('title', {}, label), svg('path', {class: 'reach', d: path}),
      svg('path', {class: 'stroke', d: path}));
}

function nodeRow(node) {
  const previous = kNodes[node.index - 1];
  const begins = !previous || previous.kernel !== node.kernel;
  const {prefix, name} = nodeTitle(node);
  const selected = kGraph.selectedNode === node ? ' selected' : '';
  return el(
      'div', {
        id: node.id,
        class: 'row' + (begins ? ' begins' : '') + selected,
        style: {
          ...kernelStyle(node.kernel),
          top: node.index * kRow + 'px',
          'padding-left': kGraph.width + 'px'
        },
        onclick: () => go(node.id)
      },
      begins && node.kernel ? kernelChip(node.kernel) : el('span', {class: 'chip blank'}),
      el('span', {class: 'name', style: {'margin-left': node.depth * 1.2 + 'rem'}}, name),
      el('span', {class: 'path'}, prefix));
}

function nodeDot(node) {
  return svg('circle', {
    class: 'dot',
    cx: laneX(node),
    cy: rowY(node),
    r: Math.min(5, kGraph.spacing / 2 + 1),
    style: kernelStyle(node.kernel)
  });
}

function spans(edge, first, last) {
  if (!edge.producer || !edge.consumer) return false;
  const from = Math.min(edge.producer.index, edge.consumer.index),
        to = Math.max(edge.producer.index, edge.consumer.index);
  return to >= first && from <= last;
}

function drawGraph() {
  const box = byId('graph-box');
  const first = Math.max(0, Math.floor((box.scrollTop - kSpare) / kRow));
  const last =
      Math.min(kNodes.length - 1, Math.ceil((box.scrollTop + box.clientHeight + kSpare) / kRow));
  const nodes = kNodes.slice(first, last + 1);
  const edges = kEdges.filter((e) => spans(e, first, last));
  edges.sort((a, b) => (a === kGraph.selectedEdge) - (b === kGraph.selectedEdge));
  byId('graph-lines').replaceChildren(...edges.map(edgeElement), ...nodes.map(nodeDot));
  byId('graph-rows').replaceChildren(...nodes.map(nodeRow));
}

function drawSoon() {
  if (kGraph.waiting) return;
  kGraph.waiting = true;
  requestAnimationFrame(() => {
    kGraph.waiting = false;
    drawGraph();
  });
}

/** Rows in sight stay where they are. */
function showRow(node) {
  const box = byId('graph-box');
  byId('graph').scrollIntoView();
  const at = node.index * kRow - box.scrollTop;
  if (at < kRow || at > box.clientHeight - 2 * kRow)
    box.scrollTop = node.index * kRow - box.clientHeight / 3;
  drawGraph();
}

function selectNode(node) {
  kGraph.selectedNode = node;
  kGraph.selectedEdge = null;
  byId('graph-detail').replaceChildren(...nodeDetail(node));
  showRow(node);
}

function selectEdge(edge) {
  kGraph.selectedNode = null;
  kGraph.selectedEdge = edge;
  byId('graph-detail').replaceChildren(...edgeDetail(edge));
  showRow(edge.consumer || edge.producer);
}

function verdictCounts() {
  const counts = new Map();
  for (const edge of kEdges) counts.set(edge.verdict, (counts.get(edge.verdict) || 0) + 1);
  return [...counts].map(
      ([verdict, count]) =>
          el('span', {class: 'verdict ' + verdict}, `${countText(count)} ${verdict}`));
}

function buildGraph() {
  if (kNodes.length === 0) return;
  assignLanes();
  const height = kNodes.length * kRow;
  const lines = svg('svg', {id: 'graph-lines', width: kGraph.width, height, 'aria-hidden': 'true'});
  byId('graph').append(
      el('p', {class: 'hint'},
         'Nodes as they run, in the colours of their kernels. Lines are values: click one for its verdict. ',
         verdictCounts()),
      el('div', {class: 'split graph'},
         el('div', {id: 'graph-box', class: 'box', tabindex: '0', onscroll: drawSoon},
            el('div', {class: 'canvas', style: {height: height + 'px'}},
               el('div', {id: 'graph-rows'}), lines)),
         el('div', {id: 'graph-detail', class: 'box detail'},
            el('p', {class: 'hint'}, 'Nothing is selected yet.'))));
  addEventListener('resize', drawSoon);
}
