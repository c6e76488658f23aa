// Numbers, ids, URLs and shell commands as text. Pure.

const grouped = new Intl.NumberFormat('en-US');

/** `1,188` */
export const count = (value: number): string => grouped.format(value);

/** `1 message`, `2 messages` */
export function plural(value: number, noun: string, nouns = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}

/** A reason of the API as the beginning of a sentence; `name`, such as an event type, keeps its small letters. */
export const sentence = (text: string, name: string): string =>
  text.startsWith(`${name} `) ? text : text.replace(/^./, (first) => first.toUpperCase());

/** SI sizes: `612 B`, `4.1 kB`. */
export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let size = value / 1000;
  let unit = 0;
  while (size >= 999.95 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** A share as a percentage: one digit below 99.9, two above, so that 99.96 % is not shown as 100 %. */
export function percent(share: number): string {
  const value = share * 100;
  if (value === 100 || value === 0) return String(value);
  if (value > 99.9) return (Math.floor(value * 100) / 100).toFixed(2);
  return value.toFixed(1);
}

/** A rate with at most three digits. */
export function rate(value: number): string {
  if (value === 0) return '0';
  if (value < 0.01) return '<0.01';
  if (value < 10) return String(Number(value.toFixed(2)));
  if (value < 100) return String(Number(value.toFixed(1)));
  return count(Math.round(value));
}

/** Ids shorten at the left: their first characters are the time, and equal among neighbours. */
export function shortId(id: string): string {
  const cut = id.indexOf('_');
  if (cut < 1 || id.length - cut <= 8) return id;
  return `${id.slice(0, cut + 1)}…${id.slice(-6)}`;
}

export type UrlParts = { insecure: boolean; host: string; path: string };

/** Splits a URL for display: the host is strong, the path is muted, the scheme matters only if it is http. */
export function urlParts(url: string): UrlParts {
  const match = /^(https?):\/\/([^/?#]*)(.*)$/is.exec(url);
  if (!match) return { insecure: false, host: url, path: '' };
  const [, scheme = '', host = '', path = ''] = match;
  return { insecure: scheme.toLowerCase() === 'http', host, path: path === '/' ? '' : path };
}

/** Quotes a value for a POSIX shell. */
export function shellQuote(value: string): string {
  return `'${value.replaceAll("'", `'\\''`)}'`;
}

export type Curl = { method?: string; url: string; body?: string; headers?: Record<string, string> };

/** A command that works as copied, with the key as `$KEY`. */
export function curl({ method = 'GET', url, body, headers = {} }: Curl): string {
  const lines = [`curl -sS ${shellQuote(url)}`, `-H "Authorization: Bearer $KEY"`];
  if (method !== 'GET' && !(method === 'POST' && body !== undefined)) lines.splice(1, 0, `-X ${method}`);
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${shellQuote(`${name}: ${value}`)}`);
  if (body !== undefined) lines.push(`-H 'Content-Type: application/json'`, `-d ${shellQuote(body)}`);
  return lines.join(' \\\n  ');
}

/** The initials of a name, for the badge of the signed-in key. */
export function initials(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const letters = words.length > 1 ? [words[0], words[1]].map((word) => word?.[0]) : [words[0]?.slice(0, 2)];
  return letters.join('').toUpperCase() || '–';
}

/** A sentence in one line, at most `max` characters. */
export function clip(text: string, max: number): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > max ? `${line.slice(0, max - 1)}…` : line;
}

/** Whether a text looks like base64 of bytes, which the API returns for replies that are not text. */
export function isBinary(text: string): boolean {
  return text.length >= 64 && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
}

/** The length of a text in UTF-8. */
export const byteLength = (text: string): number => new TextEncoder().encode(text).length;
