// Dead letters: decide once for each cause.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ChevronDown, ChevronRight, CircleSlash, RotateCw } from 'lucide-react';
import { Fragment, useMemo, useState } from 'react';
import { api, messageOf, ok } from '../api/client';
import { queryClient, usePoll } from '../api/queries';
import type { Delivery, Page as ApiPage } from '../api/types';
import { offers } from '../capabilities';
import { useKeys } from '../keys';
import { groupDead, hourly, type Group } from '../lib/groups';
import { attemptLabel, classLabel, failureText } from '../lib/state';
import { count, plural } from '../lib/text';
import { useMay } from '../session';
import { Code } from '../ui/atoms';
import { Button, Seg } from '../ui/controls';
import { Hourly, Meter } from '../ui/figures';
import { AppPicker, Filter, FilterBar } from '../ui/filters';
import { Dialog } from '../ui/overlay';
import { LiveButton, Page, Tabs } from '../ui/page';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { BulkBar } from '../ui/table';
import { Ago, ListTime } from '../ui/time';
import { toast } from '../ui/toast';
import { Views } from '../ui/views';
import { useUrl } from '../url';
import { FailureGroups } from './parts/failure-groups';
import { AppName, EndpointUrl } from './parts/names';

const PAGES_MAX = 4;

/** The newest dead deliveries, up to 1,000. */
const deadQuery = (app: string | undefined, filter: { class?: string; type?: string }) =>
  queryOptions({
    queryKey: ['deliveries', 'dead', app, filter],
    queryFn: async () => {
      const rows: Delivery[] = [];
      let iterator: string | undefined;
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const query = {
          state: 'dead',
          limit: 250,
          iterator,
          class: filter.class,
          event_types: filter.type ? [filter.type] : undefined,
        };
        const found = (await (app
          ? ok(api.GET('/api/v1/app/{app_id}/delivery', { params: { path: { app_id: app }, query } }))
          : ok(api.GET('/api/v1/delivery', { params: { query } })))) as ApiPage<Delivery>;
        rows.push(...found.data);
        if (found.done || !found.iterator) return { rows, complete: true };
        iterator = found.iterator;
      }
      return { rows, complete: false };
    },
  });

const idOf = (row: Delivery) => `${row.msgId}/${row.endpointId}`;
const classes = [
  'status',
  'timeout',
  'throttled',
  'gone',
  'connect',
  'dns',
  'tls',
  'reset',
  'blocked',
  'abandoned',
  'internal',
];

const states = [
  ['open', 'Open'],
  ['acknowledged', 'Acknowledged'],
  ['resolved', 'Resolved'],
] as const;

const viewNames = ['app', 'class', 'type', 'endpoint', 'group'] as const;

export default function DeadLetters() {
  const [url, setUrl] = useUrl();
  // The server keeps groups with their state; single deliveries and other groupings are read from the list.
  if (!offers.failureGroups || url.group || url.app) return <Deliveries />;
  const state = url.state ?? 'open';
  return (
    <Page
      title="Dead letters"
      tools={
        <>
          <Seg
            label="Show"
            value="groups"
            options={
              [
                ['groups', 'Groups'],
                ['none', 'Deliveries'],
              ] as const
            }
            onChange={(value) => value === 'none' && setUrl({ group: 'none', state: undefined, cursor: undefined })}
          />
          <LiveButton />
        </>
      }
    >
      <div className="col grow">
        <Tabs
          label="States"
          tabs={states.map(([key, label]) => ({
            to: '/dead',
            search: key === 'open' ? {} : { state: key },
            label,
            active: key === state,
          }))}
        />
        <FailureGroups state={state} />
      </div>
    </Page>
  );
}

