// Delivery policies: the schedule that a back-off gives, and the forms of its values. Pure.

export type Backoff = number[] | { baseSeconds: number; capSeconds: number };
export type Setting<T> = { value: T; from: string; forEventType?: boolean };

/** The delays before each attempt in seconds; the first attempt is at once. */
export function delaysOf(backoff: Backoff, maxAttempts: number): number[] {
  const delays = [0];
  for (let retry = 0; retry < Math.min(maxAttempts, 200) - 1; retry += 1) {
    if (Array.isArray(backoff)) {
      // The last delay of a list repeats.
      delays.push(backoff[Math.min(retry, backoff.length - 1)] ?? 0);
    } else {
      delays.push(Math.min(backoff.capSeconds, backoff.baseSeconds * 2 ** retry));
    }
  }
  return delays;
}

/** A list of seconds such as `5, 60, 3600`; null if it is not one. */
export function parseDelays(text: string): number[] | null {
  const parts = text.split(/[\s,]+/).filter(Boolean);
  const numbers = parts.map(Number);
  return parts.length > 0 && numbers.every((value) => Number.isInteger(value) && value >= 0) ? numbers : null;
}

/** Final statuses: numbers and classes such as `4xx`; null if one is neither. */
export function parseStatuses(text: string): (number | string)[] | null {
  const parts = text.split(/[\s,]+/).filter(Boolean);
  const values = parts.map((part) =>
    /^\d{3}$/.test(part) ? Number(part) : /^[1-5]xx$/i.test(part) ? part.toLowerCase() : null,
  );
  return values.includes(null) ? null : (values as (number | string)[]);
}

export type Level = 'endpoint' | 'application' | 'environment';

/** The origin of a value, as seen from a level. */
export const originText = (from: string, level: Level): string =>
  from === level ? 'set here' : from === 'server' ? 'default' : from;
