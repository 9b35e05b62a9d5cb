// One kernel: its figures, its nodes, and its program and code side by side.

function fact(label, value) {
  return value === null || value === undefined || value === '' ?
      null :
      el('div', {}, el('dt', {}, label), el('dd', {}, value));
}

function kernelFacts(kernel) {
  return el(
      'dl', {class: 'facts'},
      fact(
          'predicted',
          timeText(kernel.us) +
              (kernel.times > 1 ?
                   ` (${countText(kernel.times)} × ${timeText(kernel.predicted_us)})` :
                   '')),
      fact('measured', kernel.measuredUs === null ? '' : timeText(kernel.measuredUs)),
      fact('roofline', timeText(kernel.rooflineUs)), fact('read', bytesText(kernel.bytes_read)),
      fact('written', bytesText(kernel.bytes_written)),
      fact('asked of caches', kernel.bytes_requested ? bytesText(kernel.bytes_requested) : ''),
      fact('kind', kernel.kind), fact('template', visible(kernel.template || '')),
      fact('scopes', visible(kernel.scopes || '')), fact('registers', kernel.registers),
      fact('shared memory', kernel.shared_bytes ? bytesText(kernel.shared_bytes) : ''),
      fact('library call', kernel.library_call ? visible(kernel.library_call) : ''),
      fact('side by side', kernel.packed_because ? visible(kernel.packed_because) : ''),
      fact('makes again', kernel.copies ? kernel.copies.map(visible).join(', ') : ''));
}

/** Kernels that it reads from, or that read from it. */
function neighbours(kernel, edgesOf, other) {
  const found = new Set();
  for (const node of kernel.nodes) {
    for (const edge of edgesOf(node)) {
      const there = other(edge);
      if (there && there.kernel && there.kernel !== kernel) found.add(there.kernel);
    }
  }
  return [...found].sort((a, b) => a.index - b.index);
}

function neighbourLine(label, kernels) {
  if (kernels.length === 0) return null;
  return el('p', {class: 'neighbours'}, label, ' ', kernels.map((k) => [kernelChip(k), ' ']));
}

/** Of several nodes with one name, each has its tensor behind it. */
function nodeLabel(node) {
  const {name} = nodeTitle(node);
  const alike = node.kernel.nodes.filter((other) => nodeTitle(other).name === name).length;
  return alike > 1 ? [name, ' ', el('small', {}, visible(node.tensor))] : name;
}

function nodeButton(node, box) {
  return el(
      'li', {
        'data-node': node.index,
        onmouseenter: () => lightNode(box, node.index),
        onmouseleave: () => lightNode(box, null)
      },
      el('a', {
        href: '#' + node.id,
        title: visible(node.names.join(', ')),
        onfocus: () => lightNode(box, node.index),
        onblur: () => lightNode(box, null)
      },
         nodeLabel(node)));
}

/** Marks a node and the lines that make its value. */
function lightNode(box, index) {
  for (const lit of box.querySelectorAll('.lit')) lit.classList.remove('lit');
  if (index === null) return;
  let first = true;
  for (const line of box.querySelectorAll(`[data-node~="${index}"]`)) {
    line.classList.add('lit');
    const pane = line.closest('pre');
    if (pane && first) pane.scrollTop = Math.max(0, line.offsetTop - pane.clientHeight / 2);
    if (pane) first = false;
  }
}

function codeLine(text, nodes, box) {
  const over = nodes.length > 0 ?
      {onmouseenter: () => lightNodes(box, nodes), onmouseleave: () => lightNode(box, null)} :
      {};
  return el(
      'span', {class: 'line', 'data-node': nodes.length > 0 ? nodes.join(' ') : null, ...over},
      paint(visible(text)), '\n');
}

/** From a line: its nodes, without scrolling the pane under the pointer. */
function lightNodes(box, nodes) {
  for (const lit of box.querySelectorAll('.lit')) lit.classList.remove('lit');
  for (const index of nodes) {
    for (const line of box.querySelectorAll(`[data-node~="${index}"]`)) line.classList.add('lit');
  }
}

/** Comments and places apart from the rest of a line. */
function paint(line) {
  const comment = line.search(/(^|\s)(--|#|\/\/)\s/);
  const place = line.search(/ (at \w+ )?@\[/);
  if (comment >= 0)
    return [line.slice(0, comment), el('span', {class: 'comment'}, line.slice(comment))];
  if (place >= 0) return [line.slice(0, place), el('span', {class: 'place'}, line.slice(place))];
  return [line];
}

function pane(text, nodesOfLine, box) {
  const lines = text.replace(/\n$/, '').split('\n');
  return el(
      'pre', {tabindex: '0'}, lines.map((line, at) => codeLine(line, nodesOfLine[at] || [], box)));
}

function tabs(panes) {
  const shown = el('div', {class: 'shown'});
  const buttons = panes.map(
      ({title, make}) =>
          el('button', {
            type: 'button',
            role: 'tab',
            onclick: (event) => {
              for (const button of buttons)
                button.setAttribute('aria-selected', String(button === event.currentTarget));
              shown.replaceChildren(make());
            }
          },
             title));
  buttons[0].setAttribute('aria-selected', 'true');
  shown.append(panes[0].make());
  return el('div', {class: 'pane'}, el('div', {class: 'tabs', role: 'tablist'}, buttons), shown);
}

function levels(kernel, box) {
  const {tile, kernel: vectors, code, buffers} = kernel.texts;
  const left = [], right = [];
  if (tile)
    left.push({
      title: 'Tile program and places',
      make: () => pane(tile, linesOfTile(tile, kernel.nodes), box)
    });
  if (vectors)
    right.push({
      title: 'Vector instructions',
      make: () => pane(vectors, linesOfBuffers(vectors, buffers, kernel), box)
    });
  if (code)
    right.push({
      title: 'Generated code',
      make: () => pane(code, linesOfBuffers(code, buffers, kernel), box)
    });
  if (left.length + right.length === 0) {
    return el(
        'p', {class: 'hint'}, 'Its program and code are not in this page: ',
        el('code', {}, 'weft explain MODEL --html FILE'),
        ' has them, for the kernels that cost most.');
  }
  return el(
      'div', {class: 'levels'}, left.length > 0 ? tabs(left) : null,
      right.length > 0 ? tabs(right) : null);
}

function kernelDetail(kernel) {
  const box = byId('kernel-detail');
  const {prefix, names} = kernelTitle(kernel);
  const nodes = kernel.nodes.length > 0 ?
      el('ol', {class: 'nodes'}, kernel.nodes.map((n) => nodeButton(n, box))) :
      el('p', {}, names.join(' · '));
  return [
    el('h3', {style: kernelStyle(kernel)}, kernelChip(kernel), ' ',
       el('code', {}, visible(kernel.name))),
    kernelFacts(kernel),
    prefix ? el('p', {class: 'path'}, prefix) : null,
    nodes,
    neighbourLine('reads from', neighbours(kernel, (n) => n.reads, (e) => e.producer)),
    neighbourLine('read by', neighbours(kernel, (n) => n.readBy, (e) => e.consumer)),
    levels(kernel, box),
  ].filter((part) => part !== null);
}
