// The arena: what lies where, from the step that makes it to the last that reads it.

function kernelsByName() {
  const found = new Map();
  for (const kernel of kKernels)
    if (!found.has(kernel.name)) found.set(kernel.name, kernel);
  return found;
}

function blockRect([name, offset, bytes, first, last], kernel, peak, steps) {
  const label = `${visible(name)}: ${bytesText(bytes)} at ${countText(offset)}, steps ${
      first + 1} to ${last + 1}`;
  const inset = Math.min(0.4, (last + 1 - first) * 0.05 * (1000 / steps));
  return svg(
      'rect', {
        class: 'block',
        x: ((1000 * first) / steps + inset).toFixed(3),
        width: Math.max(0.3, (1000 * (last + 1 - first)) / steps - 2 * inset).toFixed(3),
        y: (300 - (300 * (offset + bytes)) / peak).toFixed(3),
        height: Math.max(0.3, (300 * bytes) / peak).toFixed(3),
        style: kernelStyle(kernel),
        onclick: kernel ? () => go(kernel.id) : null
      },
      svg('title', {}, label));
}

/** By step, the sum of what lives then. */
function liveBytes(blocks, steps) {
  const change = new Array(steps + 1).fill(0);
  for (const [, , bytes, first, last] of blocks) {
    change[first] += bytes;
    change[last + 1] -= bytes;
  }
  let now = 0;
  return change.slice(0, steps).map((by) => (now += by));
}

function busiest(blocks, steps) {
  const live = liveBytes(blocks, steps);
  const at = live.reduce((best, bytes, step) => (bytes > live[best] ? step : best), 0);
  return {at, bytes: live[at]};
}

function buildArena() {
  const {bytes, steps, blocks} = kPage.arena;
  if (blocks.length === 0 || bytes <= 0) return;
  const byName = kernelsByName();
  const rects =
      blocks.map((block) => blockRect(block, byName.get(steps[block[3]]), bytes, steps.length));
  const peak = busiest(blocks, steps.length);
  const kernel = byName.get(steps[peak.at]);
  byId('arena').append(
      el('p', {class: 'hint'},
         `${countText(blocks.length)} values share ${bytesText(bytes)}. Most live at once, ${
             bytesText(peak.bytes)}, in step ${peak.at + 1} `,
         kernel ? kernelChip(kernel) : null,
         '. Upwards: addresses; to the right: steps of the run; in the colour of the kernel that makes it.'),
      el('div', {class: 'box arena'},
         el('div', {class: 'addresses'}, el('span', {}, bytesText(bytes)), el('span', {}, '0')),
         svg('svg', {
           viewBox: '0 0 1000 300',
           preserveAspectRatio: 'none',
           role: 'img',
           'aria-label': `The arena, ${bytesText(bytes)}`
         },
             rects),
         axis(steps.length, (at) => (at === 0 ? 'step 1' : countText(Math.round(at))))));
}
