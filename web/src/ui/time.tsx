// Times that follow the zone of the preferences, and a shared clock.

import { useSyncExternalStore } from 'react';
import { ago, clock, fraction, fullTime, isSameDay, listTime, remaining, tooltip } from '../lib/time';
import { usePreferences } from '../preferences';

let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

// One timer for every countdown of the page.
function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, once a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** The time in a list. */
export function ListTime({ at, exact }: { at: string | number; exact?: boolean }) {
  const { zone } = usePreferences();
  const time = typeof at === 'number' ? at : Date.parse(at);
  const today = Date.now();
  return (
    <time className="time" dateTime={new Date(time).toISOString()} title={tooltip(time, today)}>
      {listTime(time, today, zone)}
      {exact && isSameDay(time, today, zone) && <i>{fraction(time)}</i>}
    </time>
  );
}

/** Date, time and age. */
export function FullTime({ at, age = true, exact }: { at: string; age?: boolean; exact?: boolean }) {
  const { zone } = usePreferences();
  const tick = useNow();
  const time = Date.parse(at);
  const text = exact ? `${clock(time, zone)}${fraction(time)}` : fullTime(time, tick, zone);
  return (
    <time dateTime={at} title={tooltip(time, tick)}>
      {text}
      {age && `, ${ago(time, tick)}`}
    </time>
  );
}

export function Ago({ at }: { at: string | number }) {
  const tick = useNow();
  const time = typeof at === 'number' ? at : Date.parse(at);
  return (
    <time dateTime={new Date(time).toISOString()} title={tooltip(time, tick)}>
      {ago(time, Math.max(tick, time))}
    </time>
  );
}

/** Counts down to a time; never negative. */
export function Countdown({ at }: { at: string }) {
  const tick = useNow();
  return <>{remaining(Date.parse(at), tick)}</>;
}

/** `in 4 h 37 m`, or `due now`. */
export function In({ at }: { at: string }) {
  const tick = useNow();
  const text = remaining(Date.parse(at), tick);
  return (
    <time dateTime={at} title={tooltip(Date.parse(at), tick)}>
      {text === 'due now' ? text : `in ${text}`}
    </time>
  );
}
