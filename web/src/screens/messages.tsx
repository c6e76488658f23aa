// Find one message of millions.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ArrowUp, RotateCw, Send } from 'lucide-react';
import { useMemo, useState } from 'react';
import { deliveriesQuery, eventTypesQuery, fanQuery, messagesQuery, useHeld, usePoll } from '../api/queries';
import type { Delivery, Message } from '../api/types';
import { screens } from '../capabilities';
import { attemptLabel, deliveryState, fanOut } from '../lib/state';
import { curl, plural } from '../lib/text';
import { fullTime } from '../lib/time';
import { usePreferences } from '../preferences';
import { useMayChange } from '../session';
import { Code, Fan, Id, StateText, Tags } from '../ui/atoms';
import { Button } from '../ui/controls';
import { AppPicker, Filter, FilterBar } from '../ui/filters';
import { LiveButton, Page, Tabs } from '../ui/page';
import { OpenIcon, Panel, Split, stepper } from '../ui/panel';
import { Empty, Failure, Skeleton } from '../ui/status';
import { BulkBar, DataTable, Pager, useSelection, type Column } from '../ui/table';
import { In, ListTime } from '../ui/time';
import { useApp } from '../ui/use-app';
import { useUrl, type Search } from '../url';
import { AppName } from './parts/names';
import { MessagePanel } from './parts/message-panel';
import { ReplayDialog } from './parts/replay';
import { SendDialog } from './parts/send-message';

const tabs = [
  ['', 'All'],
  ['pending', 'Waiting'],
  ['sending', 'Sending'],
  ['held', 'Held'],
  ['dead', 'Dead'],
] as const;

const filterNames = ['type', 'tag', 'channel', 'after', 'before'] as const;

export default function Messages() {
  const [url, setUrl] = useUrl();
  const [sending, setSending] = useState(false);
  const may = useMayChange();
  const state = url.status ?? '';
  // States are listed over all applications; messages are listed by application.
  return (
    <Page
      title="Messages"
      heading={state ? <AppPicker app={url.app ?? ''} all onChange={(app) => setUrl({ app, cursor: undefined, open: undefined })} /> : <OneApp />}
      tools={
        <>
          <LiveButton />
          {may && (
            <Button kind="primary" icon={Send} onClick={() => setSending(true)}>
              Send message
            </Button>
          )}
        </>
      }
    >
      {state ? <ByState state={state} /> : <ByApp onSend={() => setSending(true)} />}
      {sending && <SendDialog app={url.app ?? ''} onClose={() => setSending(false)} />}
    </Page>
  );
}

function OneApp() {
  const app = useApp();
  const [, setUrl] = useUrl();
  return app ? <AppPicker app={app} onChange={(next) => setUrl({ app: next, cursor: undefined, open: undefined })} /> : null;
}

function Filters() {
  const [url, setUrl] = useUrl();
  const { zone } = usePreferences();
  const types = useQuery(eventTypesQuery());
  const options = (types.data?.data ?? []).map(({ name }) => [name, name] as const);
  const set = (name: string) => (value: string | undefined) => setUrl({ [name]: value, cursor: undefined, open: undefined });
  const time = (name: 'after' | 'before') => (value: string | undefined) => set(name)(value ? new Date(zone === 'utc' ? `${value}Z` : value).toISOString() : undefined);
  const show = (value: string) => fullTime(Date.parse(value), Date.now(), zone);
  return (
    <FilterBar>
      <Filter name="Type" value={url.type} onChange={set('type')} options={options.length > 0 ? options : undefined} />
      <Filter name="Tag" value={url.tag} onChange={set('tag')} />
      <Filter name="Channel" value={url.channel} onChange={set('channel')} />
      <Filter name="After" value={url.after} onChange={time('after')} type="datetime-local" show={show} hint={zone === 'utc' ? 'UTC' : 'Local time'} />
      <Filter name="Before" value={url.before} onChange={time('before')} type="datetime-local" show={show} hint={zone === 'utc' ? 'UTC' : 'Local time'} />
      {filterNames.some((name) => url[name]) && (
        <Button kind="ghost" size="sm" onClick={() => setUrl({ ...Object.fromEntries(filterNames.map((name) => [name, undefined])), cursor: undefined })}>
          Clear filters
        </Button>
      )}
    </FilterBar>
  );
}

function StateTabs({ state }: { state: string }) {
  const [url] = useUrl();
  const keep: Search = Object.fromEntries(filterNames.map((name) => [name, url[name]]));
  return (
    <Tabs
      label="States"
      tabs={tabs.map(([key, label]) => ({ label, to: '/messages', search: { ...keep, app: url.app, status: key || undefined }, active: key === state }))}
    />
  );
}

