// What labor learned: the response time of each server at so many requests in flight. A ring marks where it is now.

class Curves extends Plot {
  constructor() {
    super('Learned curves', 300);
    this.lit = null;
  }

  stride() {
    return 12;
  }

  draw(upstream, servers) {
    Object.assign(this, { upstream, servers });
    const width = this.width;
    this.left = 52;
    this.right = 14;
    this.curves = servers.map((server) => ({ server, points: (server.labor.curve || []).filter((p) => p.latency_us > 0) })).filter(({ points }) => points.length);
    const most = Math.max(4, ...this.curves.map(({ server, points }) => Math.max(points[points.length - 1].in_flight, server.labor.in_flight || 0)));
    this.x = (n) => this.left + (Math.log(n + 1) / Math.log(most + 1)) * (width - this.left - this.right);
    this.most = most;
    const bottom = this.height - 40;
    const scale = logScale(this.curves.flatMap(({ points }) => points.map((p) => p.latency_us)), bottom, TOP);
    setAttr(this.svg, 'width', width);
    this.crosshair = s('line', { class: 'crosshair', y1: TOP, y2: bottom, x1: -9, x2: -9 });
    this.svg.replaceChildren(this.axes(scale, bottom, width), ...this.curves.map((curve) => this.curve(curve, scale)), this.crosshair);
    setText(this.legend, 'by requests in flight; ○ now, • measured');
    setAttr(this.frame, 'aria-label', 'Learned response time by requests in flight; arrow keys read values');
    this.read();
  }

  axes(scale, bottom, width) {
    const group = s('g', { class: 'axes' });
    for (const value of scale.ticks) {
      const y = scale.at(value);
      group.append(s('line', { x1: this.left, x2: width - this.right, y1: y, y2: y }), s('text', { x: this.left - 6, y: y + 4, class: 'end', text: axisTime(value) }));
    }
    let free = -Infinity;
    for (const n of [0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]) {
      if (n > this.most) break;
      if (this.x(n) < free) continue;
      free = this.x(n) + 24;
      group.append(s('line', { x1: this.x(n), x2: this.x(n), y1: TOP, y2: bottom }), s('text', { x: this.x(n), y: bottom + 16, class: 'middle', text: String(n) }));
    }
    group.append(s('text', { x: (this.left + width - this.right) / 2, y: bottom + 33, class: 'middle', text: 'requests in flight' }));
    return group;
  }

  light(server) {
    return this.lit === null ? '' : this.lit === server.key ? ' strong' : ' faint';
  }

  curve({ server, points }, scale) {
    const look = colourClass(server) + this.light(server);
    const now = known(server.labor.latency_us) && server.code !== 'down' ? s('circle', {
      class: 'now ' + look, cx: this.x(server.labor.in_flight || 0), cy: scale.at(Math.min(Math.max(server.labor.latency_us, scale.low), scale.high)), r: 5,
    }) : null;
    const dots = points.filter((p) => p.evidence >= 0.5 && server.colour !== null)
      .map((p) => s('circle', { class: 'dot ' + look, cx: this.x(p.in_flight), cy: scale.at(p.latency_us), r: p.evidence >= 8 ? 2.6 : 1.8 }));
    return s('g', {}, s('path', { class: 'line ' + look, d: path(points.map((p) => [this.x(p.in_flight), scale.at(p.latency_us)])) }), ...dots, now);
  }

  highlight(key) {
    this.lit = key;
    if (this.upstream) this.draw(this.upstream, this.servers);
  }

  read() {
    if (this.cursor === null || !this.upstream) return this.readout(null, '', []);
    const n = Math.round(Math.exp(((this.cursor - this.left) / (this.width - this.left - this.right)) * Math.log(this.most + 1)) - 1);
    const x = this.x(n);
    setAttr(this.crosshair, 'x1', x);
    setAttr(this.crosshair, 'x2', x);
    const lines = this.curves.map(({ server, points }) => ({ server, value: between(points, n) })).filter(({ value }) => value !== null)
      .sort((a, b) => b.value - a.value).slice(0, 10);
    this.readout(x, n + ' in flight', lines.map(({ server, value }) => [colourClass(server), shorten(server.title, 24), ms(value)]));
  }
}

// Between two points of a curve as the plot draws it: straight on logarithmic axes.
function between(points, n) {
  const after = points.findIndex((p) => p.in_flight >= n);
  if (after < 0) return null;
  if (after === 0) return points[0].latency_us;
  const [a, b] = [points[after - 1], points[after]];
  const part = (Math.log(n + 1) - Math.log(a.in_flight + 1)) / (Math.log(b.in_flight + 1) - Math.log(a.in_flight + 1));
  return Math.exp(Math.log(a.latency_us) + part * Math.log(b.latency_us / a.latency_us));
}
