// The table of an upstream's servers: one row a server, with a row of reasons below it when asked for.

// key, heading, explanation, value to sort by (null: not sortable)
const COLUMNS = [
  ['server', 'Server', '', (v) => v.title],
  ['state', 'State', 'slow: ' + SLOW + ' times or more the latency of the faster quarter', (v) => -v.level],
  ['latency', 'Latency now', 'expected response time of one more request', (v) => -(v.labor.latency_us || 0)],
  ['p50', 'p50', 'half of the recent answers were faster', (v) => -(v.labor.p50_us || 0)],
  ['p99', 'p99', '99 of 100 recent answers were faster', (v) => -(v.labor.p99_us || 0)],
  ['flight', 'In flight', 'requests waiting for their answer', (v) => -(v.labor.in_flight || 0)],
  ['share', 'Traffic', 'share of the requests of the last 10 to 20 seconds', (v) => -(v.labor.share || 0)],
  ['rate', 'Per second', 'requests a second', (v) => -(v.labor.requests_per_second || 0)],
  ['failures', 'Failures', 'since the statistics began, and in the last minute', (v) => -v.failures],
  ['change', 'Last change', 'why its standing last changed', (v) => (v.labor.last_change ? v.labor.last_change.seconds_ago : Infinity)],
];
const NUMBERS = new Set(['latency', 'p50', 'p99', 'flight', 'share', 'rate', 'failures']);
const MANY = 25;