function Deliveries() {
  const [url, setUrl] = useUrl();
  const may = useMay('POST /api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/redrive');
  const query = useQuery({
    ...deadQuery(url.app, { class: url.class, type: url.type }),
    refetchInterval: usePoll(10_000),
  });
  const by = url.group === 'type' ? 'type' : 'endpoint';
  const groups = useMemo(
    () =>
      groupDead(
        (query.data?.rows ?? []).filter((row) => !url.endpoint || row.endpointId === url.endpoint),
        by,
      ),
    [query.data, by, url.endpoint],
  );
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = useState<ReadonlyMap<string, Delivery>>(new Map());
  const [dialog, setDialog] = useState<'redrive' | 'dismiss' | null>(null);
  const toggle = (rows: Delivery[], on: boolean) => {
    const next = new Map(chosen);
    for (const row of rows) {
      if (on) next.set(idOf(row), row);
      else next.delete(idOf(row));
    }
    setChosen(next);
  };
  useKeys({ r: () => may && chosen.size > 0 && setDialog('redrive') });
  const filtered = url.class ?? url.type ?? url.endpoint;
  return (
    <Page
      title="Dead letters"
      heading={<AppPicker app={url.app ?? ''} all onChange={(app) => setUrl({ app })} />}
      tools={
        <>
          {offers.failureGroups && (
            <Seg
              label="Show"
              value="none"
              options={
                [
                  ['groups', 'Groups'],
                  ['none', 'Deliveries'],
                ] as const
              }
              onChange={(value) =>
                value === 'groups' &&
                setUrl({ group: undefined, app: undefined, endpoint: undefined, class: undefined, type: undefined })
              }
            />
          )}
          <LiveButton />
        </>
      }
    >
      <div className="col grow">
        <FilterBar
          end={
            <>
              <Seg
                small
                label="Group by"
                value={by}
                options={
                  [
                    ['endpoint', 'Endpoint and class'],
                    ['type', 'Event type'],
                  ] as const
                }
                onChange={(group) =>
                  setUrl(
                    { group: group === 'endpoint' ? (offers.failureGroups ? 'none' : undefined) : group },
                    { replace: true },
                  )
                }
              />
              <Views screen="dead" names={viewNames} />
            </>
          }
        >
          <Filter
            name="Error class"
            value={url.class}
            onChange={(value) => setUrl({ class: value })}
            options={classes.map((name) => [name, classLabel(name)] as const)}
          />
          <Filter name="Event type" value={url.type} onChange={(type) => setUrl({ type })} />
          {url.endpoint && (
            <Filter name="Endpoint" value={url.endpoint} onChange={(endpoint) => setUrl({ endpoint })} />
          )}
        </FilterBar>
        <div className="body listbody">
          {query.isError && !query.data && (
            <Failure error={query.error} what="Dead letters" retry={() => void query.refetch()} />
          )}
          {!query.data && !query.isError && <Skeleton rows={8} />}
          {query.data && groups.length === 0 && (
            <Empty
              title={filtered ? 'No dead letters match' : 'No dead letters'}
              action={
                filtered && (
                  <Button onClick={() => setUrl({ class: undefined, type: undefined, endpoint: undefined })}>
                    Clear filters
                  </Button>
                )
              }
            >
              {filtered ? undefined : 'A delivery that runs out of attempts waits here for your decision.'}
            </Empty>
          )}
          {groups.length > 0 && (
            <Groups groups={groups} by={by} open={open} setOpen={setOpen} chosen={chosen} toggle={toggle} may={may} />
          )}
          {query.data && groups.length > 0 && (
            <p className="dead-note s12 t3">
              {query.data.complete
                ? `${plural(query.data.rows.length, 'dead delivery', 'dead deliveries')}.`
                : 'Groups of the newest 1,000 dead deliveries. Redrive an endpoint’s whole range on its Recover tab.'}{' '}
              They stay until they are redriven, dismissed, or pruned.
            </p>
          )}
        </div>
        <BulkBar
          count={chosen.size}
          noun={chosen.size === 1 ? 'delivery' : 'deliveries'}
          onClear={() => setChosen(new Map())}
        >
          <Button kind="primary" size="sm" icon={RotateCw} hint="R" onClick={() => setDialog('redrive')}>
            Redrive
          </Button>
          <Button kind="ghost" size="sm" icon={CircleSlash} onClick={() => setDialog('dismiss')}>
            Dismiss
          </Button>
        </BulkBar>
      </div>
      {dialog && (
        <EachDialog
          verb={dialog}
          rows={[...chosen.values()]}
          onClose={() => {
            setDialog(null);
            setChosen(new Map());
          }}
        />
      )}
    </Page>
  );
}

