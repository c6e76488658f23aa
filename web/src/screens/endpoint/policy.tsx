// The delivery policy of an endpoint: values in force with their origin, its own settings, and its filter.

import { useQuery } from '@tanstack/react-query';
import { raw } from '../../api/client';
import { eventTypesQuery } from '../../api/queries';
import type { Endpoint } from '../../api/types';
import { offers } from '../../capabilities';
import { useMay } from '../../session';
import { SelectField } from '../../ui/controls';
import { Loaded } from '../../ui/status';
import { useUrl } from '../../url';
import { PolicyForm, type Effective, type Own } from '../parts/policy-form';
import { FilterCard } from './filter-card';

export function Policy({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const base = `/api/v1/app/${encodeURIComponent(app)}/endpoint/${endpoint.id}`;
  const may = useMay('PATCH /api/v1/app/{app_id}/endpoint/{endpoint_id}');
  const [url, setUrl] = useUrl();
  const types = useQuery(eventTypesQuery());
  const own = (endpoint.policy ?? {}) as Own;
  const names = [
    ...new Set([...Object.keys(own.eventTypes ?? {}), ...(types.data?.data ?? []).map(({ name }) => name)]),
  ].toSorted();
  const query = useQuery({
    queryKey: ['endpoints', 'policy', app, endpoint.id, url.type],
    queryFn: () => raw<Effective>('GET', `${base}/policy`, { query: { event_type: url.type } }),
  });
  return (
    <>
      {names.length > 0 && (
        <div className="for-type">
          <SelectField
            label="In force for"
            value={url.type ?? ''}
            options={[['', 'Every event type without own settings'], ...names.map((name) => [name, name] as const)]}
            onChange={(type) => setUrl({ type: type || undefined }, { replace: true })}
          />
        </div>
      )}
      <Loaded query={query} what="The policy">
        {(effective) => (
          <PolicyForm
            key={JSON.stringify([effective, own])}
            level="endpoint"
            effective={effective}
            own={own}
            may={may}
            read={async () => (await raw<{ policy?: Own }>('GET', base)).policy}
            write={(policy) => raw('PATCH', base, { body: { policy } })}
            nouns={['endpoints']}
          />
        )}
      </Loaded>
      {offers.filterTest && <FilterCard app={app} endpoint={endpoint} base={base} />}
    </>
  );
}
