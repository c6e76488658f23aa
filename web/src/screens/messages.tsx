// Find one message of millions.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ArrowUp, Send } from 'lucide-react';
import { useMemo, useState } from 'react';
import { deliveriesQuery, fanQuery, messagesQuery, useHeld, usePoll } from '../api/queries';
import type { Delivery, Message } from '../api/types';
import { offers, screens } from '../capabilities';
import { attemptLabel, deliveryState, fanOut } from '../lib/state';
import { plural } from '../lib/text';
import { useMay } from '../session';
import { Code, Fan, Id, StateText, Tags } from '../ui/atoms';
import { Button } from '../ui/controls';
import { AppPicker } from '../ui/filters';
import { LiveButton, Page } from '../ui/page';
import { OpenIcon, Panel, Split, stepper } from '../ui/panel';
import { Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, Pager, useSelection, type Column } from '../ui/table';
import { In, ListTime } from '../ui/time';
import { useApp } from '../ui/use-app';
import { useUrl } from '../url';
import { AllMessages } from './parts/all-messages';
import { ChosenBar, useMayWork, type WorkKind } from './parts/chosen';
import { filterNames, Filters, StateTabs } from './parts/message-filters';
import { AppName } from './parts/names';
import { NoApp, NoMessages, Searched } from './parts/no-messages';
import { MessagePanel } from './parts/message-panel';
import { SendDialog } from './parts/send-message';

export default function Messages() {
  const [url, setUrl] = useUrl();
  const [sending, setSending] = useState(false);
  const may = useMay('POST /api/v1/app/{app_id}/msg');
  const state = url.status ?? '';
  return (
    <Page
      title="Messages"
      heading={
        state || offers.messagesOfAllApps ? (
          <AppPicker app={url.app ?? ''} all onChange={(app) => setUrl({ app, cursor: undefined, open: undefined })} />
        ) : (
          <OneApp />
        )
      }
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
      {state ? (
        <ByState state={state} />
      ) : offers.messagesOfAllApps && !url.app ? (
        <AllMessages onSend={may ? () => setSending(true) : undefined} />
      ) : (
        <ByApp onSend={() => setSending(true)} />
      )}
      {sending && <SendDialog app={url.app ?? ''} onClose={() => setSending(false)} />}
    </Page>
  );
}

function OneApp() {
  const app = useApp();
  const [, setUrl] = useUrl();
  return app ? (
    <AppPicker app={app} onChange={(next) => setUrl({ app: next, cursor: undefined, open: undefined })} />
  ) : null;
}

const messageId = (message: Message) => message.id;

function ByApp({ onSend }: { onSend: () => void }) {
  const [url, setUrl] = useUrl();
  const app = useApp();
  const may = useMayWork();
  const poll = usePoll();
  const selection = useSelection();
  const filter = {
    cursor: url.cursor,
    type: url.type,
    tag: url.tag,
    channel: url.channel,
    after: url.after,
    before: url.before,
    text: url.text,
  };
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
      { id: 'deliveries', header: 'Deliveries', width: 300, tight: 210, narrow: 'd', cell: deliveries },
      {
        id: 'tags',
        header: 'Tags',
        width: 150,
        wide: true,
        narrow: 'drop',
        cell: (row) => <Tags names={[...(row.channels ?? []), ...(row.tags ?? [])]} />,
      },
      {
        id: 'event',
        header: 'Event id',
        width: 190,
        wide: true,
        narrow: 'drop',
        cell: (row) => (row.eventId ? <span className="mono t2">{row.eventId}</span> : ''),
      },
      { id: 'id', header: 'Id', width: 150, wide: true, narrow: 'c', cell: (row) => <Id id={row.id} /> },
    ];
  }, [app, fan.data]);

  const filtered = filterNames.some((name) => url[name]);
  const next = query.data?.done === false ? (query.data.iterator ?? undefined) : undefined;
  const chosen = rows?.find((row) => row.id === url.open);
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
        {app === null && <NoApp />}
        {query.isError && !rows && (
          <Failure error={query.error} what="The list of messages" retry={() => void query.refetch()} />
        )}
        {app !== null && !rows && !query.isError && <Skeleton rows={14} />}
        {rows?.length === 0 && next && <Searched go={() => setUrl({ cursor: next })} />}
        {rows?.length === 0 && !next && (
          <NoMessages app={app ?? ''} filtered={filtered} onSend={may ? onSend : undefined} />
        )}
        {rows && rows.length > 0 && (
          <DataTable
            label="Messages"
            keyboard
            columns={columns}
            rows={rows}
            rowId={messageId}
            selection={may ? selection : undefined}
            openId={url.open}
            onOpen={open}
          />
        )}
        <ChosenBar
          noun="message"
          kinds={['cancel', 'replay']}
          rows={selection.list.map((msg) => ({ app: app ?? '', msg }))}
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
  const panel = url.open && app && (
    <MessagePanel
      key={url.open}
      app={app}
      msg={url.open}
      eventType={chosen?.eventType}
      onClose={() => setUrl({ open: undefined })}
      onStep={stepper(rows ?? [], messageId, url.open, open)}
    />
  );
  return <Split list={list} panel={panel} />;
}

