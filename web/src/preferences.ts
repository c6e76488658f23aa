// Choices of the person, kept in the browser: theme, time zone, live updates, shortcuts.

import { useSyncExternalStore } from 'react';
import type { Zone } from './lib/time';

export type Theme = 'system' | 'light' | 'dark';
export type Preferences = { theme: Theme; zone: Zone; live: boolean; shortcuts: boolean; app: string };

const KEY = 'everhook.preferences';
const initial: Preferences = { theme: 'system', zone: 'utc', live: true, shortcuts: true, app: '' };
let current = read();
const listeners = new Set<() => void>();

function read(): Preferences {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return { ...initial, ...(typeof stored === 'object' ? stored : {}) };
  } catch {
    return initial;
  }
}

export function setPreference<K extends keyof Preferences>(name: K, value: Preferences[K]): void {
  current = { ...current, [name]: value };
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // Storage is full or forbidden: the choice holds until the page is closed.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

export function applyTheme(): void {
  const root = document.documentElement;
  if (current.theme === 'system') root.removeAttribute('data-theme');
  else root.setAttribute('data-theme', current.theme);
}

export const preferences = (): Preferences => current;

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function usePreferences(): Preferences {
  return useSyncExternalStore(subscribe, () => current);
}

/** Whether the page is dark now. */
export function isDark(): boolean {
  return current.theme === 'dark' || (current.theme === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
}
