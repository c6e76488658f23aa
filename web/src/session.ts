// The signed-in key. The cookie is HttpOnly: the page knows only the name, the rights and the CSRF token.

import { useSyncExternalStore } from 'react';
import { ApiFailure, onSignedOut, raw, setCredentials } from './api/client';
import { operations } from './api/operations';
import type { Session } from './api/types';

type State = { status: 'unknown' } | { status: 'out' } | { status: 'in'; session: Session };

const ENVIRONMENT = 'everhook.environment';
let state: State = { status: 'unknown' };
const listeners = new Set<() => void>();

function set(next: State): void {
  state = next;
  const session = next.status === 'in' ? next.session : null;
  setCredentials(session ? { csrf: session.csrf, environment: chosenEnvironment(session) } : {});
  for (const listener of listeners) listener();
}

/** An admin key may look at any environment; the choice stays for the tab. */
function chosenEnvironment(session: Session): string | undefined {
  const wanted = sessionStorage.getItem(ENVIRONMENT);
  return session.environments?.some(({ id }) => id === wanted) ? (wanted ?? undefined) : undefined;
}

export function currentEnvironment(session: Session): string {
  const chosen = chosenEnvironment(session);
  return session.environments?.find(({ id }) => id === chosen)?.name ?? (session.name || session.environment);
}

export function chooseEnvironment(id: string): void {
  sessionStorage.setItem(ENVIRONMENT, id);
  location.assign('/');
}

onSignedOut(() => {
  if (state.status === 'in') set({ status: 'out' });
});

/** The session of the cookie; null without one. */
export async function loadSession(): Promise<Session | null> {
  if (state.status === 'in') return state.session;
  if (state.status === 'out') return null;
  try {
    const session = await raw<Session>('GET', '/auth/session');
    set({ status: 'in', session });
    return session;
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 401) {
      set({ status: 'out' });
      return null;
    }
    throw error;
  }
}

/** Signs in with a key, or with the code of a one-time link. */
export async function signIn(secret: { key: string } | { code: string }): Promise<Session> {
  const session = await raw<Session>('POST', '/auth/session', { body: secret });
  set({ status: 'in', session });
  return session;
}

export async function signOut(): Promise<void> {
  await raw('DELETE', '/auth/session');
  sessionStorage.removeItem(ENVIRONMENT);
  set({ status: 'out' });
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function useSession(): Session | null {
  const now = useSyncExternalStore(subscribe, () => state);
  return now.status === 'in' ? now.session : null;
}

/** Whether the key of a session may call an operation. A server without rights has keys that only read, and others. */
export function mayCall(session: Pick<Session, 'role' | 'rights'>, operation: string): boolean {
  const right = operations.get(operation) ?? '';
  if (session.rights && right) return session.rights.includes(right);
  return session.role !== 'read' || operation.startsWith('GET ');
}

/** Whether the session may call an operation, such as `POST /api/v1/app`. A button that would fail is not shown. */
export function useMay(operation: string): boolean {
  const session = useSession();
  return session !== null && mayCall(session, operation);
}
