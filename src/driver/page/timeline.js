// The run as two bars, predicted and measured, on one scale; and the kernels whose times differ
// most.

/** {kernel, name, us} one behind another. */
function predictedSteps() {
  return kKernels.map((kernel) => ({kernel, name: kernel.name, us: kernel.us}));
}

function measuredSteps() {
  return kMeasured.steps.filter((s) => s.kernel || s.depth === 0).filter((s) => !holdsMeasured(s));
}

/** A loop or branch whose kernels have times of their own. */
function holdsMeasured(step) {
  const at = kMeasured.steps.indexOf(step), next = kMeasured.steps[at + 1];
  return !step.kernel && next !== undefined && next.depth > step.depth;
}

function stepRect(step, at, scale) {
  const label =
      `${step.kernel ? step.kernel.number + '  ' : ''}${visible(step.name)}: ${timeText(step.us)}`;
  return svg(
      'rect', {
        class: 'step' + (step.kernel ? '' : ' other'),
        x: (at * scale).toFixed(3),
        y: 0,
        width: Math.max(0.25, step.us * scale - 0.25).toFixed(3),
        height: 30,
        style: kernelStyle(step.kernel),
        onclick: step.kernel ? () => go(step.kernel.id) : null
      },
      svg('title', {}, label));
}

function track(label, steps, scale) {
  let at = 0;
  const rects = steps.map((step) => {
    const rect = stepRect(step, at, scale);
    at += step.us;
    return rect;
  });
  return el(
      'div', {class: 'track'}, el('span', {class: 'label'}, label, el('small', {}, timeText(at))),
      svg('svg', {
        viewBox: '0 0 1000 30',
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': `${label}: ${timeText(at)}`
      },
          rects));
}

/** A round step so that about five fit. */
function roundStep(whole) {
  const rough = whole / 5, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
}

function axis(whole, text) {
  const step = roundStep(whole);
  const marks = [];
  for (let at = 0; at <= whole * 1.0001; at += step)
    marks.push(el('span', {style: {left: (100 * at) / whole + '%'}}, text(at)));
  return el('div', {class: 'axis'}, marks);
}

function surprises() {
  const off = kKernels.filter((k) => k.measuredUs !== null)
                  .map((kernel) => ({kernel, us: kernel.measuredUs - kernel.us}));
  off.sort((a, b) => Math.abs(b.us) - Math.abs(a.us));
  return off.slice(0, 8);
}

function surpriseRow({kernel, us}) {
  const {prefix, names} = kernelTitle(kernel);
  return el(
      'tr', {onclick: () => go(kernel.id), style: kernelStyle(kernel)},
      el('td', {}, kernelChip(kernel)),
      el('td', {class: 'what'}, el('span', {class: 'ops'}, names.join(' · ')),
         prefix ? el('span', {class: 'path'}, prefix) : null),
      el('td', {class: 'bytes'}, timeText(kernel.us)),
      el('td', {class: 'bytes'}, timeText(kernel.measuredUs)),
      el('td', {class: 'bytes'}, (us > 0 ? '+' : '−') + timeText(Math.abs(us))),
      el('td', {class: 'bytes'},
         kernel.us > 0 ? significant(kernel.measuredUs / kernel.us) + '×' : ''));
}

function surpriseTable() {
  const heads = ['#', 'What', 'Predicted', 'Measured', 'Difference', 'Ratio'];
  return [
    el('h3', {}, 'Where prediction and measurement differ most'),
    el('div', {class: 'box scrolls'},
       el('table', {},
          el('thead', {},
             el('tr', {},
                heads.map((h, at) => el('th', {scope: 'col', class: at > 1 ? 'bytes' : null}, h)))),
          el('tbody', {}, surprises().map(surpriseRow))))
  ];
}

function buildTimeline() {
  const predicted = predictedSteps(), measured = kMeasured ? measuredSteps() : [];
  const whole = Math.max(sumOf(predicted, (s) => s.us), sumOf(measured, (s) => s.us));
  if (!(whole > 0)) return;
  byId('timeline')
      .append(
          el('p', {class: 'hint'},
             kMeasured ?
                 'Each step’s time, one behind another; measured apart, so that their sum is more than a run takes.' :
                 'Predicted times, one behind another. With --measure, measured ones stand below.'),
          el('div', {class: 'box tracks'}, track('Predicted', predicted, 1000 / whole),
             kMeasured ? track('Measured', measured, 1000 / whole) : null,
             axis(whole, (us) => (us === 0 ? '0' : timeText(us)))),
          ...(kMeasured ? surpriseTable() : []));
}
