// Two plans: what became of the kernels of one in the other.

const kKinds = {
  regrouped: 'Other nodes share a kernel',
  rebuilt: 'The same nodes, composed otherwise',
  same: 'The same',
};

/** A figure of both plans, and whether less of it is better here. */
function beforeAfter(label, was, now, text) {
  const ratio = was > 0 ? now / was : 1;
  const better = now < was ? 'better' : now > was ? 'worse' : '';
  return el(
      'div', {class: 'figure'}, el('dt', {}, label),
      el('dd', {}, el('b', {}, text(now)), note(`was ${text(was)}`),
         now === was ? note('unchanged') :
                       el('small', {class: better},
                          `${now > was ? '+' : '−'}${percentText(Math.abs(ratio - 1))}`)));
}

function comparedKernel(kernel, isNow) {
  const {prefix, rest} = splitPaths(kernel.ops.length > 0 ? kernel.ops : [kernel.name]);
  const known = isNow ? kKernels.find((k) => k.number === kernel.number) : null;
  return el(
      'li', {title: visible(kernel.built)},
      known ? kernelChip(known) : el('span', {class: 'chip old'}, kernel.number), ' ',
      el('span', {}, visible(rest.join(' · '))), ' ',
      el('small', {}, timeText(kernel.predicted_us)), ' ',
      el('span', {class: 'path'}, visible(prefix)));
}

function compositions(change) {
  if (change.kind !== 'rebuilt') return null;
  return el(
      'div', {class: 'built'}, el('code', {}, '− ' + visible(change.was[0].built)),
      el('code', {}, '+ ' + visible(change.now[0].built)));
}

function changeItem(change) {
  const us = (kernels) => sumOf(kernels, (k) => k.predicted_us);
  const difference = us(change.now) - us(change.was);
  return el(
      'li', {class: 'change'},
      el('div', {class: 'sides'},
         el('ul', {class: 'was'}, change.was.map((k) => comparedKernel(k, false))),
         el('ul', {class: 'now'}, change.now.map((k) => comparedKernel(k, true))),
         el('span',
            {class: 'difference ' +
                 (difference < 0     ? 'better' :
                      difference > 0 ? 'worse' :
                                       '')},
            difference === 0 ? '' : (difference > 0 ? '+' : '−') + timeText(Math.abs(difference)))),
      compositions(change));
}

function changesOf(kind, changes) {
  const some = changes.filter((change) => change.kind === kind);
  if (some.length === 0) return null;
  return el(
      'details', {open: kind !== 'same'},
      el('summary', {}, kKinds[kind], ' ', el('small', {}, countText(some.length))),
      el('ol', {class: 'changes box'},
         el('li', {class: 'heads'}, el('span', {}, 'was'), el('span', {}, 'is')),
         some.map(changeItem)));
}

function buildComparison() {
  const comparison = kPage.comparison;
  if (!comparison) return;
  const {was, now, changes} = comparison;
  byId('comparison')
      .append(
          el('p', {class: 'lead'}, 'From ', el('b', {}, visible(was.name)), ' to ',
             el('b', {}, visible(now.name)), '.'),
          el('dl', {class: 'figures'}, beforeAfter('Kernels', was.kernels, now.kernels, countText),
             beforeAfter('Predicted', was.predicted_us, now.predicted_us, timeText),
             beforeAfter('Memory traffic', was.bytes, now.bytes, bytesText),
             beforeAfter('Arena between kernels', was.arena_bytes, now.arena_bytes, bytesText)),
          ...Object.keys(kKinds)
              .map((kind) => changesOf(kind, changes))
              .filter((part) => part !== null));
}
