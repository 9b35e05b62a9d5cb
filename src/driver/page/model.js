// The page's data, with what refers to each other linked.

const kPage = JSON.parse(byId('data').textContent);
const kPlan = kPage.plan;
const kKernels = (kPlan.kernels || []).map(linkedKernel);
const kNodes = (kPlan.nodes || []).map(linkedNode);
const kEdges = (kPlan.edges || []).map(linkedEdge);
const kMeasured = matchMeasured();

function linkedKernel(kernel, index) {
  const number = kernel.number || String(index + 1);
  const texts = (kPage.kernel_texts || [])[index] || {};
  const times = kernel.times || 1;
  return {
    ...kernel,
    index,
    number,
    times,
    id: 'kernel-' + number,
    nodes: [],
    measuredUs: null,
    us: (kernel.predicted_us || 0) * times,
    rooflineUs: (kernel.roofline_us || 0) * times,
    bytes: ((kernel.bytes_read || 0) + (kernel.bytes_written || 0)) * times,
    texts: {
      tile: textAt(texts.tile),
      kernel: textAt(texts.kernel),
      code: textAt(texts.code),
      buffers: texts.buffers || [],
    },
  };
}

function textAt(index) {
  return index === null || index === undefined ? '' : kPage.texts[index];
}

function linkedNode(node, index) {
  const kernel = node.kernel === null ? null : kKernels[node.kernel];
  const linked = {...node, index, id: 'node-' + (index + 1), kernel, reads: [], readBy: []};
  if (kernel) kernel.nodes.push(linked);
  return linked;
}

function linkedEdge(edge, index) {
  const linked = {
    ...edge,
    index,
    id: 'edge-' + (index + 1),
    producer: kNodes[edge.producer],
    consumer: kNodes[edge.consumer]
  };
  if (linked.producer) linked.producer.readBy.push(linked);
  if (linked.consumer) linked.consumer.reads.push(linked);
  return linked;
}

/** Steps of a run find their kernels by name; of equal names, in the order in which they run. */
function matchMeasured() {
  if (!kPage.measured) return null;
  const waiting = new Map();
  for (const kernel of kKernels) {
    if (!waiting.has(kernel.name)) waiting.set(kernel.name, []);
    waiting.get(kernel.name).push(kernel);
  }
  const steps = kPage.measured.steps.map(([name, depth, us]) => {
    const kernel = (waiting.get(name) || []).shift() || null;
    if (kernel) kernel.measuredUs = us;
    return {name, depth, us, kernel};
  });
  return {runUs: kPage.measured.run_us, steps};
}

/** What a kernel is called on the page: its operators, without the path that they share. */
function kernelTitle(kernel) {
  const {prefix, rest} =
      splitPaths(kernel.ops && kernel.ops.length > 0 ? kernel.ops : [kernel.name]);
  return {prefix: visible(prefix), names: rest.map(visible)};
}

function nodeTitle(node) {
  const {prefix, rest} = splitPaths(node.names);
  return {prefix: visible(prefix), name: rest.map(visible).join(', ')};
}

/** Its hue: neighbours in the order of the run differ. */
function hueOf(kernel) {
  return kernel ? String((kernel.index * 137.508 + 220) % 360) : '0';
}

function kernelStyle(kernel) {
  return kernel ? {'--hue': hueOf(kernel)} : {'--chroma': '0'};
}

function kernelChip(kernel) {
  return el(
      'a', {
        class: 'chip',
        href: '#' + kernel.id,
        style: kernelStyle(kernel),
        title: visible(kernel.name)
      },
      kernel.number);
}

/** Share of the roofline that a time reaches. */
function rooflineShare(kernel, us) {
  return us > 0 ? Math.min(1, kernel.rooflineUs / us) : 0;
}
