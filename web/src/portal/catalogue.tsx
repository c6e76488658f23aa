// The events that the customer can get, with examples.

import { useQuery } from '@tanstack/react-query';
import { Tag } from 'lucide-react';
import { useState } from 'react';
import { eventTypesQuery } from '../api/queries';
import type { EventType } from '../api/types';
import { Badge } from '../ui/atoms';
import { Payload } from '../ui/json-view';
import { Empty, Loaded } from '../ui/status';
import { SearchBox } from '../ui/filters';
import { exampleOf } from '../screens/parts/example';

export function Catalogue() {
  const [text, setText] = useState('');
  const query = useQuery(eventTypesQuery());
  return (
    <>
      <div className="p-head">
        <h1>Event catalogue</h1>
        <SearchBox value={text} onChange={setText} placeholder="Find an event" />
      </div>
      <Loaded query={query} what="The catalogue">
        {({ data }) => {
          const found = data.filter(
            (type) => !type.archived && `${type.name} ${type.description}`.toLowerCase().includes(text.toLowerCase()),
          );
          if (found.length === 0)
            return <Empty icon={Tag} title={data.length === 0 ? 'No events are described yet' : 'No events match'} />;
          const groups = Map.groupBy(found, (type) => type.groupName ?? '');
          return [...groups].map(([group, types]) => (
            <section key={group} className="stack p-group">
              {group && <h2 className="s14">{group}</h2>}
              {types.map((type) => (
                <Entry key={type.name} type={type} />
              ))}
            </section>
          ));
        }}
      </Loaded>
    </>
  );
}

function Entry({ type }: { type: EventType }) {
  const example = exampleOf(type);
  const newest = Object.entries((type.schemas ?? {}) as Record<string, unknown>).sort(
    ([a], [b]) => Number(b) - Number(a),
  )[0];
  return (
    <details className="card p-entry">
      <summary>
        <b className="mono">{type.name}</b>
        <span className="t2">{type.description}</span>
        {type.deprecated && <Badge look="retrying" word="Deprecated" size="sm" />}
      </summary>
      <div className="in stack">
        {example && <Payload title="Example" value={example} />}
        {newest && <Payload title="Schema" value={newest[1]} />}
        {!newest && <p className="t3">This event has no schema.</p>}
      </div>
    </details>
  );
}
