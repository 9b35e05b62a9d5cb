// Elements. Text of the model comes in as text nodes and attribute values only.

const kSvg = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on'))
      element.addEventListener(key.slice(2), value);
    else if (key === 'style')
      for (const [name, v] of Object.entries(value)) element.style.setProperty(name, v);
    else
      element.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** el('a', {href: '#x', class: 'c'}, 'text', child) */
function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fill(document.createElementNS(kSvg, name), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}
