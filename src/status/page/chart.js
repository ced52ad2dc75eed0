// Axes and lines: what both plots are drawn with. Sizes are in CSS pixels, colours in the style sheet.

// A logarithmic scale over values, with round ends: the smallest at `from`, the largest at `to`.
function logScale(values, from, to) {
  let low = Infinity;
  let high = 0;
  for (const value of values) if (value > 0) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!high) [low, high] = [1000, 10000];
  // At least a factor of four, so that noise does not fill the plot.
  const middle = Math.sqrt(low * high);
  low = roundLog(Math.min(low * 0.9, middle / 2), Math.floor);
  high = roundLog(Math.max(high * 1.1, middle * 2), Math.ceil);
  const span = Math.log(high / low);
  const at = (value) => from + (to - from) * (Math.log(value / low) / span);
  const decades = span / Math.LN10;
  const steps = decades > 3 ? [1] : decades > 1.6 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  }
  return { at, ticks, low, high };
}

function roundLog(value, way) {
  const power = 10 ** Math.floor(Math.log10(value));
  const lead = value / power;
  const steps = [1, 2, 5, 10];
  return power * (way === Math.floor ? steps.findLast((n) => n <= lead * 1.0001) : steps.find((n) => n >= lead * 0.9999));
}

// A path through points; null breaks it.
function path(points) {
  let out = '';
  let pen = false;
  for (const point of points) {
    if (point) out += (pen ? 'L' : 'M') + point[0].toFixed(1) + ' ' + point[1].toFixed(1);
    pen = !!point;
  }
  return out;
}

// Places labels of `height` at wanted positions so that none covers another.
function spread(labels, height, low, high) {
  labels.sort((a, b) => a.y - b.y);
  let floor = low;
  for (const label of labels) {
    label.y = Math.max(label.y, floor);
    floor = label.y + height;
  }
  let ceiling = high;
  for (const label of [...labels].reverse()) {
    label.y = Math.min(label.y, ceiling);
    ceiling = label.y - height;
  }
}

// What names have in common at their beginning or end, up to a dot or colon, is left out of labels.
function labels(servers, most) {
  const names = servers.map((server) => server.title);
  const host = (name) => name.replace(/:\d+$/, '');
  const port = (name) => (name.match(/:\d+$/) || [''])[0];
  let short = (name) => name;
  if (names.length > 1) {
    if (names.every((name) => port(name) && host(name) === host(names[0]))) short = port;
    else if (names.every((name) => port(name) && port(name) === port(names[0]))) short = host;
  }
  return new Map(servers.map((server) => [server.key, shorten(short(server.title), most)]));
}

// The frame both plots share: a figure with a caption, an SVG as wide as its place, and a box that follows the pointer or arrow keys.
class Plot {
  constructor(title, height) {
    this.svg = s('svg', { 'aria-hidden': 'true', height });
    this.box = h('div', { class: 'readout', hidden: true });
    this.legend = h('span', { class: 'note' });
    this.frame = h('div', {
      class: 'frame', tabindex: '0', role: 'group',
      pointermove: (event) => this.point(event.clientX - this.svg.getBoundingClientRect().left),
      pointerleave: () => this.leave(), blur: () => this.leave(),
      keydown: (event) => this.key(event),
    }, this.svg, this.box);
    this.spoken = h('p', { class: 'hidden', 'aria-live': 'polite' });
    this.node = h('figure', {}, h('figcaption', {}, h('span', { text: title }), this.legend), this.frame, this.spoken);
    this.height = height;
    this.cursor = null;
  }

  get width() {
    return Math.max(240, this.frame.clientWidth);
  }

  point(x) {
    this.cursor = Math.max(this.left, Math.min(x, this.width - this.right));
    this.read();
  }

  key(event) {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === 'Escape') this.leave();
    if (!way) return;
    event.preventDefault();
    this.point((this.cursor === null ? this.width - this.right : this.cursor) + way * this.stride());
    setText(this.spoken, this.box.innerText.replaceAll('\n', ', '));
  }

  leave() {
    this.cursor = null;
    this.read();
  }

  // Shows `lines` ([colour class, text, text]) beside the cursor.
  readout(x, title, lines) {
    if (x === null || !lines.length) {
      this.box.hidden = true;
      return;
    }
    this.box.replaceChildren(h('b', { text: title }), ...lines.map(([colour, name, value]) => h('div', {},
      h('span', { class: 'key ' + colour, 'aria-hidden': 'true' }), h('span', { text: name + ' ' }), h('span', { class: 'value', text: value }))));
    this.box.hidden = false;
    const own = this.box.offsetWidth;
    this.box.style.setProperty('left', Math.max(0, x + 12 + own > this.width ? x - own - 12 : x + 12) + 'px');
  }
}

const colourClass = (server) => (server.colour === null ? 'crowd' : 'colour' + server.colour);
