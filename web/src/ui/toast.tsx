// Short news at the edge of the page. Never the only place of an error.

import { X } from 'lucide-react';
import { Toast } from 'radix-ui';
import { useSyncExternalStore } from 'react';
import { messageOf } from '../api/client';
import { Glyph } from './atoms';
import { IconButton } from './controls';

type News = { id: number; title: string; text?: string; bad?: boolean; action?: { label: string; run: () => void } };

let list: News[] = [];
let next = 1;
const listeners = new Set<() => void>();

function set(news: News[]): void {
  list = news;
  for (const listener of listeners) listener();
}

export function toast(title: string, rest: Omit<News, 'id' | 'title'> = {}): void {
  set([...list.slice(-3), { id: next, title, ...rest }]);
  next += 1;
}

export const toastError = (title: string, error: unknown): void => toast(title, { text: messageOf(error), bad: true });

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

const NEWS_MS = 6000;
/** Errors stay until they are closed. */
const STAY_MS = 24 * 3_600_000;

export function Toasts() {
  const news = useSyncExternalStore(subscribe, () => list);
  return (
    <Toast.Provider swipeDirection="right" label="News">
      {news.map(({ id, title, text, bad, action }) => (
        <Toast.Root
          key={id}
          className="toast"
          duration={bad ? STAY_MS : NEWS_MS}
          onOpenChange={(open) => !open && set(list.filter((one) => one.id !== id))}
        >
          <Glyph look={bad ? 'dead' : 'delivered'} />
          <span className="grow">
            <Toast.Title asChild>
              <b>{title}</b>
            </Toast.Title>
            {text && (
              <Toast.Description asChild>
                <small>{text}</small>
              </Toast.Description>
            )}
          </span>
          {action && (
            <Toast.Action altText={action.label} asChild>
              <button type="button" className="btn sm ghost" onClick={action.run}>
                {action.label}
              </button>
            </Toast.Action>
          )}
          <Toast.Close asChild>
            <IconButton icon={X} label="Close" size="sm" />
          </Toast.Close>
        </Toast.Root>
      ))}
      <Toast.Viewport className="toasts" />
    </Toast.Provider>
  );
}
