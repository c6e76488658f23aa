// Keyboard shortcuts. Single keys are off while a field has focus or a dialog is open.

import { useEffect, useRef } from 'react';
import { preferences } from './preferences';

type Keys = Record<string, () => unknown>;

/** Whether a key press belongs to a field, a dialog or the browser. */
function isTaken(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return true;
  const target = event.target;
  if (target instanceof HTMLElement) {
    if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
      return !(target instanceof HTMLInputElement && target.type === 'checkbox');
    }
    if (target.closest('[role="dialog"], [role="menu"]')) return true;
    if ((event.key === 'Enter' || event.key === ' ') && target.closest('a, button')) return true;
  }
  return document.querySelector('[role="dialog"]') !== null;
}

/** Runs an action by key. The newest component with a key wins. */
export function useKeys(keys: Keys, enabled = true): void {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  useEffect(() => {
    if (!enabled) return undefined;
    const listen = (event: KeyboardEvent) => {
      if (isTaken(event) || !preferences().shortcuts) return;
      const action = latest.current[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    };
    document.addEventListener('keydown', listen);
    return () => document.removeEventListener('keydown', listen);
  }, [enabled]);
}
