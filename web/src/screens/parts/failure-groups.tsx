// Groups of dead deliveries as the server keeps them: with a state, a note, and a redrive of the whole group.

import { queryOptions, useMutation, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Check, ChevronDown, ChevronRight, CircleCheck, RotateCcw, RotateCw } from 'lucide-react';
import { Fragment, useState } from 'react';
import { messageOf, raw } from '../../api/client';
import { useDead } from '../../api/dead';
import { backgroundTaskQuery, deliveriesQuery, useChange, usePoll } from '../../api/queries';
import type { FailureGroup, Page } from '../../api/types';
import { failureClass } from '../../lib/buckets';
import { attemptLabel, classLabel } from '../../lib/state';
import { count, plural } from '../../lib/text';
import { useMay } from '../../session';
import { Code, Glyph, Url } from '../../ui/atoms';
import { Button, TextField } from '../../ui/controls';
import { Hourly } from '../../ui/figures';
import { Dialog } from '../../ui/overlay';
import { Callout, Empty, Failure, Skeleton } from '../../ui/status';
import { Pager } from '../../ui/table';
import { Ago, ListTime } from '../../ui/time';
import { toast } from '../../ui/toast';
import { useUrl } from '../../url';
import { TaskProgress } from './task-progress';

export const groupsQuery = (state: string, iterator?: string) =>
  queryOptions({
    queryKey: ['deliveries', 'groups', state, iterator],
    queryFn: () => raw<Page<FailureGroup>>('GET', '/api/v1/failure-group', { query: { state, iterator } }),
  });

/** Dead deliveries may be elsewhere: groups have states, and those of deleted endpoints are not listed. */
function NoGroups({ state }: { state: string }) {
  const { deliveries } = useDead();
  if (state !== 'open') return <Empty title={`No ${state} groups`} />;
  if (!deliveries)
    return <Empty title="No dead letters">A delivery that runs out of attempts waits here for your decision.</Empty>;
  return (
    <Empty
      title="No open groups"
      action={
        <Link to="/messages" search={{ status: 'dead' }} className="btn">
          Show dead messages
        </Link>
      }
    >
      {`Dead deliveries: ${deliveries}. They are acknowledged or resolved, or their endpoint was deleted. They stay until they are dismissed or pruned.`}
    </Empty>
  );
}

type Verb = 'acknowledge' | 'resolve' | 'reopen' | 'redrive';

