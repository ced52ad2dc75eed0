// One upstream on the page: headline and verdict, and when it is open the table, the plots, the events and the reasons.

class Section {
  constructor(page, name) {
    Object.assign(this, { page, open: null, drawn: 0, data: new Upstream(name) });
    this.table = new Table(this);
    this.timeline = new Timeline();
    this.curves = new Curves();
    this.title = h('span', { class: 'title', text: name });
    this.tag = h('span', { class: 'tag' });
    this.facts = h('span', { class: 'note' });
    this.button = h('button', { type: 'button', 'aria-expanded': 'true', click: () => this.toggle() }, this.title);
    this.verdict = h('ul', { class: 'verdict' });
    // It scrolls, so the keyboard has to get there.
    this.events = h('ol', { class: 'events', tabindex: '0', 'aria-label': 'Events of ' + name });
    this.noEvents = h('p', { class: 'note', text: 'Nothing has happened yet.' });
    this.reasons = h('div', { class: 'reasons' });
    this.reasonsNote = h('span', { class: 'note' });
    this.plots = h('div', { class: 'plots' }, this.timeline.node, this.curves.node);
    this.body = h('div', { class: 'body' }, this.table.node, this.plots,
      h('div', { class: 'plots below' },
        h('div', {}, h('h3', { text: 'Events' }), this.events, this.noEvents),
        h('div', {}, h('h3', {}, 'Why servers were picked ', this.reasonsNote), this.reasons)));
    this.node = h('section', {}, h('h2', {}, this.button, this.tag, this.facts), this.verdict, this.body);
  }

  toggle() {
    this.open = !this.expanded;
    this.render();
  }

  get expanded() {
    return this.open === null ? this.page.opens(this) : this.open;
  }

  take(body, now, history) {
    this.data.take(body, now, history);
  }

  highlight(key) {
    this.timeline.highlight(key);
    this.curves.highlight(key);
  }

  // Those of its servers that the filter lets through.
  shown() {
    const { text, failing } = this.page.filter;
    const here = text && this.data.name.toLowerCase().includes(text);
    return this.data.servers.filter((server) => (!failing || server.level > 0)
      && (!text || here || server.title.toLowerCase().includes(text) || String(server.server).toLowerCase().includes(text)));
  }

  render() {
    const { data } = this;
    const shown = this.shown();
    this.node.hidden = !shown.length && (this.page.filter.failing || this.page.filter.text !== '');
    if (this.node.hidden) return;
    const open = this.expanded;
    setAttr(this.button, 'aria-expanded', open);
    setAttr(this.tag, 'class', 'tag level' + data.level);
    setText(this.tag, summary(data.servers));
    const { labor } = data;
    const all = data.servers.reduce((sum, server) => sum + (server.labor.requests_per_second || 0), 0);
    setText(this.facts, [plural(data.servers.length, 'server'), rate(all) + ' requests/s', labor.policy && labor.policy !== 'fastest' ? 'policy ' + labor.policy : '',
      labor.metric === 'header' ? 'measured to the header' : ''].filter(Boolean).join(' · '));
    const words = verdict(data);
    while (this.verdict.children.length > words.length) this.verdict.lastChild.remove();
    while (this.verdict.children.length < words.length) this.verdict.append(h('li', {}, h('b', {}), ' ', h('span', {})));
    words.forEach(([who, what], i) => {
      setText(this.verdict.children[i].firstChild, who);
      setText(this.verdict.children[i].lastChild, what);
    });
    this.verdict.hidden = !words.length;
    this.body.hidden = !open;
    setAttr(this.node, 'class', open ? null : 'closed');
    if (!open) return;
    this.table.render(data, shown);
    // Nothing to draw before the first answer.
    this.plots.hidden = ![...data.series.values()].some((own) => own.latency.some(known));
    this.tell();
    this.explain();
    if (!this.plots.hidden) this.plot(shown);
  }

  // Plots of large upstreams are drawn less often.
  plot(shown) {
    const now = performance.now();
    const pause = data_points(shown) > 4000 ? 4500 : 0;
    const same = this.last === shown.map((server) => server.key).join();
    if (same && now - this.drawn < pause) return;
    this.last = shown.map((server) => server.key).join();
    this.drawn = now;
    this.timeline.draw(this.data, shown);
    this.curves.draw(this.data, shown);
  }