/** The work that deliveries of a state allow. */
const workOf: Record<string, WorkKind[]> = {
  pending: ['cancel', 'retry'],
  held: ['cancel'],
  sending: ['cancel'],
  dead: ['dismiss', 'retry'],
};

const deliveryId = (row: Delivery) => `${row.msgId}/${row.endpointId}`;

const deliveryColumns: Column<Delivery>[] = [
  { id: 'time', header: 'Accepted', width: 128, narrow: 'b', cell: (row) => <ListTime at={row.timestamp} exact /> },
  {
    id: 'type',
    header: 'Type',
    narrow: 'a',
    cell: (row) => (
      <Link
        className="med"
        to="/apps/$app/messages/$msg/endpoints/$ep"
        params={{ app: row.appId, msg: row.msgId, ep: row.endpointId }}
      >
        {row.eventType}
      </Link>
    ),
  },
  { id: 'app', header: 'Application', width: 180, wide: true, narrow: 'c', cell: (row) => <AppName app={row.appId} /> },
  { id: 'state', header: 'State', width: 130, narrow: 'd', cell: (row) => <StateText {...deliveryState(row)} /> },
  {
    id: 'last',
    header: 'Last attempt',
    width: 120,
    narrow: 'drop',
    cell: (row) =>
      row.lastAttempt ? (
        <Code bad={row.lastAttempt.class !== 'success'}>{attemptLabel(row.lastAttempt, row.lastAttempt.status)}</Code>
      ) : (
        <span className="t3">none</span>
      ),
  },
  {
    id: 'next',
    header: 'Next',
    width: 120,
    wide: true,
    narrow: 'drop',
    cell: (row) => (row.nextAttempt ? <In at={row.nextAttempt} /> : <span className="t3">–</span>),
  },
  {
    id: 'endpoint',
    header: 'Endpoint',
    width: 130,
    wide: true,
    narrow: 'drop',
    cell: (row) => <Id id={row.endpointId} />,
  },
];

function ByState({ state }: { state: string }) {
  const [url, setUrl] = useUrl();
  const poll = usePoll();
  const filter = {
    cursor: url.cursor,
    state,
    type: url.type,
    tag: url.tag,
    channel: url.channel,
    after: url.after,
    before: url.before,
  };
  const query = useQuery({ ...deliveriesQuery(url.app ?? '', filter), refetchInterval: url.cursor ? false : poll });
  const may = useMayWork();
  const selection = useSelection();
  const { rows } = useHeld(query.data?.data, deliveryId, url.open !== undefined || selection.list.length > 0);
  const picked = (rows ?? [])
    .filter((row) => selection.ids[deliveryId(row)])
    .map((row) => ({ app: row.appId, msg: row.msgId, ep: row.endpointId }));
  const open = (row: Delivery) => setUrl({ open: deliveryId(row) }, { replace: url.open !== undefined });
  const chosen = rows?.find((row) => deliveryId(row) === url.open);
  const list = (
    <>
      <StateTabs state={state} />
      <Filters />
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what="The list of deliveries" retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={14} />}
        {rows?.length === 0 && (
          <Empty title={`No ${state === 'pending' ? 'waiting' : state} deliveries`}>
            {screens.dead && state === 'dead' ? 'Deliveries that run out of attempts appear here.' : undefined}
          </Empty>
        )}
        {rows && rows.length > 0 && (
          <DataTable
            label="Deliveries"
            keyboard
            columns={deliveryColumns}
            rows={rows}
            rowId={deliveryId}
            selection={may ? selection : undefined}
            openId={url.open}
            onOpen={open}
          />
        )}
        <ChosenBar noun="delivery" kinds={workOf[state] ?? []} rows={picked} clear={selection.clear} />
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
  const panel = chosen ? (
    <MessagePanel
      key={chosen.msgId}
      app={chosen.appId}
      msg={chosen.msgId}
      eventType={chosen.eventType}
      onClose={() => setUrl({ open: undefined })}
      onStep={stepper(rows ?? [], deliveryId, url.open, open)}
    />
  ) : url.open && query.data ? (
    <Panel
      title="Gone from this list"
      label="Delivery"
      onClose={() => setUrl({ open: undefined })}
      full={<OpenIcon className="i" aria-hidden="true" />}
    >
      <section>
        <p className="t2">The delivery is no longer {state}.</p>
      </section>
    </Panel>
  ) : null;
  return <Split list={list} panel={panel} />;
}