class Table {
  constructor(section) {
    Object.assign(this, { section, rows: new Map(), sort: null, all: false, open: new Set() });
    this.heads = COLUMNS.map(([key, title, help]) => h('th', {
      scope: 'col', role: 'columnheader', class: NUMBERS.has(key) ? 'n' : null, 'aria-sort': 'none',
    }, h('button', { type: 'button', title: help || null, click: () => this.by(key) }, title)));
    this.body = h('tbody', { role: 'rowgroup' });
    this.more = h('button', { type: 'button', class: 'more', click: () => { this.all = !this.all; section.render(); } });
    this.caption = h('caption', {});
    this.node = h('div', { class: 'tablebox' },
      h('table', { role: 'table', class: 'servers' }, this.caption,
        h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, ...this.heads)), this.body), this.more);
  }

  // First press: the order that shows trouble first; second: the other way round; third: as configured.
  by(key) {
    if (!this.sort || this.sort.key !== key) this.sort = { key, way: 1 };
    else if (this.sort.way === 1) this.sort.way = -1;
    else this.sort = null;
    this.section.render();
  }

  order(servers) {
    const list = [...servers];
    const crowd = list.length > MANY;
    if (!this.sort && !crowd) return list;
    const { key, way } = this.sort || { key: 'state', way: 1 };
    const value = COLUMNS.find((column) => column[0] === key)[3];
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    return list.sort((a, b) => way * compare(value(a), value(b)));
  }

  render(upstream, servers) {
    const sorted = this.order(servers);
    const shown = this.all ? sorted : sorted.slice(0, MANY);
    COLUMNS.forEach(([key], i) => setAttr(this.heads[i], 'aria-sort',
      !this.sort || this.sort.key !== key ? 'none' : this.sort.way === 1 ? 'descending' : 'ascending'));
    setText(this.caption, 'Servers of ' + upstream.name);
    const before = upstream.before();
    const nodes = [];
    const keep = new Set();
    for (const server of shown) {
      const row = this.rows.get(server.key) || this.row(server.key);
      keep.add(server.key);
      this.update(row, server, upstream, before);
      nodes.push(row.node);
      if (this.open.has(server.key)) nodes.push(row.detail.node);
    }
    for (const key of this.rows.keys()) if (!keep.has(key)) this.rows.delete(key);
    arrange(this.body, nodes);
    this.more.hidden = sorted.length <= MANY;
    setText(this.more, this.all ? 'Show the first ' + MANY : 'Show all ' + sorted.length + ' servers');
  }

  row(key) {
    const cells = Object.fromEntries(COLUMNS.map(([name, title]) => [name, h(name === 'server' ? 'th' : 'td', {
      role: name === 'server' ? 'rowheader' : 'cell', scope: name === 'server' ? 'row' : null,
      class: 'c-' + name + (NUMBERS.has(name) ? ' n' : ''), 'data-label': title,
    })]));
    const detail = new Detail();
    const toggle = () => {
      if (this.open.has(key)) this.open.delete(key);
      else this.open.add(key);
      this.section.render();
    };
    const parts = {
      key: h('span', { class: 'key', 'aria-hidden': 'true' }), name: h('span', { class: 'name' }), note: h('span', { class: 'note' }),
      tag: h('span', { class: 'tag' }), since: h('span', { class: 'note' }),
      bar: h('span', { class: 'bar', 'aria-hidden': 'true' }, h('span', {})), share: h('span', {}),
      fresh: h('span', { class: 'note' }), total: h('span', {}), change: h('span', {}), ago: h('span', { class: 'note' }),
    };
    parts.button = h('button', { type: 'button', class: 'server', 'aria-expanded': 'false', click: toggle }, parts.key, parts.name);
    cells.server.append(parts.button, parts.note);
    cells.state.append(parts.tag, parts.since);
    cells.share.append(parts.bar, parts.share);
    cells.failures.append(parts.total, parts.fresh);
    cells.change.append(parts.change, parts.ago);
    const over = (on) => () => this.section.highlight(on ? key : null);
    const node = h('tr', { role: 'row', pointerenter: over(true), pointerleave: over(false) }, ...COLUMNS.map(([name]) => cells[name]));
    const row = { node, cells, parts, detail };
    this.rows.set(key, row);
    return row;
  }

  update({ node, cells, parts, detail }, server, upstream, before) {
    const { labor } = server;
    const open = this.open.has(server.key);
    setAttr(node, 'class', 'level' + server.level + (server.slow ? ' slow' : '') + (open ? ' opened' : ''));
    setAttr(parts.button, 'aria-expanded', open);
    setAttr(parts.key, 'class', 'key' + (server.colour === null ? '' : ' colour' + server.colour));
    setText(parts.name, server.title);
    setText(parts.note, notes(server));
    setText(parts.tag, stateWords(server));
    setAttr(parts.tag, 'class', 'tag level' + server.level);
    setAttr(parts.tag, 'title', server.slow ? 'this many times the latency of the faster quarter' : server.meaning);
    setText(parts.since, server.code !== 'up' && known(labor.state_since) ? 'for ' + duration(labor.state_since) : '');
    setText(cells.latency, ms(labor.latency_us));
    setText(cells.p50, ms(labor.p50_us));
    setText(cells.p99, ms(labor.p99_us));
    setText(cells.flight, known(labor.in_flight) ? group(labor.in_flight) + limit(server) : '–');
    setText(parts.share, percent(labor.share));
    parts.bar.firstChild.style.setProperty('width', (known(labor.share) ? labor.share * 100 : 0) + '%');
    setAttr(parts.bar.firstChild, 'class', server.colour === null ? null : 'colour' + server.colour);
    setText(cells.rate, rate(labor.requests_per_second));
    const fresh = before && before.failures[server.key] !== undefined ? server.failures - before.failures[server.key] : 0;
    setText(parts.total, group(server.failures));
    setText(parts.fresh, fresh > 0 ? '+' + group(fresh) + ' lately' : '');
    setAttr(cells.failures, 'class', 'c-failures n' + (fresh > 0 ? ' rising' : server.failures ? '' : ' none'));
    const change = labor.last_change;
    setText(parts.change, change ? reasonWord(change.reason) + (change.detail ? ': ' + change.detail : '') : '–');
    setText(parts.ago, change ? duration(change.seconds_ago) + ' ago' : '');
    if (open) detail.update(server, upstream);
  }
}

function stateWords(server) {
  if (server.slow) return 'slow ' + times(server.ratio);
  if (server.unlearned) return 'not learned: labor_zone is full';
  return server.word;
}

const limit = (server) => (server.max_conns ? ' / ' + group(server.max_conns) : '');

// What differs from the plain case: address, backup, weight and max_conns with where they come from.
function notes(server) {
  const out = [];
  if (server.server && server.server !== server.name && server.name) out.push(server.server);
  if (server.backup) out.push('backup');
  for (const [name, plain] of [['weight', 1], ['max_conns', 0]]) {
    const value = server.labor[name];
    if (!value || !known(value.effective)) continue;
    if (value.source && value.source !== 'configuration') {
      out.push(name + ' ' + value.effective + ' (' + (SOURCES[value.source] || value.source) + ', configured ' + value.configured + ')');
    } else if (value.effective !== plain) out.push(name + ' ' + value.effective);
  }
  return out.join(' · ');
}
