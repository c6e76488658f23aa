// The newest messages of all applications.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ArrowUp } from 'lucide-react';
import { allMessagesQuery, appsQuery, useHeld, usePoll } from '../../api/queries';
import type { PlacedMessage } from '../../api/types';
import { tallyChips } from '../../lib/state';
import { plural } from '../../lib/text';
import { Fan, Id, Tags } from '../../ui/atoms';
import { Split, stepper } from '../../ui/panel';
import { Failure, Skeleton } from '../../ui/status';
import { DataTable, Pager, useSelection, type Column } from '../../ui/table';
import { ListTime } from '../../ui/time';
import { useUrl } from '../../url';
import { ChosenBar, useMayWork, type Chosen } from './chosen';
import { filterNames, Filters, StateTabs } from './message-filters';
import { MessagePanel } from './message-panel';
import { NoApp, NoMessages, Searched } from './no-messages';

const rowId = (row: PlacedMessage) => `${row.appId}/${row.id}`;

const chosenOf = (id: string): Chosen => {
  const [app = '', msg = ''] = id.split('/');
  return { app, msg };
};

const columns: Column<PlacedMessage>[] = [
  { id: 'time', header: 'Accepted', width: 128, narrow: 'b', cell: (row) => <ListTime at={row.timestamp} exact /> },
  {
    id: 'type',
    header: 'Type',
    narrow: 'a',
    cell: (row) => (
      <Link className="med" to="/apps/$app/messages/$msg" params={{ app: row.appId, msg: row.id }}>
        {row.eventType}
      </Link>
    ),
  },
  { id: 'app', header: 'Application', width: 180, narrow: 'c', cell: (row) => row.appName },
  {
    id: 'deliveries',
    header: 'Deliveries',
    width: 300,
    tight: 210,
    narrow: 'd',
    cell: (row) => (row.deliveries ? <Fan chips={tallyChips(row.deliveries)} /> : <span className="t3">…</span>),
  },
  {
    id: 'tags',
    header: 'Tags',
    width: 150,
    wide: true,
    narrow: 'drop',
    cell: (row) => <Tags names={[...row.channels, ...row.tags]} />,
  },
  {
    id: 'event',
    header: 'Event id',
    width: 190,
    wide: true,
    narrow: 'drop',
    cell: (row) => (row.eventId ? <span className="mono t2">{row.eventId}</span> : ''),
  },
  { id: 'id', header: 'Id', width: 150, wide: true, narrow: 'drop', cell: (row) => <Id id={row.id} /> },
];

export function AllMessages({ onSend }: { onSend?: () => void }) {
  const [url, setUrl] = useUrl();
  const poll = usePoll();
  const filter = {
    cursor: url.cursor,
    type: url.type,
    tag: url.tag,
    channel: url.channel,
    after: url.after,
    before: url.before,
    text: url.text,
  };
  const query = useQuery({ ...allMessagesQuery(filter), refetchInterval: url.cursor ? false : poll });
  const apps = useQuery(appsQuery({ limit: 1 }));
  const may = useMayWork();
  const selection = useSelection();
  const { rows, waiting, release } = useHeld(
    query.data?.data,
    rowId,
    url.open !== undefined || selection.list.length > 0,
  );
  const open = (row: PlacedMessage) => setUrl({ open: rowId(row) }, { replace: url.open !== undefined });
  const { app, msg } = chosenOf(url.open ?? '');
  const chosen = rows?.find((row) => rowId(row) === url.open);
  const hasNoApp = apps.data?.data.length === 0;
  const next = query.data?.done === false ? (query.data.iterator ?? undefined) : undefined;
  const list = (
    <>
      <StateTabs state="" />
      <Filters payloads />
      {waiting > 0 && (
        <button type="button" className="newbar" onClick={release}>
          <ArrowUp className="i xs" aria-hidden="true" />
          {plural(waiting, 'new message')}
        </button>
      )}
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what="The list of messages" retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={14} />}
        {rows?.length === 0 &&
          (hasNoApp ? (
            <NoApp />
          ) : next ? (
            <Searched all go={() => setUrl({ cursor: next })} />
          ) : (
            <NoMessages app="acme" filtered={filterNames.some((name) => url[name])} onSend={onSend} />
          ))}
        {rows && rows.length > 0 && (
          <DataTable
            label="Messages"
            keyboard
            columns={columns}
            rows={rows}
            rowId={rowId}
            selection={may ? selection : undefined}
            openId={url.open}
            onOpen={open}
          />
        )}
        <ChosenBar
          noun="message"
          kinds={['cancel', 'replay']}
          rows={selection.list.map(chosenOf)}
          clear={selection.clear}
        />
      </div>
      <Pager
        note="Newest first"
        page={query.data}
        cursor={url.cursor}
        go={(cursor) => setUrl({ cursor, open: undefined })}
        keys={[
          ['J K', 'move'],
          ['O', 'open'],
          ['X', 'select'],
        ]}
      />
    </>
  );
  const panel = app && msg && (
    <MessagePanel
      key={url.open}
      app={app}
      msg={msg}
      eventType={chosen?.eventType}
      onClose={() => setUrl({ open: undefined })}
      onStep={stepper(rows ?? [], rowId, url.open, open)}
    />
  );
  return <Split list={list} panel={panel} />;
}
