// The state of a view in its URL: filters, ranges, tabs and the open panel. All values are texts.

import { useNavigate, useSearch } from '@tanstack/react-router';

export type Search = Record<string, string | undefined>;

export function parseSearch(text: string): Search {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const entries = Object.entries(search).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string' && entry[1] !== '',
  );
  const text = new URLSearchParams(entries).toString();
  return text ? `?${text}` : '';
}

/** The search parameters of the page, and a function that changes some of them. */
export function useUrl(): [Search, (patch: Search, options?: { replace?: boolean }) => void] {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const change = (patch: Search, options: { replace?: boolean } = {}) => {
    const next = Object.fromEntries(Object.entries({ ...search, ...patch }).filter(([, value]) => value));
    // The types of the router know one route at a time; this function serves all of them.
    void navigate({ to: '.', search: next, replace: options.replace } as unknown as Parameters<typeof navigate>[0]);
  };
  return [search, change];
}
