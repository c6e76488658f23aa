// Live updates: the server says that something changed, and the visible queries are read again. Without the stream, or
// while the tab is hidden, polling goes on as before.

import { useEffect, useSyncExternalStore } from 'react';
import { preferences } from '../preferences';
import { authHeaders } from './client';
import { queryClient } from './queries';

/** A busy server sends many hints; the lists are read again at most this often. */
const PAUSE_MS = 1500;
const RETRY_MS = 5000;

let connected = false;
const listeners = new Set<() => void>();

function setConnected(next: boolean): void {
  if (next === connected) return;
  connected = next;
  for (const listener of listeners) listener();
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Whether the server tells about changes. */
export const useConnected = (): boolean => useSyncExternalStore(subscribe, () => connected);

/** Splits a stream of server-sent events into their names. Data is not used: events are hints. */
export function eventNames(buffer: string): { names: string[]; rest: string } {
  const blocks = buffer.split('\n\n');
  const rest = blocks.pop() ?? '';
  const names = blocks.flatMap((block) => /^event: ?(.+)$/m.exec(block)?.[1] ?? []);
  return { names, rest };
}

/** Calls `run` at once, and at most once in `ms` after that. A call in between is made at the end of the time. */
export function throttled(run: () => void, ms: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;
  const go = () => {
    run();
    timer = setTimeout(() => {
      timer = undefined;
      if (again) {
        again = false;
        go();
      }
    }, ms);
  };
  return () => {
    if (timer === undefined) go();
    else again = true;
  };
}

async function listen(signal: AbortSignal, onChange: () => void): Promise<'ended' | 'refused'> {
  const answer = await fetch('/auth/stream', {
    headers: { ...authHeaders('GET'), accept: 'text/event-stream' },
    credentials: 'same-origin',
    signal,
  });
  // A key of one application, or a server without the stream: polling is all there is.
  if (answer.status >= 400 && answer.status < 500) return 'refused';
  if (!answer.ok || !answer.body || !answer.headers.get('content-type')?.startsWith('text/event-stream'))
    throw new Error('no stream');
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return 'ended';
    const { names, rest } = eventNames(buffer + value);
    buffer = rest;
    for (const name of names) {
      if (name === 'ready') setConnected(true);
      else if (name === 'change') onChange();
      else if (name === 'end') return 'ended';
    }
  }
}

const refresh = throttled(() => {
  if (preferences().live)
    void queryClient.invalidateQueries({
      type: 'active',
      predicate: ({ options }) => Boolean((options as { refetchInterval?: unknown }).refetchInterval),
    });
}, PAUSE_MS);

/** Listens while the page is visible. A browser allows few connections to one server, and hidden tabs need none. */
export function useLiveUpdates(): void {
  useEffect(() => {
    let stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (signal: AbortSignal) => {
      let refused = false;
      try {
        refused = (await listen(signal, refresh)) === 'refused';
      } catch {
        // The connection broke: polling goes on.
      }
      setConnected(false);
      if (!signal.aborted && !refused) timer = setTimeout(() => void run(signal), RETRY_MS);
    };
    const start = () => {
      stop.abort();
      clearTimeout(timer);
      stop = new AbortController();
      if (document.visibilityState === 'visible') void run(stop.signal);
    };
    start();
    document.addEventListener('visibilitychange', start);
    return () => {
      document.removeEventListener('visibilitychange', start);
      stop.abort();
      clearTimeout(timer);
    };
  }, []);
}
