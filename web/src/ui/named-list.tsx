// A list of objects that have names, with the open one beside it. The URL holds the page and the name of the open one.

import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Page } from '../api/types';
import { useUrl } from '../url';
import { Split, stepper } from './panel';
import { Failure, Skeleton } from './status';
import { DataTable, Pager, type Column } from './table';

export type PanelProps = { name: string; onClose: () => void; onStep: (step: 1 | -1) => void };

type Props<T extends { name: string }> = {
  query: UseQueryResult<Page<T>>;
  /** The objects, as in `Alerts`. */
  label: string;
  columns: Column<T>[];
  empty: ReactNode;
  head?: ReactNode;
  panel: (props: PanelProps) => ReactNode;
};

const nameOf = (row: { name: string }) => row.name;

export function NamedList<T extends { name: string }>({ query, label, columns, empty, head, panel }: Props<T>) {
  const [url, setUrl] = useUrl();
  const rows = query.data?.data;
  const open = (row: T) => setUrl({ open: row.name }, { replace: url.open !== undefined });
  const list = (
    <>
      {head}
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what={`The list of ${label.toLowerCase()}`} retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={8} />}
        {rows?.length === 0 && empty}
        {rows && rows.length > 0 && (
          <DataTable
            label={label}
            keyboard
            columns={columns}
            rows={rows}
            rowId={nameOf}
            openId={url.open}
            onOpen={open}
          />
        )}
      </div>
      <Pager
        note="By name"
        page={query.data}
        cursor={url.cursor}
        go={(cursor) => setUrl({ cursor, open: undefined })}
        keys={[
          ['J K', 'move'],
          ['O', 'open'],
        ]}
      />
    </>
  );
  return (
    <Split
      list={list}
      panel={
        url.open &&
        panel({
          name: url.open,
          onClose: () => setUrl({ open: undefined }),
          onStep: stepper(rows ?? [], nameOf, url.open, open),
        })
      }
    />
  );
}
