// Asks nginx once a second, as long as somebody looks, and says in words when it gets no answer.

const PERIOD = 1000;
const PATIENCE = 8000;
const LARGE = 500000; // characters that are worth one period

class Poll {
  // show(answer, withHistory); say(text, bad) with '' when all is well.
  constructor(show, say) {
    Object.assign(this, { show, say, paused: false, history: true, lost: false, generation: null, last: 0, size: 0 });
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.soon(0); });
    addEventListener('online', () => this.soon(0));
  }

  soon(delay) {
    clearTimeout(this.timer);
    if (!this.paused && !document.hidden) this.timer = setTimeout(() => this.ask(), delay);
  }

  pause(on) {
    this.paused = on;
    if (on) clearTimeout(this.timer);
    else this.soon(0);
  }

  async ask() {
    if (this.busy) return;
    this.busy = true;
    const started = performance.now();
    // Points of a gap come from nginx's own memory.
    const history = this.history || Date.now() - this.last > 3 * STEP;
    let answer = null;
    try {
      answer = await this.get(history);
    } catch (error) {
      this.lost = true;
      this.say(this.words(error), true);
    }
    this.busy = false;
    // What is large is asked for less often, to spare the worker that answers.
    this.soon(Math.max(0, PERIOD * Math.max(1, this.size / LARGE) - (performance.now() - started)));
    if (answer) this.took(answer, history);
  }

  took(answer, history) {
    const generation = answer.zone ? answer.zone.generation : null;
    const reloaded = this.generation !== null && generation !== this.generation;
    this.generation = generation;
    this.last = Date.now();
    // Positions may mean other servers now.
    this.history = reloaded;
    if (this.lost) this.say('', false, 'nginx answers again, at ' + clock(this.last) + '.');
    else if (reloaded) this.say('', false, 'nginx reloaded its configuration at ' + clock(this.last) + '.');
    this.lost = false;
    this.show(answer, history);
  }

  async get(history) {
    const query = new URLSearchParams(location.search);
    query.delete('fields');
    if (history) query.set('history', '1');
    const asked = query.toString();
    const abort = new AbortController();
    const limit = setTimeout(() => abort.abort(), PATIENCE);
    try {
      const answer = await fetch(location.pathname + (asked ? '?' + asked : ''), {
        headers: { Accept: 'application/json' }, cache: 'no-store', credentials: 'same-origin', signal: abort.signal,
      });
      if (!answer.ok) throw { status: answer.status };
      const text = await answer.text();
      this.size = text.length;
      return parse(text);
    } finally {
      clearTimeout(limit);
    }
  }

  words({ status, name }) {
    const old = this.last ? ' Shown is how it was at ' + clock(this.last) + '.' : '';
    const on = ' Trying again every second.';
    if (status === 404) return 'nginx answers 404: labor_status is gone from this address. ' + 'Was the configuration changed?' + old + on;
    if (status === 401 || status === 403) return 'nginx answers ' + status + ': this address may not see the status any more.' + old + on;
    if (status === 'no status') return 'What answers at this address is not the status of labor (version 1).' + old + on;
    if (status) return 'nginx answers ' + status + '.' + old + on;
    if (name === 'AbortError') return 'nginx has not answered for ' + PATIENCE / 1000 + ' s.' + old + on;
    return 'No connection to nginx: it is stopped, or the network is.' + old + on;
  }
}

function parse(text) {
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // Said below, like anything else that is not the status.
  }
  if (!body || body.version !== 1 || typeof body.upstreams !== 'object') throw { status: 'no status' };
  return body;
}
