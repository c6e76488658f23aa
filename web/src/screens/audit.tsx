// Who did what, to which object, and why. Entries are chained: a check finds a changed or missing one.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ScrollText, ShieldCheck } from 'lucide-react';
import { messageOf, raw } from '../api/client';
import { PAGE_ROWS, useChange } from '../api/queries';
import type { AuditCheck, AuditEntry, Page as ApiPage } from '../api/types';
import { actionText, resultOf } from '../lib/audit';
import { count } from '../lib/text';
import { fullTime } from '../lib/time';
import { usePreferences } from '../preferences';
import { useMay } from '../session';
import { CopyButton, StateText } from '../ui/atoms';
import { Button } from '../ui/controls';
import { Props } from '../ui/figures';
import { Filter, FilterBar } from '../ui/filters';
import { Page } from '../ui/page';
import { Panel, Split, stepper } from '../ui/panel';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, type Column } from '../ui/table';
import { FullTime, ListTime } from '../ui/time';
import { Views } from '../ui/views';
import { useUrl, type Search } from '../url';

const PATH = '/api/v1/audit';
const filterNames = ['actor', 'action', 'object', 'since', 'until'] as const;
const rowId = (row: AuditEntry) => String(row.seq);

const columns: Column<AuditEntry>[] = [
  { id: 'at', header: 'Time', width: 128, narrow: 'b', cell: (row) => <ListTime at={row.at} exact /> },
  {
    id: 'action',
    header: 'Action',
    width: 260,
    tight: 190,
    narrow: 'a',
    cell: (row) => (
      <Link className="med" to="/audit" search={(now: Search) => ({ ...now, open: rowId(row) })}>
        {actionText(row.action)}
      </Link>
    ),
  },
  {
    id: 'object',
    header: 'Object',
    narrow: 'c',
    cell: (row) => (
      <>
        <span className="n-unit">{row.actor} · </span>
        <span className="mono t2">{row.object}</span>
      </>
    ),
  },
  {
    id: 'actor',
    header: 'Key',
    width: 230,
    tight: 150,
    narrow: 'drop',
    cell: (row) =>
      row.principal ? (
        <>
          {row.actor} <span className="t3 s12">{row.principal}</span>
        </>
      ) : (
        row.actor
      ),
  },
  { id: 'result', header: 'Result', width: 130, narrow: 'd', cell: (row) => <StateText {...resultOf(row)} /> },
  {
    id: 'seq',
    header: 'Entry',
    width: 80,
    wide: true,
    num: true,
    narrow: 'drop',
    cell: (row) => <span className="mono t3">{row.seq}</span>,
  },
];