type GroupsProps = {
  groups: Group<Delivery>[];
  by: 'endpoint' | 'type';
  open: ReadonlySet<string>;
  setOpen: (open: ReadonlySet<string>) => void;
  chosen: ReadonlyMap<string, Delivery>;
  toggle: (rows: Delivery[], on: boolean) => void;
  may: boolean;
};

const ROWS_SHOWN = 10;

function Groups({ groups, by, open, setOpen, chosen, toggle, may }: GroupsProps) {
  const [limits, setLimits] = useState<Record<string, number>>({});
  return (
    <table className="tbl dl-tbl" aria-label="Dead letters">
      <thead>
        <tr>
          <th className="c-cb" scope="col">
            <span className="sr">Select</span>
          </th>
          <th scope="col">{by === 'endpoint' ? 'Endpoint' : 'Event type'}</th>
          <th scope="col">Last error</th>
          <th scope="col" className="num dl-n">
            Deliveries
          </th>
          <th scope="col" className="dl-h">
            Last 24 h
          </th>
          <th scope="col" className="dl-t">
            Last died
          </th>
        </tr>
      </thead>
      <tbody>
        {groups.map((group) => {
          const isOpen = open.has(group.id);
          const picked = group.rows.filter((row) => chosen.has(idOf(row))).length;
          const limit = limits[group.id] ?? ROWS_SHOWN;
          const flip = () => {
            const next = new Set(open);
            if (!next.delete(group.id)) next.add(group.id);
            setOpen(next);
          };
          return (
            <Fragment key={group.id}>
              <tr className="grp">
                <td className="c-cb">
                  {may && (
                    <input
                      type="checkbox"
                      className={`cb ${picked > 0 && picked < group.rows.length ? 'mixed' : ''}`}
                      aria-label={`Select ${plural(group.rows.length, 'delivery', 'deliveries')}`}
                      checked={picked === group.rows.length}
                      onChange={(event) => toggle(group.rows, event.target.checked)}
                    />
                  )}
                </td>
                <td className="two">
                  <b>
                    <button type="button" className="dl-open" aria-expanded={isOpen} onClick={flip}>
                      {isOpen ? (
                        <ChevronDown className="i s" aria-hidden="true" />
                      ) : (
                        <ChevronRight className="i s" aria-hidden="true" />
                      )}
                      {by === 'endpoint' ? <EndpointUrl app={group.appId} ep={group.endpointId} /> : group.label}
                    </button>
                  </b>
                  <small className="dl-sub">
                    {by === 'endpoint' ? (
                      <AppName app={group.appId} />
                    ) : (
                      plural(new Set(group.rows.map((row) => row.endpointId)).size, 'endpoint')
                    )}
                  </small>
                </td>
                <td className="two hide-narrow">
                  <Code bad>{attemptLabel(group, group.status)}</Code>
                  <small>{failureText(group.class, group.status)}</small>
                </td>
                <td className="num strong">{count(group.rows.length)}</td>
                <td className="hide-narrow">
                  <Hourly
                    counts={hourly(
                      group.rows.map((row) => Date.parse(row.lastAttempt?.timestamp ?? row.timestamp)),
                      Date.now(),
                    )}
                  />
                </td>
                <td className="t2 hide-narrow">
                  <Ago at={group.last} />
                </td>
              </tr>
              {isOpen &&
                group.rows.slice(0, limit).map((row) => (
                  <tr key={idOf(row)} className="sub" aria-selected={chosen.has(idOf(row)) || undefined}>
                    <td className="c-cb">
                      {may && (
                        <input
                          type="checkbox"
                          className="cb"
                          aria-label={`Select ${row.msgId}`}
                          checked={chosen.has(idOf(row))}
                          onChange={(event) => toggle([row], event.target.checked)}
                        />
                      )}
                    </td>
                    <td>
                      <Link
                        className="med dl-sub"
                        to="/apps/$app/messages/$msg/endpoints/$ep"
                        params={{ app: row.appId, msg: row.msgId, ep: row.endpointId }}
                      >
                        {row.eventType}
                      </Link>{' '}
                      <span className="t3 s12">
                        accepted <ListTime at={row.timestamp} />
                      </span>
                    </td>
                    <td className="hide-narrow">
                      {row.lastAttempt && <Code>{attemptLabel(row.lastAttempt, row.lastAttempt.status)}</Code>}
                    </td>
                    <td className="num t2 s12">{row.tries ? plural(row.tries, 'try', 'tries') : ''}</td>
                    <td className="t2 s12 hide-narrow" colSpan={2}>
                      died <ListTime at={row.lastAttempt?.timestamp ?? row.timestamp} />
                    </td>
                  </tr>
                ))}
              {isOpen && group.rows.length > limit && (
                <tr className="sub">
                  <td />
                  <td colSpan={5}>
                    <button
                      type="button"
                      className="link dl-sub"
                      onClick={() => setLimits({ ...limits, [group.id]: limit + 50 })}
                    >
                      Show more of {count(group.rows.length)}
                    </button>
                  </td>
                </tr>
              )}
            </Fragment>
          );
        })}
      </tbody>
    </table>
  );
}

