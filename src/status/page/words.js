// What the codes of the status mean, in words, and which of them need a person. Codes of later versions show as they are.

// state: [word, how bad (0 well, 1 to know, 2 needs someone), explanation]
const STATES = {
  up: ['up', 0, 'takes requests'],
  full: ['full', 1, 'as many requests as max_conns allows'],
  lowered: ['failing', 2, 'only trials until it is well again'],
  unavail: ['unavailable', 2, 'out for fail_timeout, after max_fails failures'],
  unhealthy: ['unhealthy', 2, 'its health checks fail'],
  open: ['broken off', 2, 'its circuit breaker is open'],
  half_open: ['half open', 1, 'its circuit breaker lets a few requests through'],
  ramping: ['ramping up', 1, 'it comes back step by step'],
  checking: ['unchecked', 1, 'waits for its first health check'],
  drain: ['draining', 1, 'it finishes what it has and gets nothing new'],
  draining: ['draining', 1, 'it finishes what it has and gets nothing new'],
  down: ['down', 1, 'taken out by hand'],
};

const REASONS = {
  lowered: 'began to fail', failing: 'began to fail', recovered: 'is well again', drained: 'drained', down: 'taken down', up: 'taken up',
  weight: 'weight changed', max_conns: 'max_conns changed', reset: 'statistics reset', reload: 'nginx reloaded',
  zone_full: 'no room in labor_zone', silent: 'went silent', answering: 'answers again', slower: 'became slower',
  faster: 'became faster', added: 'added', removed: 'removed', new: 'first answer', opened: 'breaker opened',
  half_open: 'breaker half open', closed: 'breaker closed', ramping: 'ramping up', check_failed: 'check failed',
  check_passed: 'check passed', unhealthy: 'check failed', healthy: 'check passed', load: 'load report', fail_open: 'nobody usable: the least bad is used',
};

// Reasons that are no news about trouble.
const CALM = new Set(['recovered', 'up', 'faster', 'answering', 'new', 'added', 'reload', 'closed', 'check_passed', 'healthy', 'reset']);

const PICKS = {
  fastest: 'fastest', tie: 'turn among equals', explore: 'to learn', trial: 'trial: well again?', sticky: 'sticky session',
  backup: 'backup', only: 'only one usable', panic: 'nobody usable: least bad',
  hash: 'home of its key', overflow: 'home of its key passed it on',
};

const FAILURES = { connect: 'no connection', timeout: 'time-out', reset: 'reset', header: 'bad header', status: 'bad status' };

const CHECKS = {
  passed: 'passed', connect: 'no connection', timeout: 'time-out', reset: 'broken off', header: 'no valid answer', status: 'status',
  body: 'text not found', tls: 'TLS failed', not_serving: 'does not serve',
};

const SOURCES = { configuration: 'configured', api: 'api', state_file: 'state file' };

const reasonWord = (code) => REASONS[code] || String(code).replaceAll('_', ' ');

// A server this many times slower than the faster quarter of its upstream is called slow.
const SLOW = 3;
// … unless it is about less than this, µs.
const TRIFLE = 1000;

const FACTORS = [
  ['marginal', 'what one more costs those in flight'], ['silence', 'quiet with requests in flight'], ['failure', 'failing'],
  ['weight', 'weight'], ['ramp', 'ramping up'], ['load', 'its load report'],
];
