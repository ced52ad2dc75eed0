// Latency of all servers on one logarithmic axis, and below it on the same time axis who got the traffic.

const TOP = 10;
const STRIP = 64;
const LINES = 220;

class Timeline extends Plot {
  constructor() {
    super('Latency', TOP + LINES + 26 + STRIP + 24);
    this.lit = null;
  }

  stride() {
    return ((this.width - this.left - this.right) * STEP) / this.span;
  }

  draw(upstream, servers) {
    Object.assign(this, { upstream, servers });
    const { times } = upstream;
    const width = this.width;
    this.left = 52;
    this.right = width < 480 ? 10 : 104;
    const end = times[times.length - 1];
    // A young history is shown larger.
    this.span = Math.min(SPAN, Math.max(MINUTE, end - times[0]));
    this.x = (t) => width - this.right - ((end - t) / this.span) * (width - this.left - this.right);
    const values = servers.flatMap((server) => upstream.series.get(server.key).latency);
    const scale = logScale(values, TOP + LINES, TOP);
    setAttr(this.svg, 'width', width);
    this.crosshair = s('line', { class: 'crosshair', y1: TOP, y2: this.height - 24, x1: -9, x2: -9 });
    this.svg.replaceChildren(this.axes(scale, end, width), this.lines(scale), this.strip(), this.names(scale, width), this.crosshair);
    setText(this.legend, 'expected of one more request, logarithmic; below it the shares of the traffic');
    setAttr(this.frame, 'aria-label', 'Latency and traffic over ' + duration(this.span / 1000)
      + ' of ' + plural(servers.length, 'server') + '; arrow keys read values');
    this.read();
  }

  axes(scale, end, width) {
    const group = s('g', { class: 'axes' });
    const right = width - this.right;
    for (const value of scale.ticks) {
      const y = scale.at(value);
      group.append(s('line', { x1: this.left, x2: right, y1: y, y2: y }), s('text', { x: this.left - 6, y: y + 4, class: 'end', text: axisTime(value) }));
    }
    const step = [15, 30, 60, 120, 180, 300].map((n) => n * 1000).find((n) => this.span / n <= (width < 480 ? 4 : 7)) || 300000;
    for (let t = Math.ceil((end - this.span) / step) * step; t <= end; t += step) {
      const x = this.x(t);
      if (x > right - (step < MINUTE ? 58 : 46)) break;
      group.append(s('line', { x1: x, x2: x, y1: TOP, y2: this.height - 24 }),
        s('text', { x, y: this.height - 8, class: 'middle', text: step < MINUTE ? clock(t) : hour(t) }));
    }
    group.append(s('text', { x: right, y: this.height - 8, class: 'end', text: 'now' }));
    const top = TOP + LINES + 26;
    group.append(s('text', { x: this.left - 6, y: top + 8, class: 'end', text: '100 %' }), s('text', { x: this.left - 6, y: top + STRIP, class: 'end', text: '0' }));
    return group;
  }

  lines(scale) {
    const order = [...this.servers].sort((a, b) => (a.colour === null) - (b.colour === null) || a.level - b.level).sort((a, b) => (a.colour !== null) - (b.colour !== null));
    return s('g', {}, ...order.map((server) => {
      const own = this.upstream.series.get(server.key).latency;
      const points = own.map((value, i) => (value > 0 && this.upstream.times[i] >= this.upstream.times[own.length - 1] - this.span
        ? [this.x(this.upstream.times[i]), scale.at(value)] : null));
      return s('path', { d: path(points), 'data-key': server.key, class: 'line ' + colourClass(server) + this.light(server) });
    }));
  }

  light(server) {
    return this.lit === null ? (server.slow || server.level === 2 ? ' strong' : '') : this.lit === server.key ? ' strong' : ' faint';
  }

  // Shares of each interval as stacked areas; servers without a colour together at the bottom.
  strip() {
    const top = TOP + LINES + 26;
    const { times, series } = this.upstream;
    const coloured = this.servers.filter((server) => server.colour !== null);
    const others = this.servers.filter((server) => server.colour === null);
    const layers = [...(others.length ? [{ members: others, look: 'crowd' }] : []), ...coloured.map((server) => ({ members: [server], look: colourClass(server), server }))];
    const from = Math.max(0, times.findIndex((t) => t >= times[times.length - 1] - this.span));
    const sum = (members, i) => members.reduce((all, server) => all + (series.get(server.key).requests[i] || 0), 0);
    const index = times.map((_, i) => i).slice(from).filter((i) => sum(this.servers, i) > 0);
    let base = index.map(() => 0);
    const totals = index.map((i) => sum(this.servers, i));
    const areas = layers.map(({ members, look, server }) => {
      const next = index.map((i, j) => base[j] + sum(members, i) / totals[j]);
      const y = (share) => top + STRIP * (1 - share);
      // Between two points far apart nobody was asked, or nothing asked: the area ends and begins anew.
      let d = '';
      for (let j = 0; j < index.length;) {
        let k = j;
        while (k + 1 < index.length && times[index[k + 1]] - times[index[k]] < 3 * STEP) k += 1;
        const there = range(j, k).map((n) => [this.x(times[index[n]]), y(next[n])]);
        const back = range(j, k).reverse().map((n) => [this.x(times[index[n]]), y(base[n])]);
        d += path([...there, ...back]) + 'Z';
        j = k + 1;
      }
      base = next;
      return s('path', { d, class: 'area ' + look + (server ? this.light(server) : '') });
    });
    return s('g', {}, s('rect', { class: 'ground', x: this.left, y: top, width: this.width - this.left - this.right, height: STRIP }), ...areas);
  }

  // Names at the ends of their lines.
  names(scale, width) {
    const out = s('g', { class: 'names' });
    if (this.right < 80) return out;
    const short = labels(this.servers, 11);
    const list = this.servers.filter((server) => server.colour !== null && known(server.labor.latency_us))
      .map((server) => ({ server, y: scale.at(server.labor.latency_us) }));
    spread(list, 14, TOP + 4, TOP + LINES - 2);
    for (const { server, y } of list) {
      out.append(s('text', { x: width - this.right + 8, y: y + 4, class: colourClass(server) + this.light(server), text: short.get(server.key) }));
    }
    return out;
  }

  highlight(key) {
    this.lit = key;
    if (this.upstream) this.draw(this.upstream, this.servers);
  }

  read() {
    if (this.cursor === null || !this.upstream) return this.readout(null, '', []);
    const { times, series } = this.upstream;
    let at = 0;
    times.forEach((t, i) => { if (Math.abs(this.x(t) - this.cursor) < Math.abs(this.x(times[at]) - this.cursor)) at = i; });
    const x = this.x(times[at]);
    setAttr(this.crosshair, 'x1', x);
    setAttr(this.crosshair, 'x2', x);
    const total = this.servers.reduce((all, server) => all + (series.get(server.key).requests[at] || 0), 0);
    const lines = this.servers.map((server) => {
      const own = series.get(server.key);
      return { server, latency: own.latency[at], share: total ? (own.requests[at] || 0) / total : null };
    }).filter(({ latency, share }) => latency !== null || share).sort((a, b) => (b.latency || 0) - (a.latency || 0)).slice(0, 10);
    this.readout(x, clock(times[at]), lines.map(({ server, latency, share }) => [colourClass(server), shorten(server.title, 24), ms(latency) + ' · ' + percent(share)]));
  }
}