/** Redrives or dismisses each delivery of a selection. */
function EachDialog({ verb, rows, onClose }: { verb: 'redrive' | 'dismiss'; rows: Delivery[]; onClose: () => void }) {
  const [done, setDone] = useState(0);
  const [failed, setFailed] = useState<string[]>([]);
  const [running, setRunning] = useState(false);
  const word = verb === 'redrive' ? 'Redrive' : 'Dismiss';
  const run = async () => {
    setRunning(true);
    const bad: string[] = [];
    for (const [index, row] of rows.entries()) {
      const params = { params: { path: { app_id: row.appId, msg_id: row.msgId, endpoint_id: row.endpointId } } };
      try {
        if (verb === 'redrive')
          await ok(api.POST('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/redrive', params));
        else await ok(api.POST('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/dismiss', params));
      } catch (error) {
        bad.push(messageOf(error));
        setFailed([...bad]);
      }
      setDone(index + 1);
    }
    setRunning(false);
    for (const noun of ['deliveries', 'attempts', 'overview']) void queryClient.invalidateQueries({ queryKey: [noun] });
    if (bad.length === 0) {
      toast(`${verb === 'redrive' ? 'Redriven' : 'Dismissed'} ${plural(rows.length, 'delivery', 'deliveries')}`);
      onClose();
    }
  };
  const footer = (
    <>
      <Button onClick={onClose} disabled={running} autoFocus={verb === 'dismiss'}>
        {done > 0 ? 'Close' : 'Keep'}
      </Button>
      <Button
        kind={verb === 'redrive' ? 'primary' : 'danger-solid'}
        submit
        busy={running}
        disabled={done > 0 && !running}
      >
        {word} {count(rows.length)}
      </Button>
    </>
  );
  return (
    <Dialog
      open
      onClose={() => !running && onClose()}
      title={`${word} ${plural(rows.length, 'delivery', 'deliveries')}`}
      footer={footer}
      onSubmit={() => void run()}
    >
      <p>
        {verb === 'redrive'
          ? 'They become pending again, with fresh attempts, and are sent at once. What was sent cannot be taken back.'
          : 'They end as cancelled, and no redrive finds them any more. It cannot be undone.'}
      </p>
      {done > 0 && <Meter share={done / rows.length} label={`${done} of ${rows.length}`} />}
      {failed.length > 0 && (
        <Callout look="dead" title={`${plural(failed.length, 'delivery', 'deliveries')} failed`}>
          {[...new Set(failed)].slice(0, 3).join('; ')}
        </Callout>
      )}
    </Dialog>
  );
}
