// Times and durations as text. Pure: the clock and the zone are arguments.

export type Zone = 'utc' | 'local';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const zoneOf = (zone: Zone) => (zone === 'utc' ? 'UTC' : undefined);

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: Zone, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  const known = formats.get(key);
  if (known) return known;
  const made = new Intl.DateTimeFormat('en-GB', { ...options, timeZone: zoneOf(zone), hourCycle: 'h23' });
  formats.set(key, made);
  return made;
}

const clockOptions: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', second: '2-digit' };
const dayOptions: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short' };

/** `09:42:07`, without the date. */
export function clock(at: number, zone: Zone): string {
  return format(zone, clockOptions).format(at);
}

/** The milliseconds of a time, as `.318`. */
export function fraction(at: number): string {
  return `.${String(((at % SECOND) + SECOND) % SECOND).padStart(3, '0')}`;
}

/** `09:42`, for axes. */
export function hourMinute(at: number, zone: Zone): string {
  return format(zone, { hour: '2-digit', minute: '2-digit' }).format(at);
}

/** `16 Nov`, with the year if it is not the year of `now`. */
export function day(at: number, now: number, zone: Zone): string {
  const year = (time: number) => format(zone, { year: 'numeric' }).format(time);
  const options = year(at) === year(now) ? dayOptions : { ...dayOptions, year: 'numeric' as const };
  return format(zone, options).format(at);
}

export function isSameDay(a: number, b: number, zone: Zone): boolean {
  const whole = format(zone, { day: 'numeric', month: 'numeric', year: 'numeric' });
  return whole.format(a) === whole.format(b);
}

/** The time in a list: the clock today, day and minute before. */
export function listTime(at: number, now: number, zone: Zone): string {
  return isSameDay(at, now, zone) ? clock(at, zone) : `${day(at, now, zone)} ${hourMinute(at, zone)}`;
}

/** The time in a detail: date and clock, with the zone. */
export function fullTime(at: number, now: number, zone: Zone): string {
  const date = isSameDay(at, now, zone) ? '' : `${day(at, now, zone)} `;
  return `${date}${clock(at, zone)}${zone === 'utc' ? ' UTC' : ''}`;
}

/** What a pointer over a time shows: UTC, local and ISO. */
export function tooltip(at: number, now: number): string {
  const local = `${day(at, now, 'local')} ${clock(at, 'local')} local`;
  return `${day(at, now, 'utc')} ${clock(at, 'utc')} UTC\n${local}\n${new Date(at).toISOString()}`;
}

/** A duration in two units, `6 m 48 s`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  const rest = Math.max(0, ms);
  if (rest < SECOND) return `${Math.round(rest)} ms`;
  if (rest < 10 * SECOND) return `${(Math.floor(rest / 100) / 10).toFixed(1).replace('.0', '')} s`;
  if (rest < MINUTE) return `${Math.floor(rest / SECOND)} s`;
  if (rest < HOUR) return two(rest, MINUTE, 'm', SECOND, 's');
  if (rest < DAY) return two(rest, HOUR, 'h', MINUTE, 'm');
  return two(rest, DAY, 'd', HOUR, 'h');
}

function two(ms: number, big: number, bigName: string, small: number, smallName: string): string {
  const first = Math.floor(ms / big);
  const second = Math.floor((ms % big) / small);
  return second === 0 ? `${first} ${bigName}` : `${first} ${bigName} ${second} ${smallName}`;
}

/** Whole seconds until `at`, never negative: a countdown. */
export function remaining(at: number, now: number): string {
  const left = Math.ceil((at - now) / SECOND) * SECOND;
  if (left <= 0) return 'due now';
  return left < MINUTE ? `${left / SECOND} s` : duration(left);
}

/** `29 min ago`, `in 4 h`. */
export function ago(at: number, now: number): string {
  const past = now - at;
  if (Math.abs(past) < 2 * SECOND) return 'now';
  const size = one(Math.abs(past));
  return past > 0 ? `${size} ago` : `in ${size}`;
}

function one(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** Ranges of charts, by their name in the URL. */
export const ranges = { '15m': 15 * MINUTE, '1h': HOUR, '6h': 6 * HOUR, '24h': DAY, '7d': 7 * DAY } as const;
export type Range = keyof typeof ranges;
export const isRange = (text: unknown): text is Range => typeof text === 'string' && text in ranges;

/** An ISO time for `datetime-local` inputs, in the zone. */
export function toInput(at: number, zone: Zone): string {
  const shift = zone === 'utc' ? 0 : new Date(at).getTimezoneOffset() * MINUTE;
  return new Date(at - shift).toISOString().slice(0, 16);
}

/** The time that a `datetime-local` input holds, or null. */
export function fromInput(text: string, zone: Zone): number | null {
  const at = Date.parse(zone === 'utc' ? `${text}Z` : text);
  return Number.isNaN(at) ? null : at;
}