  tell() {
    const events = this.data.labor.events || [];
    this.noEvents.hidden = events.length > 0;
    while (this.events.children.length > events.length) this.events.lastChild.remove();
    while (this.events.children.length < events.length) {
      this.events.append(h('li', {}, h('time', {}), h('span', { class: 'mark', 'aria-hidden': 'true' }), h('span', { class: 'what' }), h('span', { class: 'note' })));
    }
    events.forEach((event, i) => {
      const [time, mark, what, note] = this.events.children[i].children;
      const calm = CALM.has(event.reason);
      setText(time, duration(event.seconds_ago) + ' ago');
      setAttr(time, 'datetime', event.time);
      setAttr(time, 'title', event.time);
      setAttr(mark, 'class', 'mark level' + (calm ? 0 : 1));
      setText(what, (event.server ? event.server + ' ' : '') + reasonWord(event.reason));
      setText(note, event.detail ? String(event.detail) : '');
    });
  }

  explain() {
    const before = this.data.before();
    const picks = Object.entries(this.data.labor.picks || {});
    let counts = picks.map(([key, n]) => [key, before ? Math.max(0, n - (before.picks[key] || 0)) : n]);
    const lately = before && counts.some(([, n]) => n > 0);
    if (!lately) counts = picks;
    const total = counts.reduce((sum, [, n]) => sum + n, 0);
    const span = before ? (this.data.marks[this.data.marks.length - 1].t - before.t) / 1000 : 0;
    setText(this.reasonsNote, total ? (lately ? 'in the last ' + (span > 55 ? 'minute' : duration(span)) : 'since the statistics began') : '');
    const shown = counts.filter(([, n]) => n > 0);
    const order = Object.keys(PICKS);
    const look = (key) => 'pick' + Math.max(0, order.indexOf(key));
    const bar = h('div', { class: 'stack', 'aria-hidden': 'true' }, ...shown.map(([key, n]) => {
      const part = h('span', { class: look(key) });
      part.style.setProperty('flex-grow', String(n));
      return part;
    }));
    const list = h('ul', {}, ...shown.sort((a, b) => b[1] - a[1]).map(([key, n]) => h('li', {},
      h('span', { class: 'key ' + look(key), 'aria-hidden': 'true' }), h('b', { text: percent(n / total) + ' ' }), PICKS[key] || key)));
    this.reasons.replaceChildren(...(total ? [bar, list] : [h('p', { class: 'note', text: 'No request yet.' })]));
  }
}

const data_points = (servers) => servers.length * 180;

// "4 servers well", or how many are how.
function summary(servers) {
  const count = new Map();
  for (const server of servers) if (server.level > 0) {
    const word = server.slow ? 'slow' : server.unlearned ? 'not learned' : server.word;
    count.set(word, (count.get(word) || 0) + 1);
  }
  const level = Math.max(0, ...servers.map((server) => server.level));
  if (!level) return servers.length === 1 ? 'well' : 'all well';
  return [...count].map(([word, n]) => n + ' ' + word).join(', ');
}

// What is the matter, the worst first: [who, what] each.
function verdict(data) {
  const bad = data.servers.filter((server) => server.level > 0).sort((a, b) => b.level - a.level || (b.ratio || 0) - (a.ratio || 0));
  const said = bad.slice(0, 3).map((server) => [server.title, sentence(server, data)]);
  const rest = bad.length - said.length;
  return rest > 0 ? [...said, ['', 'And ' + plural(rest, 'other') + '.']] : said;
}

function sentence(server, data) {
  const { labor } = server;
  const traffic = !known(labor.share) || !(labor.share > 0 || server.slow) ? ''
    // The share looks back: said in the present, it would deny that a server taken out just now gets nothing.
    : server.slow ? '; it gets ' + percent(labor.share) + ' of the traffic' : '; it got ' + percent(labor.share) + ' of the traffic of the last 10 to 20 s';
  if (server.unlearned) return 'is not learned: labor_zone is full.';
  if (!server.slow) {
    const long = known(labor.state_since) ? ' has been ' + server.word + ' for ' + duration(labor.state_since) : ' is ' + server.word;
    return long.trim() + ': ' + server.meaning + traffic + '.';
  }
  const since = server.slowFor < Infinity ? ', for ' + duration(server.slowFor) + ' now' : '';
  return 'answers in ' + ms(labor.latency_us) + ' where the faster ones take ' + ms(data.typical) + since + traffic + '.';
}
