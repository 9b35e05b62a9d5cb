// Which lines of a kernel's program belong to which of its nodes.

/** A tile program's names have letters, digits and underscores, at most the last 24. */
function tileName(name) {
  return name.replace(/[^A-Za-z0-9_]/g, '_');
}

/** The node whose value a symbol of a tile program is; null for helpers. */
function nodeOfSymbol(symbol, nodes) {
  const whole = symbol.replace(/(_\d+n)+$/, '');
  for (const name
           of [whole, whole.replace(/_[a-z]{1,2}$/, ''), whole.replace(/(_[a-z]{1,2}){2}$/, '')]) {
    const fits = (node) => {
      const full = tileName(node.tensor);
      return full === name || 't' + full === name ||
          (whole.length >= 20 && name.length >= 8 && full.endsWith(name));
    };
    const found = nodes.find(fits);
    if (found) return found.index;
  }
  return null;
}

const kAssigned =
    /^\s*([A-Za-z_]\w*)'?(?:\[[^\]]*\])?(?:, [A-Za-z_]\w*'?(?:\[[^\]]*\])?)* (?:=|\+=|max=|min=) (.*)$/;
const kCarried = /([A-Za-z_]\w*)(?:\[[^\]]*\])?: \w+ = /g;

/** Lines as {makes: symbol, reads: [symbols]}, for those that make something. */
function statements(lines) {
  return lines.map((line) => {
    const comment = line.match(/^\s*-- (\w+): /);
    if (comment) return {makes: comment[1], reads: []};
    const made = line.match(kAssigned);
    if (made) return {makes: made[1], reads: made[2].split(/ @\[/)[0].match(/[A-Za-z_]\w*/g) || []};
    const carried = [...line.matchAll(kCarried)].map((m) => m[1]);
    return /^\s*(seq|grid|cluster) /.test(line) && carried.length > 0 ?
        {makes: carried[0], reads: []} :
        null;
  });
}

/**
 * By line, nodes. What only helps (an accumulator, a panel) belongs to the node that reads it
 * first.
 */
function linesOfTile(text, nodes) {
  const lines = text.replace(/\n$/, '').split('\n');
  const parsed = statements(lines);
  const owner = new Map();
  for (const s of parsed) {
    if (s && !owner.has(s.makes)) owner.set(s.makes, nodeOfSymbol(s.makes, nodes));
  }
  for (let changed = true; changed;) {
    changed = false;
    for (const s of parsed) {
      if (!s || owner.get(s.makes) === null || owner.get(s.makes) === undefined) continue;
      for (const read of s.reads) {
        if (owner.get(read) !== null) continue;
        owner.set(read, owner.get(s.makes));
        changed = true;
      }
    }
  }
  return parsed.map((s) => {
    const index = s ? owner.get(s.makes) : null;
    return index === null || index === undefined ? [] : [index];
  });
}

/** By line of vector instructions or CUDA: nodes whose values it loads or stores. */
function linesOfBuffers(text, buffers, kernel) {
  const owners = buffers.map((name) => nodeOfSymbol(name, kernel.nodes));
  const touched =
      /\b(?:load|store|prefetch|gather|scatter)[a-z_]*(?: [a-z_]+)* (\d+)\[|\bb(\d+)\b/g;
  return text.replace(/\n$/, '').split('\n').map((line) => {
    const found = new Set();
    for (const match of line.matchAll(touched)) {
      const owner = owners[Number(match[1] || match[2])];
      if (owner !== null && owner !== undefined) found.add(owner);
    }
    return [...found];
  });
}