export function FailureGroups({ state }: { state: string }) {
  const [url, setUrl] = useUrl();
  const may = useMay('POST /api/v1/failure-group/{group_id}/redrive');
  const [open, setOpen] = useState<string | null>(null);
  const [asked, setAsked] = useState<{ verb: Verb; group: FailureGroup } | null>(null);
  const query = useQuery({ ...groupsQuery(state, url.cursor), refetchInterval: usePoll(5000) });
  const rows = query.data?.data;
  return (
    <>
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what="Dead letters" retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={8} />}
        {rows?.length === 0 && <NoGroups state={state} />}
        {rows && rows.length > 0 && (
          <table className="tbl dl-tbl dl-groups" aria-label="Groups of dead letters">
            <thead>
              <tr>
                <th scope="col">Endpoint</th>
                <th scope="col" className="dl-c">
                  Error
                </th>
                <th scope="col" className="num dl-n">
                  Deliveries
                </th>
                <th scope="col" className="dl-h hide-narrow">
                  Last 24 h
                </th>
                <th scope="col" className="dl-t">
                  Last died
                </th>
                <th scope="col" className="dl-a">
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((group) => (
                <Fragment key={group.id}>
                  <tr className="grp">
                    <td className="two">
                      <b>
                        <button
                          type="button"
                          className="dl-open"
                          aria-expanded={open === group.id}
                          onClick={() => setOpen(open === group.id ? null : group.id)}
                        >
                          {open === group.id ? (
                            <ChevronDown className="i s" aria-hidden="true" />
                          ) : (
                            <ChevronRight className="i s" aria-hidden="true" />
                          )}
                          <Url url={group.url || group.endpointId} />
                        </button>
                      </b>
                      <small className="dl-sub">
                        {group.appName}
                        {group.note && ` · ${group.note}`}
                      </small>
                    </td>
                    <td className="hide-narrow">
                      <Code bad>{classLabel(group.class)}</Code>
                    </td>
                    <td className="num strong">{count(group.count)}</td>
                    <td className="hide-narrow">
                      <Hourly counts={group.lastDay} />
                    </td>
                    <td className="t2 hide-narrow">
                      <Ago at={group.lastDiedAt} />
                    </td>
                    <td className="dl-acts">
                      {may && <Actions group={group} ask={(verb) => setAsked({ verb, group })} />}
                    </td>
                  </tr>
                  {open === group.id && <Members group={group} />}
                </Fragment>
              ))}
            </tbody>
          </table>
        )}
        {rows && rows.length > 0 && (
          <p className="dead-note s12 t3">
            Dead deliveries stay until they are redriven, dismissed, or pruned. A resolved group opens again when
            another delivery dies.
          </p>
        )}
      </div>
      <Pager note="By endpoint" page={query.data} cursor={url.cursor} go={(cursor) => setUrl({ cursor })} />
      {asked && (
        <GroupDialog
          key={`${asked.verb}-${asked.group.id}`}
          verb={asked.verb}
          group={asked.group}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}

function Actions({ group, ask }: { group: FailureGroup; ask: (verb: Verb) => void }) {
  return (
    <span className="row">
      <Button size="sm" icon={RotateCw} onClick={() => ask('redrive')}>
        Redrive
      </Button>
      {group.state === 'open' && (
        <Button size="sm" kind="ghost" icon={Check} className="hide-narrow" onClick={() => ask('acknowledge')}>
          Acknowledge
        </Button>
      )}
      {group.state !== 'resolved' && (
        <Button size="sm" kind="ghost" icon={CircleCheck} className="hide-narrow" onClick={() => ask('resolve')}>
          Resolve
        </Button>
      )}
      {group.state !== 'open' && (
        <Button size="sm" kind="ghost" icon={RotateCcw} className="hide-narrow" onClick={() => ask('reopen')}>
          Reopen
        </Button>
      )}
    </span>
  );
}

/** The newest dead deliveries of a group. */
function Members({ group }: { group: FailureGroup }) {
  const query = useQuery(deliveriesQuery(group.appId, { endpoint: group.endpointId, state: 'dead' }));
  const rows =
    query.data?.data.filter(
      (row) =>
        !row.lastAttempt ||
        [
          failureClass({ class: row.lastAttempt.class, responseStatusCode: row.lastAttempt.status }),
          row.lastAttempt.class,
        ].includes(group.class),
    ) ?? [];
  return (
    <>
      {query.isError && (
        <tr className="sub">
          <td colSpan={6}>
            <Failure error={query.error} what="The deliveries" />
          </td>
        </tr>
      )}
      {rows.slice(0, 20).map((row) => (
        <tr key={row.msgId} className="sub">
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
          <td className="hide-narrow" />
          <td className="t2 s12 hide-narrow" colSpan={2}>
            died <ListTime at={row.lastAttempt?.timestamp ?? row.timestamp} />
          </td>
        </tr>
      ))}
      <tr className="sub">
        <td colSpan={6}>
          <Link
            className="link dl-sub"
            to="/dead"
            search={{ group: 'none', app: group.appId, endpoint: group.endpointId }}
          >
            Select single deliveries
          </Link>
        </td>
      </tr>
    </>
  );
}

const texts: Record<Verb, { title: string; text: string; verb: string; done: string }> = {
  acknowledge: {
    title: 'Acknowledge this group',
    text: 'Others see that someone knows about it. It stays acknowledged when more deliveries die.',
    verb: 'Acknowledge',
    done: 'Acknowledged',
  },
  resolve: {
    title: 'Resolve this group',
    text: 'The cause is gone. The group opens again when another delivery dies. Its dead deliveries stay.',
    verb: 'Resolve',
    done: 'Resolved',
  },
  reopen: { title: 'Reopen this group', text: 'The group counts as open again.', verb: 'Reopen', done: 'Reopened' },
  redrive: {
    title: 'Redrive this group',
    text: 'The messages are sent again by a bulk task, which shows its progress and can be cancelled. Messages that arrived in the meantime are left out.',
    verb: 'Redrive',
    done: 'Redrive started',
  },
};

function GroupDialog({ verb, group, onClose }: { verb: Verb; group: FailureGroup; onClose: () => void }) {
  const [note, setNote] = useState(group.note ?? '');
  const path = `/api/v1/failure-group/${encodeURIComponent(group.id)}`;
  const dry = useQuery({
    queryKey: ['deliveries', 'dry', group.id],
    queryFn: () => raw<{ count: number }>('POST', `${path}/redrive`, { body: { dryRun: true } }),
    enabled: verb === 'redrive',
  });
  const redrive = useMutation({
    mutationFn: () => raw<{ count: number; task?: { id: string } }>('POST', `${path}/redrive`, { body: {} }),
  });
  const mark = useChange(
    () => raw('POST', `${path}/${verb}`, { body: note.trim() ? { note: note.trim() } : {} }),
    ['deliveries'],
    () => {
      toast(texts[verb].done);
      onClose();
    },
  );
  const task = redrive.data?.task?.id;
  const running = useQuery({ ...backgroundTaskQuery(task ?? ''), enabled: task !== undefined }).data;
  const busy = redrive.isPending || mark.isPending;
  const error = redrive.error ?? mark.error;
  const number = dry.data?.count;
  return (
    <Dialog
      open
      onClose={onClose}
      title={texts[verb].title}
      onSubmit={() => (verb === 'redrive' ? redrive.mutate() : mark.mutate(undefined))}
      footer={
        <>
          <Button onClick={onClose}>{task ? 'Close' : 'Keep'}</Button>
          <Button kind="primary" submit busy={busy} disabled={task !== undefined}>
            {texts[verb].verb} {verb === 'redrive' && number !== undefined ? count(number) : ''}
          </Button>
        </>
      }
    >
      <p>
        <Glyph look="dead" /> <Url url={group.url || group.endpointId} /> {classLabel(group.class)},{' '}
        {plural(number ?? group.count, 'delivery', 'deliveries')}
      </p>
      <p>{texts[verb].text}</p>
      {verb !== 'redrive' && <TextField label="Note" optional value={note} onChange={setNote} />}
      {error && <Callout look="dead" title={messageOf(error)} />}
      {running && <TaskProgress task={running} />}
    </Dialog>
  );
}
