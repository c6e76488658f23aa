// The HTTP client: typed calls by `openapi.json`, one form of failure, and the credentials of the page.
//
// The dashboard uses the session cookie and its CSRF token. The portal uses the token of one application. Neither is
// ever part of a URL.

import createClient, { type Middleware } from 'openapi-fetch';
import type { paths } from './schema';

export type FieldError = { field: string; message: string };

/** A request that failed, with the words of the server. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: string;
  readonly fields: FieldError[];
  readonly retryAfter: number | null;

  constructor(
    status: number,
    code: string,
    detail: string,
    fields: FieldError[] = [],
    retryAfter: number | null = null,
  ) {
    super(detail);
    this.name = 'ApiFailure';
    this.status = status;
    this.code = code;
    this.fields = fields;
    this.retryAfter = retryAfter;
  }
}

type Credentials = { csrf?: string; environment?: string; token?: string };
let credentials: Credentials = {};
let onUnauthenticated: () => void = () => undefined;

export function setCredentials(next: Credentials): void {
  credentials = next;
}

/** The current credentials; the portal switches them. */
export function onSignedOut(handler: () => void): void {
  onUnauthenticated = handler;
}

/** Headers that every request carries. */
export function authHeaders(method: string): Record<string, string> {
  const headers: Record<string, string> = {};
  if (credentials.token) headers.authorization = `Bearer ${credentials.token}`;
  if (credentials.csrf && method !== 'GET') headers['x-csrf-token'] = credentials.csrf;
  if (credentials.environment) headers['everhook-environment'] = credentials.environment;
  return headers;
}

const middleware: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(authHeaders(request.method))) request.headers.set(name, value);
    return request;
  },
  onError({ error }) {
    return error instanceof Error && error.name === 'AbortError' ? error : offline();
  },
};

const offline = () =>
  new ApiFailure(0, 'offline', 'The server does not answer. Check that it runs and that you are online.');

export const api = createClient<paths>({
  baseUrl: typeof location === 'undefined' ? 'http://localhost' : location.origin,
  credentials: 'same-origin',
  // Paths hold ids and names that customers choose.
  querySerializer: { array: { style: 'form', explode: true } },
});
api.use(middleware);

type Result<T> = { data?: T; error?: unknown; response: Response };

/** The body of an answer, or the failure as an exception. */
export async function ok<T>(call: Promise<Result<T>>): Promise<T> {
  const { data, error, response } = await call;
  if (response.ok) return data as T;
  throw failure(response, error);
}

/** A request that `openapi.json` does not describe yet. */
export async function raw<T>(
  method: string,
  path: string,
  options: { query?: Record<string, string | undefined>; body?: unknown } = {},
): Promise<T> {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, value);
  }
  const headers: Record<string, string> = { ...authHeaders(method), accept: 'application/json' };
  if (options.body !== undefined) headers['content-type'] = 'application/json';
  let response: Response;
  try {
    const body = options.body === undefined ? undefined : JSON.stringify(options.body);
    response = await fetch(url, { method, headers, body, credentials: 'same-origin' });
  } catch {
    throw offline();
  }
  const text = await response.text();
  const parsed = parseJson(text);
  if (!response.ok) throw failure(response, parsed ?? text);
  return parsed as T;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Turns an answer into a failure. Text of proxies in between is not shown: only its status is. */
export function failure(response: Response, error: unknown): ApiFailure {
  const body = typeof error === 'string' ? parseJson(error) : error;
  const { code, detail } = (typeof body === 'object' && body !== null ? body : {}) as {
    code?: unknown;
    detail?: unknown;
  };
  const after = Number(response.headers.get('retry-after'));
  const retryAfter = Number.isFinite(after) && after > 0 ? after : null;
  if (response.status === 401 && !credentials.token) onUnauthenticated();
  if (Array.isArray(detail)) {
    const fields = detail.map(fieldError);
    const text = fields.map(({ field, message }) => (field ? `${field} ${message}` : message)).join('; ');
    return new ApiFailure(response.status, 'invalid', text, fields, retryAfter);
  }
  const text = typeof detail === 'string' ? detail : `The server answered ${response.status}.`;
  return new ApiFailure(response.status, typeof code === 'string' ? code : 'unknown', text, [], retryAfter);
}

function fieldError(entry: unknown): FieldError {
  const { loc, msg } = (entry ?? {}) as { loc?: unknown; msg?: unknown };
  const path = Array.isArray(loc) ? loc.map(String) : [];
  return { field: path.slice(1).join('.'), message: typeof msg === 'string' ? msg : 'is invalid' };
}

/** The sentence to show for any exception. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