export default function Audit() {
  const [url, setUrl] = useUrl();
  const may = useMay(`GET ${PATH}/verify`);
  const search = {
    ...Object.fromEntries(filterNames.map((name) => [name, url[name]])),
    iterator: url.cursor,
    limit: String(PAGE_ROWS),
  };
  const query = useQuery({
    queryKey: ['audit', search],
    queryFn: () => raw<ApiPage<AuditEntry>>('GET', PATH, { query: search }),
  });
  const verify = useChange(() => raw<AuditCheck>('GET', `${PATH}/verify`), []);
  const rows = query.data?.data;
  const open = (row: AuditEntry) => setUrl({ open: rowId(row) }, { replace: url.open !== undefined });
  const chosen = rows?.find((row) => rowId(row) === url.open);
  const filtered = filterNames.some((name) => url[name]);
  const list = (
    <>
      <Filters />
      <div className="body listbody">
        {(verify.data ?? verify.error) && (
          <div className="pad">
            {verify.data ? <Check result={verify.data} /> : <Callout look="dead" title={messageOf(verify.error)} />}
          </div>
        )}
        {query.isError && !rows && (
          <Failure error={query.error} what="The audit log" retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={14} />}
        {rows?.length === 0 && (
          <Empty
            icon={ScrollText}
            title={filtered ? 'No entries match' : 'No entries yet'}
            action={
              filtered && (
                <Button onClick={() => setUrl(Object.fromEntries(filterNames.map((name) => [name, undefined])))}>
                  Clear filters
                </Button>
              )
            }
          />
        )}
        {rows && rows.length > 0 && (
          <DataTable
            label="Audit log"
            keyboard
            columns={columns}
            rows={rows}
            rowId={rowId}
            openId={url.open}
            onOpen={open}
          />
        )}
      </div>
      <Pager
        note="Newest first"
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
    <Page
      title="Audit log"
      tools={
        may && (
          <Button icon={ShieldCheck} busy={verify.isPending} onClick={() => verify.mutate(undefined)}>
            Verify
          </Button>
        )
      }
    >
      <Split
        list={list}
        panel={
          chosen && (
            <EntryPanel
              key={chosen.seq}
              entry={chosen}
              onClose={() => setUrl({ open: undefined })}
              onStep={stepper(rows ?? [], rowId, url.open, open)}
            />
          )
        }
      />
    </Page>
  );
}

const viewNames = ['actor', 'action', 'object', 'since', 'until'] as const;

function Filters() {
  const [url, setUrl] = useUrl();
  const { zone } = usePreferences();
  const set = (name: string) => (value: string | undefined) =>
    setUrl({ [name]: value, cursor: undefined, open: undefined });
  const time = (name: string) => (value: string | undefined) =>
    set(name)(value ? new Date(zone === 'utc' ? `${value}Z` : value).toISOString() : undefined);
  const show = (value: string) => fullTime(Date.parse(value), Date.now(), zone);
  return (
    <FilterBar end={<Views screen="audit" names={viewNames} />}>
      <Filter name="Key" value={url.actor} onChange={set('actor')} />
      <Filter name="Action" value={url.action} onChange={set('action')} hint="Such as v1.queue.pause" />
      <Filter name="Object" value={url.object} onChange={set('object')} hint="The beginning of its path" />
      <Filter
        name="Since"
        value={url.since}
        onChange={time('since')}
        type="datetime-local"
        show={show}
        hint={zone === 'utc' ? 'UTC' : 'Local time'}
      />
      <Filter
        name="Until"
        value={url.until}
        onChange={time('until')}
        type="datetime-local"
        show={show}
        hint={zone === 'utc' ? 'UTC' : 'Local time'}
      />
    </FilterBar>
  );
}

function Check({ result }: { result: AuditCheck }) {
  if (!result.valid) {
    return (
      <Callout look="dead" title={`The log is broken after entry ${result.seq}.`}>
        {result.problem ?? 'The next entry does not follow.'} Compare it with a backup.
      </Callout>
    );
  }
  return (
    <Callout
      look="delivered"
      title={`${count(result.checked)} entries follow each other${result.done ? '' : ', and more were not checked'}.`}
      action={<CopyButton text={`${result.seq} ${result.hash}`} label="Copy the last hash" />}
    >
      Entry {result.seq} has the hash <span className="mono">{result.hash.slice(0, 16)}…</span> Note it elsewhere, to
      detect a log that is cut off later.
    </Callout>
  );
}

function EntryPanel({
  entry,
  onClose,
  onStep,
}: {
  entry: AuditEntry;
  onClose: () => void;
  onStep: (step: 1 | -1) => void;
}) {
  const hash = (text: string | undefined) =>
    text ? (
      <span key={text} className="row">
        <span className="mono cut">{text}</span>
        <CopyButton text={text} label="Copy the hash" />
      </span>
    ) : undefined;
  const items: [string, React.ReactNode][] = [
    ['Time', <FullTime key="t" at={entry.at} />],
    ['Key', entry.actor],
    ['Person', entry.principal],
    [
      'Action',
      <span key="a" className="mono">
        {entry.action}
      </span>,
    ],
    [
      'Object',
      <span key="o" className="mono">
        {entry.object}
      </span>,
    ],
    ['Reason', entry.reason],
    ['Result', <StateText key="r" {...resultOf(entry)} />],
    [
      'Operation',
      <span key="p" className="mono cut">
        {entry.operation}
      </span>,
    ],
    ['Request', hash(entry.requestHash)],
    ['Object before', hash(entry.beforeHash)],
    ['Object after', hash(entry.afterHash)],
    ['Hash', hash(entry.hash)],
  ];
  return (
    <Panel title={actionText(entry.action)} label="Entry" onClose={onClose} onStep={onStep}>
      <section>
        <Props items={items.filter(([, value]) => value !== undefined && value !== null)} />
      </section>
    </Panel>
  );
}
