// Figures and times as words for people.

const HOUR = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', hour12: false });
const CLOCK = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
const COUNT = new Intl.NumberFormat('en', { useGrouping: true, maximumFractionDigits: 0 });

const known = (value) => typeof value === 'number' && isFinite(value);
const group = (value) => COUNT.format(value).replaceAll(',', '\u202f');

// Three significant digits, no more decimals than two.
function digits(value) {
  const size = Math.abs(value);
  if (size >= 1000) return group(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? (size >= 20 ? 0 : 1) : size >= 0.9995 ? 1 : 2);
}

// Microseconds as milliseconds: one unit for all, so that digits can be compared down a column.
const ms = (us) => (known(us) ? digits(us / 1000) + ' ms' : '–');

// The same on an axis, where round numbers stand.
function axisTime(us) {
  if (us >= 1e6) return +(us / 1e6).toPrecision(3) + ' s';
  if (us >= 1e3) return +(us / 1e3).toPrecision(3) + ' ms';
  return +us.toPrecision(3) + ' µs';
}

function percent(share) {
  if (!known(share)) return '–';
  const value = share * 100;
  return (value === 0 ? '0' : value < 0.05 ? '<0.1' : value < 9.95 ? value.toFixed(1) : value.toFixed(0)) + ' %';
}

function rate(value) {
  if (!known(value)) return '–';
  return value === 0 ? '0' : value < 0.05 ? '<0.1' : value < 9.95 ? value.toFixed(1) : group(value);
}

function times(ratio) {
  return (ratio < 9.95 ? ratio.toFixed(1) : group(ratio)) + '×';
}

function duration(seconds) {
  if (!known(seconds)) return '–';
  const t = Math.max(0, seconds);
  if (t < 99.5) return Math.round(t) + ' s';
  if (t < 5970) return Math.round(t / 60) + ' min';
  if (t < 48 * 3600) return Math.floor(t / 3600) + ' h ' + Math.floor((t % 3600) / 60) + ' min';
  return Math.floor(t / 86400) + ' days';
}

const bytes = (value) => {
  if (!known(value)) return '–';
  let unit = 0;
  while (value >= 1000 && unit < 5) {
    value /= 1000;
    unit += 1;
  }
  return (unit ? digits(value) : group(value)) + ' ' + ['B', 'kB', 'MB', 'GB', 'TB', 'PB'][unit];
};

const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const plural = (n, word) => group(n) + ' ' + word + (n === 1 ? '' : 's');
const clock = (timestamp) => CLOCK.format(timestamp);
const hour = (timestamp) => HOUR.format(timestamp);
const shorten = (text, most) => (text.length > most ? text.slice(0, most - 1) + '…' : text);