const messageId = (message: Message) => message.id;

function ByApp({ onSend }: { onSend: () => void }) {
  const [url, setUrl] = useUrl();
  const app = useApp();
  const may = useMayChange();
  const poll = usePoll();
  const selection = useSelection();
  const [replay, setReplay] = useState<string[] | null>(null);
  const filter = { cursor: url.cursor, type: url.type, tag: url.tag, channel: url.channel, after: url.after, before: url.before };
  const query = useQuery({ ...messagesQuery(app ?? '', filter), refetchInterval: url.cursor ? false : poll });
  const hold = url.open !== undefined || selection.list.length > 0;
  const { rows, waiting, release } = useHeld(query.data?.data, messageId, hold);
  const fan = useQuery({ ...fanQuery(app ?? '', rows ?? []), refetchInterval: poll });
  const open = (message: Message) => setUrl({ open: message.id }, { replace: url.open !== undefined });
  const columns = useMemo((): Column<Message>[] => {
    const deliveries = (message: Message) => {
      if (!fan.data) return <span className="t3">…</span>;
      const found = fan.data.byMessage.get(message.id) ?? [];
      if (found.length === 0 && !fan.data.complete) return <span className="t3">not counted</span>;
      return <Fan chips={fanOut(found.map(deliveryState))} />;
    };
    return [
      { id: 'time', header: 'Accepted', width: 128, narrow: 'b', cell: (row) => <ListTime at={row.timestamp} exact /> },
      {
        id: 'type',
        header: 'Type',
        narrow: 'a',
        cell: (row) => (
          <Link className="med" to="/apps/$app/messages/$msg" params={{ app: app ?? '', msg: row.id }}>
            {row.eventType}
          </Link>
        ),
      },
      { id: 'deliveries', header: 'Deliveries', width: 300, narrow: 'd', cell: deliveries },
      { id: 'tags', header: 'Tags', width: 150, wide: true, narrow: 'drop', cell: (row) => <Tags names={[...(row.channels ?? []), ...(row.tags ?? [])]} /> },
      { id: 'event', header: 'Event id', width: 190, wide: true, narrow: 'drop', cell: (row) => (row.eventId ? <span className="mono t2">{row.eventId}</span> : '') },
      { id: 'id', header: 'Id', width: 150, wide: true, narrow: 'c', cell: (row) => <Id id={row.id} /> },
    ];
  }, [app, fan.data]);

  const filtered = filterNames.some((name) => url[name]);
  const chosen = rows?.find((row) => row.id === url.open);
  const list = (
    <>
      <StateTabs state="" />
      <Filters />
      {waiting > 0 && (
        <button type="button" className="newbar" onClick={release}>
          <ArrowUp className="i xs" aria-hidden="true" />
          {plural(waiting, 'new message')}
        </button>
      )}
      <div className="body listbody">
        {app === null && <NoApp />}
        {query.isError && !rows && <Failure error={query.error} what="The list of messages" retry={() => void query.refetch()} />}
        {app !== null && !rows && !query.isError && <Skeleton rows={14} />}
        {rows?.length === 0 && <NoMessages app={app ?? ''} filtered={filtered} onSend={may ? onSend : undefined} />}
        {rows && rows.length > 0 && (
          <DataTable label="Messages" keyboard columns={columns} rows={rows} rowId={messageId} selection={may ? selection : undefined} openId={url.open} onOpen={open} panelOpen={url.open !== undefined} />
        )}
        <BulkBar count={selection.list.length} noun={selection.list.length === 1 ? 'message' : 'messages'} onClear={selection.clear}>
          <Button kind="primary" size="sm" icon={RotateCw} onClick={() => setReplay(selection.list)}>
            Replay
          </Button>
        </BulkBar>
      </div>
      <Pager note="Newest first" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor, open: undefined })} keys={[['J K', 'move'], ['O', 'open'], ['X', 'select']]} />
      {replay && (
        <ReplayDialog
          app={app ?? ''}
          messages={replay}
          onClose={() => {
            setReplay(null);
            selection.clear();
          }}
        />
      )}
    </>
  );
  const panel = url.open && app && (
    <MessagePanel key={url.open} app={app} msg={url.open} eventType={chosen?.eventType} onClose={() => setUrl({ open: undefined })} onStep={stepper(rows ?? [], messageId, url.open, open)} />
  );
  return <Split list={list} panel={panel} />;
}

function NoApp() {
  return (
    <Empty title="No application yet" command={curl({ method: 'POST', url: `${location.origin}/api/v1/app`, body: '{"name":"Acme","uid":"acme"}' })}>
      An application is a customer of yours. It owns endpoints and messages.
    </Empty>
  );
}

