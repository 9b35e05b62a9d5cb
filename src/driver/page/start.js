// Where the page begins, and where its links lead.

const kSections = ['summary', 'graph', 'kernels', 'timeline', 'arena', 'comparison'];
const kFollowed = {
  hash: ''
};

function buildNavigation() {
  for (const id of kSections) {
    const section = byId(id);
    if (section.children.length < 2)
      section.remove();
    else
      byId('sections').append(el('a', {href: '#' + id}, section.querySelector('h2').textContent));
  }
}

/** Follows a link as a click would, at once. */
function go(id) {
  location.hash = id;
  follow();
}

function onHashChange() {
  if (location.hash !== kFollowed.hash) follow();
}

function follow() {
  kFollowed.hash = location.hash;
  const id = location.hash.slice(1);
  const kernel = kKernels.find((k) => k.id === id);
  if (kernel) return selectKernel(kernel, true);
  const node = kNodes.find((n) => n.id === id);
  if (node) return selectNode(node);
  const edge = kEdges.find((e) => e.id === id);
  if (edge) selectEdge(edge);
}

function onKey(event) {
  const typing = event.target instanceof HTMLInputElement;
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    '/': () => byId('search').focus(),
    j: () => stepInList(1),
    k: () => stepInList(-1),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function start() {
  const name = visible(kPage.model.split('/').pop() || kPage.model);
  byId('model').append(name);
  byId('model').title = visible(kPage.model);
  document.title = name + ' – weft explain';
  buildSummary();
  buildGraph();
  if (kNodes.length > 0) drawGraph();
  buildKernels();
  buildTimeline();
  buildArena();
  buildComparison();
  buildNavigation();
  buildSearch();
  addEventListener('hashchange', onHashChange);
  addEventListener('keydown', onKey);
  requestAnimationFrame(follow);  // after the browser went where the address says
}
