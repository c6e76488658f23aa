// The states and filters of the lists of messages.

import { useQuery } from '@tanstack/react-query';
import { useDead } from '../../api/dead';
import { eventTypesQuery } from '../../api/queries';
import { fullTime } from '../../lib/time';
import { usePreferences } from '../../preferences';
import { Button } from '../../ui/controls';
import { Filter, FilterBar } from '../../ui/filters';
import { Tabs } from '../../ui/page';
import { Views } from '../../ui/views';
import { useUrl, type Search } from '../../url';

const tabs = [
  ['', 'All'],
  ['pending', 'Waiting'],
  ['sending', 'Sending'],
  ['held', 'Held'],
  ['dead', 'Dead'],
] as const;

export const filterNames = ['type', 'tag', 'channel', 'after', 'before', 'text'] as const;
const viewNames = [...filterNames, 'status', 'app'] as const;

/** `payloads`: whether the list can search in payloads. */
export function Filters({ payloads }: { payloads?: boolean }) {
  const [url, setUrl] = useUrl();
  const { zone } = usePreferences();
  const types = useQuery(eventTypesQuery());
  const options = (types.data?.data ?? []).map(({ name }) => [name, name] as const);
  const set = (name: string) => (value: string | undefined) =>
    setUrl({ [name]: value, cursor: undefined, open: undefined });
  const time = (name: 'after' | 'before') => (value: string | undefined) =>
    set(name)(value ? new Date(zone === 'utc' ? `${value}Z` : value).toISOString() : undefined);
  const show = (value: string) => fullTime(Date.parse(value), Date.now(), zone);
  return (
    <FilterBar end={<Views screen="messages" names={viewNames} />}>
      <Filter name="Type" value={url.type} onChange={set('type')} options={options.length > 0 ? options : undefined} />
      <Filter name="Tag" value={url.tag} onChange={set('tag')} />
      <Filter name="Channel" value={url.channel} onChange={set('channel')} />
      <Filter
        name="Text in payload"
        value={url.text}
        onChange={set('text')}
        hint="The exact text, with regard to case"
        blocked={payloads ? undefined : 'Payloads are searched in the list of all states.'}
      />
      <Filter
        name="After"
        value={url.after}
        onChange={time('after')}
        type="datetime-local"
        show={show}
        hint={zone === 'utc' ? 'UTC' : 'Local time'}
      />
      <Filter
        name="Before"
        value={url.before}
        onChange={time('before')}
        type="datetime-local"
        show={show}
        hint={zone === 'utc' ? 'UTC' : 'Local time'}
      />
      {filterNames.some((name) => url[name]) && (
        <Button
          kind="ghost"
          size="sm"
          onClick={() =>
            setUrl({ ...Object.fromEntries(filterNames.map((name) => [name, undefined])), cursor: undefined })
          }
        >
          Clear filters
        </Button>
      )}
    </FilterBar>
  );
}

export function StateTabs({ state }: { state: string }) {
  const [url] = useUrl();
  const dead = useDead();
  // Only the lists of all states search in payloads.
  const keep: Search = Object.fromEntries(
    filterNames.filter((name) => name !== 'text').map((name) => [name, url[name]]),
  );
  return (
    <Tabs
      label="States"
      tabs={tabs.map(([key, label]) => ({
        label,
        to: '/messages',
        search: { ...keep, app: url.app, status: key || undefined },
        active: key === state,
        number: key === 'dead' && !url.app ? dead.deliveries : undefined,
      }))}
    />
  );
}
