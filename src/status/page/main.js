// The page: head line, filter, one section for each upstream.

class Page {
  constructor() {
    this.sections = new Map();
    this.filter = { text: '', failing: false };
    const find = (id) => document.getElementById(id);
    Object.assign(this, { main: find('main'), alarm: find('alarm'), news: find('news'), facts: find('facts'), total: find('total'), icon: find('icon') });
    this.note = h('p', { class: 'note' });
    find('tools').hidden = false;
    find('filter').addEventListener('input', (event) => this.narrow({ text: event.target.value.trim().toLowerCase() }));
    find('failing').addEventListener('change', (event) => this.narrow({ failing: event.target.checked }));
    const pause = find('pause');
    pause.addEventListener('click', () => {
      this.poll.pause(!this.poll.paused);
      setAttr(pause, 'aria-pressed', this.poll.paused);
      setText(pause, this.poll.paused ? 'Paused' : 'Pause');
    });
    this.poll = new Poll((answer, history) => this.show(answer, history), (text, bad, news) => this.say(text, bad, news));
    addEventListener('resize', () => this.render());
    this.poll.soon(0);
  }

  narrow(filter) {
    Object.assign(this.filter, filter);
    this.render();
  }

  // Few upstreams are all open; of many only those with trouble, or what the filter leaves.
  opens(section) {
    if (this.sections.size <= 4) return true;
    const shown = [...this.sections.values()].filter((other) => !other.node.hidden).length;
    return shown <= 4 && (this.filter.failing || this.filter.text !== '') ? true : this.troubled.slice(0, 3).includes(section);
  }

  show(answer, history) {
    const now = known(answer.timestamp) ? answer.timestamp : Date.now();
    const names = Object.keys(answer.upstreams);
    for (const name of names) {
      if (!this.sections.has(name)) this.sections.set(name, new Section(this, name));
      this.sections.get(name).take(answer.upstreams[name], now, history);
    }
    for (const name of [...this.sections.keys()]) if (!names.includes(name)) this.sections.delete(name);
    this.troubled = [...this.sections.values()].filter(({ data }) => data.level > 0).sort((a, b) => b.data.level - a.data.level);
    setText(this.facts, 'nginx ' + answer.nginx + ' · labor ' + answer.labor + ' · ' + clock(now));
    this.answer = answer;
    this.render();
  }

  render() {
    if (!this.answer) return;
    const sections = Object.keys(this.answer.upstreams).map((name) => this.sections.get(name));
    // Many: those with trouble stand first.
    const order = sections.length > 4 ? [...sections].sort((a, b) => b.data.level - a.data.level) : sections;
    arrange(this.main, [...order.map((section) => section.node), this.note]);
    for (const section of order) section.render();
    const hidden = order.every((section) => section.node.hidden);
    this.note.hidden = !hidden;
    setText(this.note, order.length ? 'No server matches the filter.' : 'No upstream uses labor here, or the address asks for one that does not exist.');
    const servers = sections.flatMap(({ data }) => data.servers);
    const level = Math.max(0, ...servers.map((server) => server.level));
    const words = summary(servers);
    setText(this.total, servers.length ? words : '');
    setAttr(this.total, 'class', 'tag level' + level);
    const title = (level ? words + ' – ' : '') + 'labor';
    if (document.title !== title) document.title = title;
    setAttr(this.icon, 'href', ICONS[level]);
  }

  say(text, bad, news) {
    this.alarm.hidden = !text;
    setText(this.alarm, text);
    document.body.classList.toggle('stale', !!bad);
    if (news) setText(this.news, news);
  }
}

// The tab's own picture tells how it is, too: a disc, a triangle, a square.
const picture = (shape) => 'data:image/svg+xml,' + encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">' + shape + '</svg>');
const ICONS = [
  picture('<circle cx="8" cy="8" r="6" fill="#2a8f5f"/>'), picture('<path d="M8 1 15 14H1z" fill="#c77700"/>'),
  picture('<path d="M2 2h12v12H2z" fill="#c8322b"/>'),
];

new Page();
