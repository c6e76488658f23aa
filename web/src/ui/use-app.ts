// The application of lists that need one.

import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { appsQuery } from '../api/queries';
import { preferences, setPreference } from '../preferences';
import { useUrl } from '../url';

/**
 * The application of the URL, else the one that was used last, else the first. Returns the empty text until it is
 * known, and null if there is no application at all.
 */
export function useApp(): string | null {
  const [url, setUrl] = useUrl();
  const remembered = url.app ?? preferences().app;
  const { data } = useQuery({ ...appsQuery({ limit: 50 }), enabled: !url.app });
  const first = data?.data.find(({ id, uid }) => id === remembered || uid === remembered)?.id ?? data?.data[0]?.id;
  useEffect(() => {
    if (!url.app && first) setUrl({ app: first }, { replace: true });
    // Only a missing choice is filled in.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [url.app, first]);
  useEffect(() => {
    if (url.app && url.app !== preferences().app) setPreference('app', url.app);
  }, [url.app]);
  if (url.app) return url.app;
  return data && !first ? null : '';
}
