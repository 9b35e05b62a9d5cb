// What the plan comes to, in a line of figures.

function tile(label, value, ...notes) {
  return el(
      'div', {class: 'figure'}, el('dt', {}, label), el('dd', {}, el('b', {}, value), ...notes));
}

function note(...parts) {
  return el('small', {}, ...parts);
}

/** A share as a bar with a mark. */
function meter(share, label) {
  const width = (100 * Math.max(0, Math.min(1, share))).toFixed(1) + '%';
  return el(
      'span', {class: 'meter', role: 'img', 'aria-label': label, title: label},
      el('i', {style: {width}}));
}

function sumOf(list, value) {
  return list.reduce((sum, item) => sum + value(item), 0);
}

function bytesFigure() {
  const moved = kPlan.bytes_read + kPlan.bytes_written;
  const least = kPlan.compulsory_bytes || 0;
  if (least <= 0) return tile('Memory traffic', bytesText(moved));
  return tile(
      'Memory traffic', bytesText(moved),
      note(`${significant(moved / least)}× the compulsory ${bytesText(least)}`),
      meter(least / moved, `${percentText(least / moved)} of it is compulsory`));
}

function timeFigures() {
  const roofline = sumOf(kKernels, (k) => k.rooflineUs);
  const share = (us) => (us > 0 ? roofline / us : 0);
  const part = (us) =>
      [note(`${percentText(share(us))} of the roofline`),
       meter(share(us), `${percentText(share(us))} of the roofline`)];
  const figures = [tile('Predicted', timeText(kPlan.predicted_us), ...part(kPlan.predicted_us))];
  if (kMeasured) {
    const sum = sumOf(kMeasured.steps.filter((s) => s.depth === 0), (s) => s.us);
    figures.push(tile(
        'Measured', timeText(kMeasured.runUs), ...part(kMeasured.runUs),
        note(`${
            significant(
                kMeasured.runUs / kPlan.predicted_us)}× the prediction; its steps one by one take ${
            timeText(sum)}`)));
  }
  return figures;
}

function arenaFigure() {
  const unfused = kPlan.unfused_arena_bytes || 0;
  const bytes = kPage.arena.bytes;
  if (unfused <= 0) return tile('Arena peak', bytesText(bytes));
  const relation = bytes <= unfused ?
      `unfused ${bytesText(unfused)}` :
      `unfused only ${bytesText(unfused)}: what fused kernels read lives longer`;
  return tile(
      'Arena peak', bytesText(bytes), note(relation),
      meter(bytes / Math.max(bytes, unfused), relation));
}

function tensorList(title, tensors) {
  return el(
      'details', {},
      el('summary', {}, `${countText(tensors.length)} ${title}${tensors.length === 1 ? '' : 's'}`),
      el('ul', {class: 'tensors'},
         tensors.map((t) => el('li', {}, el('code', {}, visible(t.name)), ' ', shapeText(t)))));
}

function buildSummary() {
  const kernels = kPlan.compute_kernels + kPlan.memory_kernels;
  const calls = kPlan.library_calls > 0 ? `, ${countText(kPlan.library_calls)} library calls` : '';
  byId('summary').append(
      el('p', {class: 'lead'}, 'Target ', el('b', {}, visible(kPlan.target)), ', planner ',
         el('b', {}, visible(kPlan.plan)), '.'),
      el('dl', {class: 'figures'},
         tile(
             'Kernels', countText(kernels),
             note(`from ${countText(kPlan.ops)} nodes: ${
                 countText(kPlan.compute_kernels)} compute, ${
                 countText(kPlan.memory_kernels)} memory${calls}`)),
         bytesFigure(), timeFigures(), arenaFigure(),
         tile(
             'Arithmetic', scaled(kPlan.flops, 1000, ['flop', 'kflop', 'Mflop', 'Gflop', 'Tflop']),
             note(`${
                 significant(
                     kPlan.flops /
                     Math.max(1, kPlan.bytes_read + kPlan.bytes_written))} flop a byte`))),
      el('div', {class: 'io'}, tensorList('input', kPage.inputs),
         tensorList('output', kPage.outputs)));
}
