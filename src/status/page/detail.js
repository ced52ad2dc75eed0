// Why a server stands where it stands: its score taken apart, its answers counted.

class Detail {
  constructor() {
    this.list = h('dl', {});
    this.node = h('tr', { role: 'row', class: 'detail' }, h('td', { role: 'cell', colspan: COLUMNS.length }, this.list));
    this.items = new Map();
  }

  update(server, upstream) {
    const lines = [['Counts as', scoreWords(server)], ['Picked', countWords(server.labor.picks, PICKS)],
      ['Failures', failureWords(server)], ['Checks', checkWords(server)], ['Answers', answerWords(server)], ['Traffic', trafficWords(server)],
      ['Response times', null], ['Evidence', evidenceWords(server, upstream)]];
    const nodes = [];
    for (const [name, text] of lines) {
      let item = this.items.get(name);
      if (!item) this.items.set(name, item = { dt: h('dt', { text: name }), dd: h('dd', {}) });
      if (name === 'Response times') {
        const bars = histogram(server.labor.histogram);
        if (!bars) continue;
        item.dd.replaceChildren(bars);
      } else if (!text) continue;
      else setText(item.dd, text);
      nodes.push(item.dt, item.dd);
    }
    arrange(this.list, nodes);
  }
}

// Factors are sums in ln seconds, so each is a multiple of the response time.
function scoreWords({ labor }) {
  const { factors, score } = labor;
  if (!factors || !known(score) || !known(factors.speed)) return 'nothing is known of it yet';
  const parts = FACTORS.filter(([name]) => known(factors[name]) && Math.abs(factors[name]) >= 0.01)
    .map(([name, words]) => times(Math.exp(factors[name])) + ' (' + words + ')');
  const speed = ms(Math.exp(factors.speed) * 1e6);
  if (!parts.length) return speed + ', its expected response time';
  return ms(Math.exp(score) * 1e6) + ' = ' + [speed + ' (expected response time)', ...parts].join(' · ') + '. The smallest gets the request.';
}

function countWords(counts, words) {
  const list = Object.entries(counts || {}).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  return list.map(([key, n]) => group(n) + ' ' + (words[key] || key)).join(' · ') || 'never';
}

function failureWords({ labor, failures, fails, unavail }) {
  const kinds = { ...(labor.failures || {}) };
  const level = kinds.level;
  delete kinds.total;
  delete kinds.level;
  if (!failures) return 'none';
  return countWords(kinds, FAILURES) + (level > 0 ? ' · fails ' + percent(level) + ' of the time now' : '')
    + (unavail ? ' · unavailable ' + group(unavail) + ' times' : '') + (labor.aborts ? ' · clients left ' + group(labor.aborts) + ' times' : '');
}

function checkWords({ labor, health_checks: all }) {
  const { check } = labor;
  if (!check || !all) return '';
  if (!check.last) return 'none yet';
  const status = check.status && check.last === 'status' ? ' ' + check.status : '';
  return (CHECKS[check.last] || check.last) + status + ' ' + duration(check.seconds_ago) + ' ago'
    + (check.time_us && check.last === 'passed' ? ', took ' + ms(check.time_us) : '')
    + ' · ' + group(all.fails) + ' of ' + plural(all.checks, 'probe') + ' failed'
    + (all.unhealthy ? ' · unhealthy ' + (all.unhealthy === 1 ? 'once' : group(all.unhealthy) + ' times') : '')
    + (check.refreshed ? ' · stood in for answers ' + (check.refreshed === 1 ? 'once' : group(check.refreshed) + ' times') : '');
}

function answerWords({ responses, requests }) {
  const classes = Object.entries(responses || {}).filter(([key, n]) => /^\dxx$/.test(key) && n > 0);
  return plural(requests || 0, 'request') + classes.map(([key, n]) => ' · ' + group(n) + ' ' + key).join('');
}

function trafficWords({ sent, received, downtime, selected }) {
  const out = [];
  if (known(sent)) out.push(bytes(sent) + ' to it');
  if (known(received)) out.push(bytes(received) + ' from it');
  if (downtime) out.push('unavailable for ' + duration(downtime / 1000) + ' in all');
  if (selected) out.push('last picked at ' + clock(Date.parse(selected)));
  return out.join(' · ');
}

function evidenceWords({ labor }) {
  return known(labor.evidence) ? plural(Math.round(labor.evidence), 'recent answer') + ' stand behind its latency' : '';
}

// Log buckets as bars; empty ones at both ends left out.
function histogram(data) {
  if (!data || !Array.isArray(data.counts) || !Array.isArray(data.bounds)) return null;
  const first = data.counts.findIndex((n) => n > 0);
  if (first < 0) return null;
  const last = data.counts.findLastIndex((n) => n > 0);
  const counts = data.counts.slice(first, last + 1);
  const most = Math.max(...counts);
  const width = 300;
  const step = width / counts.length;
  const bars = counts.map((n, i) => s('rect', {
    x: i * step, width: Math.max(step - 1, 1), y: 40 - (n / most) * 38, height: (n / most) * 38,
  }, s('title', { text: 'up to ' + ms(data.bounds[first + i]) + ': ' + group(n) })));
  const from = first > 0 ? ms(data.bounds[first - 1]) : '≤ ' + ms(data.bounds[0]);
  const to = data.bounds[last] === undefined ? 'more' : ms(data.bounds[last]);
  return h('span', { class: 'histogram' }, h('span', { text: from }),
    s('svg', { viewBox: '0 0 ' + width + ' 40', role: 'img', 'aria-label': 'Histogram of response times from ' + from + ' to ' + to }, ...bars),
    h('span', { text: to }));
}
