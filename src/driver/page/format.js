// Numbers and names as the page writes them.

/**
 * Control characters, marks that turn the direction of text, and other invisible ones, as \u{…}.
 */
const kInvisible =
    /[\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function visible(text) {
  return String(text).replace(kInvisible, (c) => '\\u{' + c.charCodeAt(0).toString(16) + '}');
}

/** By the most decimals: a page of many kernels writes tens of thousands of numbers. */
const kFormats = Array.from(
    {length: 7},
    (_, decimals) => new Intl.NumberFormat(
        'en-US', {minimumFractionDigits: 0, maximumFractionDigits: decimals}));

function significant(value, digits = 3) {
  if (value === 0) return '0';
  const decimals = Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
  return kFormats[decimals].format(value);
}

function scaled(value, base, units) {
  let at = 0;
  while (Math.abs(value) >= base && at + 1 < units.length) {
    value /= base;
    ++at;
  }
  return significant(value) + ' ' + units[at];
}

const bytesText = (bytes) => scaled(bytes, 1000, ['B', 'kB', 'MB', 'GB', 'TB']);
const countText = (count) => kFormats[3].format(Number(count));
const percentText = (share) => significant(100 * share, share < 0.1 ? 2 : 3) + '%';

function timeText(us) {
  return us < 1 ? significant(us * 1000) + ' ns' : scaled(us, 1000, ['µs', 'ms', 's']);
}

function shapeText(tensor) {
  return tensor.dtype + '[' + tensor.shape.join(', ') + ']';
}

/** What paths have in common up to a '/', and the rest of each. */
function splitPaths(names) {
  if (names.length === 0) return {prefix: '', rest: []};
  let common = names[0].lastIndexOf('/') + 1;
  for (const name of names) {
    while (common > 1 && !name.startsWith(names[0].slice(0, common)))
      common = names[0].lastIndexOf('/', common - 2) + 1;
  }
  if (common === 1) common = 0;  // a slash alone says nothing
  return {prefix: names[0].slice(0, common), rest: names.map((name) => name.slice(common) || name)};
}
