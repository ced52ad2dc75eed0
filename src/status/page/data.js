// What the page knows: the last answer, and what it remembers of the answers before.

const STEP = 5000; // one point of history, ms, as in shared memory
const SPAN = 15 * 60 * 1000;
const MINUTE = 60 * 1000;

// One upstream over time. Servers are kept by identity, because positions move when lists change.
class Upstream {
  constructor(name) {
    this.name = name;
    this.times = []; // ends of intervals, ms; the last one is still open
    this.series = new Map(); // key -> { latency: [µs or null], requests: [count or null] }, as long as times
    this.colours = new Map(); // key -> 0…7, kept for good
    this.marks = []; // { t, failures: {key: n}, picks: {…} }, one a refresh, for counts of the last minute
  }

  take(body, now, history) {
    this.labor = body.labor || {};
    this.servers = identify(body.peers || []);
    const here = new Set(this.servers.map((server) => server.key));
    for (const map of [this.series, this.colours]) for (const key of map.keys()) if (!here.has(key)) map.delete(key);
    if (history) this.adopt(this.labor.history);
    this.append(now);
    this.mark(now);
    judge(this);
    this.paint();
  }

  // The history that nginx kept while nobody looked.
  adopt(history) {
    if (!history || !history.servers) return;
    const step = (history.interval || 5) * 1000;
    const lists = Object.values(history.servers);
    const length = Math.max(0, ...lists.map((list) => (list.latency_us || []).length));
    this.times = Array.from({ length }, (_, i) => history.end - (length - 1 - i) * step);
    this.series.clear();
    for (const server of this.servers) {
      const own = history.servers[server.id] || {};
      const pad = (list) => {
        const have = list || [];
        return Array(Math.max(0, length - have.length)).fill(null).concat(have.slice(-length || have.length));
      };
      this.series.set(server.key, { latency: pad(own.latency_us), requests: pad(own.requests) });
    }
    this.base = null;
  }

  // The present: the last point stays open for a step and moves with each refresh.
  append(now) {
    const totals = Object.fromEntries(this.servers.map((server) => [server.key, server.requests]));
    if (!this.base || now < this.base.t) {
      this.base = { t: now, totals };
      this.push(now);
    } else if (now - this.base.t >= STEP) {
      this.live(now, totals);
      this.base = { t: now, totals };
      this.push(now);
    }
    this.live(now, totals);
    const old = this.times.findIndex((t) => t >= now - SPAN - STEP);
    if (old > 0) {
      this.times.splice(0, old);
      for (const own of this.series.values()) [own.latency, own.requests].forEach((list) => list.splice(0, old));
    }
  }

  push(now) {
    this.times.push(now);
    for (const server of this.servers) if (!this.series.has(server.key)) {
      this.series.set(server.key, { latency: [], requests: [] });
    }
    for (const own of this.series.values()) {
      for (const list of [own.latency, own.requests]) while (list.length < this.times.length) list.push(null);
    }
  }

  live(now, totals) {
    const last = this.times.length - 1;
    this.times[last] = now;
    for (const server of this.servers) {
      const own = this.series.get(server.key);
      if (!own) continue;
      own.latency[last] = known(server.labor.latency_us) ? server.labor.latency_us : null;
      const before = this.base.totals[server.key];
      own.requests[last] = before === undefined || now === this.base.t ? null : Math.max(0, totals[server.key] - before);
    }
  }

  mark(now) {
    const failures = Object.fromEntries(this.servers.map((server) => [server.key, server.failures]));
    this.marks.push({ t: now, picks: { ...(this.labor.picks || {}) }, failures });
    while (this.marks.length > 2 && this.marks[1].t <= now - MINUTE) this.marks.shift();
  }

  // The oldest figures of about a minute ago; null while there is nothing to compare with.
  before() {
    const first = this.marks[0];
    const last = this.marks[this.marks.length - 1];
    return first && last.t - first.t >= 900 ? first : null;
  }

  // Up to eight servers each have a colour; in a larger crowd only those that stand out, and who did so last.
  paint() {
    const few = this.servers.length <= 8;
    for (const server of this.servers) {
      if (this.colours.has(server.key) || !(few || server.level > 0)) continue;
      const used = new Set(this.colours.values());
      let free = range(0, 7).find((colour) => !used.has(colour));
      const well = this.servers.find((other) => other.level === 0 && this.colours.has(other.key));
      if (free === undefined && well) {
        free = this.colours.get(well.key);
        this.colours.delete(well.key);
      }
      if (free !== undefined) this.colours.set(server.key, free);
    }
    for (const server of this.servers) {
      server.colour = this.colours.has(server.key) ? this.colours.get(server.key) : null;
    }
  }
}

// Gives each server a key that outlives a reload: its names, and which of several equal ones it is.
function identify(peers) {
  const seen = new Map();
  return peers.map((peer) => {
    const base = JSON.stringify([peer.name, peer.server, !!peer.backup]);
    const ordinal = seen.get(base) || 0;
    seen.set(base, ordinal + 1);
    const labor = peer.labor || {};
    const failures = labor.failures && known(labor.failures.total) ? labor.failures.total : peer.fails || 0;
    return { ...peer, labor, failures, key: base + ordinal, title: String(peer.name || peer.server || '?') };
  });
}

// For how long a server has been slow, seconds, as far as the points go back; infinite when it was at the first of them.
function slowFor(upstream, server, usable) {
  const { times, series } = upstream;
  const own = series.get(server.key).latency;
  let i = times.length - 1;
  for (; i >= 0; i -= 1) {
    const speeds = usable.map((other) => series.get(other.key).latency[i]).filter(known).sort((a, b) => a - b);
    // Points without an answer decide nothing.
    if (known(own[i]) && speeds.length > 1 && own[i] < SLOW * speeds[Math.floor((speeds.length - 1) / 4)]) break;
  }
  return i < 0 ? Infinity : (times[times.length - 1] - times[i]) / 1000;
}

// Who needs a look: level 0 well, 1 worth knowing, 2 needs someone.
function judge(upstream) {
  const usable = upstream.servers.filter((server) => known(server.labor.latency_us) && !server.backup && server.labor.state !== 'down');
  const speeds = usable.map((server) => server.labor.latency_us).sort((a, b) => a - b);
  const typical = speeds.length > 1 ? speeds[Math.floor((speeds.length - 1) / 4)] : null;
  for (const server of upstream.servers) {
    const code = server.labor.state || server.state || 'up';
    const [word, level, meaning] = STATES[code] || [String(code), 1, 'a state this page does not know'];
    Object.assign(server, { code, word, level, meaning, ratio: null });
    const ratio = typical && known(server.labor.latency_us) ? server.labor.latency_us / typical : null;
    if (ratio >= SLOW && server.labor.latency_us - typical >= TRIFLE && level === 0) Object.assign(server, { ratio, level: 1, slow: true });
    if (server.labor.learning === false && server.level === 0) Object.assign(server, { level: 1, unlearned: true });
  }
  upstream.typical = typical;
  for (const server of upstream.servers) if (server.slow) server.slowFor = slowFor(upstream, server, usable);
  upstream.level = Math.max(0, ...upstream.servers.map((server) => server.level));
}