function NoMessages({ app, filtered, onSend }: { app: string; filtered: boolean; onSend?: () => void }) {
  const [, setUrl] = useUrl();
  if (filtered) {
    return (
      <Empty title="No messages match" action={<Button onClick={() => setUrl(Object.fromEntries(filterNames.map((name) => [name, undefined])))}>Clear filters</Button>}>
        The filters hide every message of this application.
      </Empty>
    );
  }
  return (
    <Empty
      title="No messages yet"
      command={curl({ method: 'POST', url: `${location.origin}/api/v1/app/${app}/msg`, body: '{"eventType":"invoice.paid","payload":{"id":"inv_1"}}' })}
      action={
        onSend && (
          <Button icon={Send} onClick={onSend}>
            Send message
          </Button>
        )
      }
    >
      A message is an event with a payload. Every endpoint that matches gets it.
    </Empty>
  );
}

const deliveryId = (row: Delivery) => `${row.msgId}/${row.endpointId}`;

const deliveryColumns: Column<Delivery>[] = [
  { id: 'time', header: 'Accepted', width: 128, narrow: 'b', cell: (row) => <ListTime at={row.timestamp} exact /> },
  {
    id: 'type',
    header: 'Type',
    narrow: 'a',
    cell: (row) => (
      <Link className="med" to="/apps/$app/messages/$msg/endpoints/$ep" params={{ app: row.appId, msg: row.msgId, ep: row.endpointId }}>
        {row.eventType}
      </Link>
    ),
  },
  { id: 'app', header: 'Application', width: 180, wide: true, narrow: 'c', cell: (row) => <AppName app={row.appId} /> },
  { id: 'state', header: 'State', width: 130, narrow: 'd', cell: (row) => <StateText {...deliveryState(row)} /> },
  { id: 'last', header: 'Last attempt', width: 120, narrow: 'drop', cell: (row) => (row.lastAttempt ? <Code bad={row.lastAttempt.class !== 'success'}>{attemptLabel(row.lastAttempt, row.lastAttempt.status)}</Code> : <span className="t3">none</span>) },
  { id: 'next', header: 'Next', width: 120, wide: true, narrow: 'drop', cell: (row) => (row.nextAttempt ? <In at={row.nextAttempt} /> : <span className="t3">–</span>) },
  { id: 'endpoint', header: 'Endpoint', width: 130, wide: true, narrow: 'drop', cell: (row) => <Id id={row.endpointId} /> },
];

function ByState({ state }: { state: string }) {
  const [url, setUrl] = useUrl();
  const poll = usePoll();
  const filter = { cursor: url.cursor, state, type: url.type, tag: url.tag, channel: url.channel, after: url.after, before: url.before };
  const query = useQuery({ ...deliveriesQuery(url.app ?? '', filter), refetchInterval: url.cursor ? false : poll });
  const { rows } = useHeld(query.data?.data, deliveryId, url.open !== undefined);
  const open = (row: Delivery) => setUrl({ open: deliveryId(row) }, { replace: url.open !== undefined });
  const chosen = rows?.find((row) => deliveryId(row) === url.open);
  const list = (
    <>
      <StateTabs state={state} />
      <Filters />
      <div className="body listbody">
        {query.isError && !rows && <Failure error={query.error} what="The list of deliveries" retry={() => void query.refetch()} />}
        {!rows && !query.isError && <Skeleton rows={14} />}
        {rows?.length === 0 && <Empty title={`No ${state === 'pending' ? 'waiting' : state} deliveries`}>{screens.dead && state === 'dead' ? 'Deliveries that run out of attempts appear here.' : undefined}</Empty>}
        {rows && rows.length > 0 && <DataTable label="Deliveries" keyboard columns={deliveryColumns} rows={rows} rowId={deliveryId} openId={url.open} onOpen={open} panelOpen={url.open !== undefined} />}
      </div>
      <Pager note="Newest first" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor, open: undefined })} keys={[['J K', 'move'], ['O', 'open']]} />
    </>
  );
  const panel = chosen ? (
    <MessagePanel key={chosen.msgId} app={chosen.appId} msg={chosen.msgId} eventType={chosen.eventType} onClose={() => setUrl({ open: undefined })} onStep={stepper(rows ?? [], deliveryId, url.open, open)} />
  ) : url.open && query.data ? (
    <Panel title="Gone from this list" label="Delivery" onClose={() => setUrl({ open: undefined })} full={<OpenIcon className="i" aria-hidden="true" />}>
      <section>
        <p className="t2">The delivery is no longer {state}.</p>
      </section>
    </Panel>
  ) : null;
  return <Split list={list} panel={panel} />;
}
