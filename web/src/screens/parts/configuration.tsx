// The settings of the server with their sources. The server redacts secrets.

import { useQuery } from '@tanstack/react-query';
import { raw } from '../../api/client';
import { plural } from '../../lib/text';
import { FilterBar, SearchBox } from '../../ui/filters';
import { Empty, Failure, Skeleton } from '../../ui/status';
import { DataTable, type Column } from '../../ui/table';
import { useUrl } from '../../url';

type Setting = { name: string; value: unknown; source: string };

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
const empty = (value: unknown): boolean => value === '' || (Array.isArray(value) && value.length === 0);

const columns: Column<Setting>[] = [
  {
    id: 'name',
    header: 'Setting',
    width: 300,
    narrow: 'a',
    cell: (row) => <span className="mono med">{row.name}</span>,
  },
  {
    id: 'value',
    header: 'Value',
    narrow: 'c',
    cell: (row) =>
      empty(row.value) ? (
        <span className="t3">empty</span>
      ) : (
        <span className="mono t2" title={text(row.value)}>
          {text(row.value)}
        </span>
      ),
  },
  {
    id: 'source',
    header: 'Source',
    width: 360,
    narrow: 'b',
    cell: (row) =>
      row.source === 'default' ? <span className="t3">default</span> : <span className="mono">{row.source}</span>,
  },
];

export function Configuration() {
  const [url, setUrl] = useUrl();
  const query = useQuery({ queryKey: ['config'], queryFn: () => raw<{ data: Setting[] }>('GET', '/api/v1/config') });
  const wanted = (url.q ?? '').toLowerCase();
  const rows = query.data?.data.filter((row) =>
    `${row.name} ${text(row.value)} ${row.source}`.toLowerCase().includes(wanted),
  );
  const changed = query.data?.data.filter(({ source }) => source !== 'default').length ?? 0;
  return (
    <div className="col grow">
      <FilterBar>
        <SearchBox
          value={url.q ?? ''}
          placeholder="Name, value or source"
          onChange={(q) => setUrl({ q: q || undefined }, { replace: true })}
        />
      </FilterBar>
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what="The configuration" retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={12} />}
        {rows?.length === 0 && <Empty title="No settings match" />}
        {rows && rows.length > 0 && (
          <DataTable label="Configuration" columns={columns} rows={rows} rowId={(row) => row.name} />
        )}
      </div>
      <footer className="foot">
        <span>{query.data && `${plural(query.data.data.length, 'setting')}, ${changed} not by default`}</span>
        <span className="hide-narrow">Of the node that answered; secrets are redacted</span>
      </footer>
    </div>
  );
}
