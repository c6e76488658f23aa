// Recover: send failed, missing or all messages of a time range again, or cancel the waiting ones, as bulk tasks.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, messageOf, ok } from '../../api/client';
import { backgroundTaskQuery, deliveriesQuery, endpointStatsQuery, useChange } from '../../api/queries';
import type { BackgroundTask, Endpoint } from '../../api/types';
import { count, plural } from '../../lib/text';
import { fromInput, toInput } from '../../lib/time';
import { usePreferences } from '../../preferences';
import { useMay } from '../../session';
import { Button, Field, Seg, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { Confirm } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { TaskProgress } from '../parts/task-progress';

type Mode = 'failed' | 'missing' | 'all' | 'waiting';
const HOUR = 3_600_000;

const modes = [
  ['failed', 'Failed'],
  ['missing', 'Missing'],
  ['all', 'Everything'],
  ['waiting', 'Cancel waiting'],
] as const;
const verbs: Record<Mode, string> = {
  failed: 'Replay failed',
  missing: 'Replay missing',
  all: 'Replay everything',
  waiting: 'Cancel waiting',
};
const texts: Record<Mode, string> = {
  failed: 'Messages whose delivery to this endpoint died or failed for good in the range, and never succeeded.',
  missing:
    'Messages that have no delivery to this endpoint but match it now: it is newer, was disabled, or had other filters.',
  all: 'Every message that was attempted at this endpoint, successful ones too. Receivers see repetitions.',
  waiting:
    'Cancels deliveries to this endpoint that wait or are being sent, of messages accepted in the range. Dead deliveries stay.',
};

export function Recover({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const { zone } = usePreferences();
  const may = useMay('POST /api/v1/app/{app_id}/endpoint/{endpoint_id}/recover');
  const [mode, setMode] = useState<Mode>('failed');
  const [since, setSince] = useState(() => toInput(Date.now() - 24 * HOUR, zone));
  const [until, setUntil] = useState('');
  const [rate, setRate] = useState('');
  const [confirm, setConfirm] = useState(false);
  const [task, setTask] = useState<string | null>(null);
  const [counted, setCounted] = useState<string | null>(null);
  const from = fromInput(since, zone);
  const to = until ? fromInput(until, zone) : null;
  const dead = useQuery(deliveriesQuery(app, { endpoint: endpoint.id, state: 'dead' })).data;
  const stats = useQuery({
    ...endpointStatsQuery(app, endpoint.id, from === null ? undefined : Date.now() - from),
    enabled: from !== null && from < Date.now(),
  }).data;
  const path = { app_id: app, endpoint_id: endpoint.id };
  const start = useChange(
    ({ dryRun }: { dryRun: boolean }) => {
      const window = {
        since: new Date(from ?? 0).toISOString(),
        ...(to ? { until: new Date(to).toISOString() } : {}),
        dryRun,
      };
      if (mode === 'waiting')
        return ok(
          api.POST('/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-cancel', { params: { path }, body: window }),
        );
      const params = { params: { path }, body: { ...window, ratePerSecond: rate.trim() === '' ? null : Number(rate) } };
      if (mode === 'failed') return ok(api.POST('/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover', params));
      if (mode === 'missing') return ok(api.POST('/api/v1/app/{app_id}/endpoint/{endpoint_id}/replay-missing', params));
      return ok(api.POST('/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-replay', params));
    },
    ['bulk', 'deliveries', 'attempts'],
    (result, { dryRun }) => (dryRun ? setCounted(result.id) : setTask(result.id)),
  );
  const redrive = useChange(
    () =>
      ok(
        api.POST('/api/v1/app/{app_id}/endpoint/{endpoint_id}/redrive', {
          params: { path },
          body: {
            since: from === null ? null : new Date(from).toISOString(),
            until: to ? new Date(to).toISOString() : null,
          },
        }),
      ),
    ['deliveries', 'attempts', 'overview'],
  );
  const running = useQuery({ ...backgroundTaskQuery(task ?? ''), enabled: task !== null }).data;
  const preview = useQuery({ ...backgroundTaskQuery(counted ?? ''), enabled: counted !== null }).data;
  const badRate = rate.trim() !== '' && !/^[1-9]\d{0,5}$/.test(rate.trim());
  const wrong =
    from === null
      ? 'The start is required'
      : from > Date.now()
        ? 'The start must be in the past'
        : to !== null && to < from
          ? 'The end must be after the start'
          : null;
  return (
    <div className="grid cols two-cards">
      <Card title="Replay or cancel a range" sub="as a bulk task">
        <div className="in stack">
          <Seg
            label="Which messages"
            value={mode}
            options={modes}
            onChange={(next) => {
              setMode(next);
              setCounted(null);
            }}
          />
          <p className="t2">{texts[mode]}</p>
          <div className="fgrid two-col">
            <Field label="Since" error={wrong} origin={zone === 'utc' ? 'UTC' : 'local'}>
              {(ids) => (
                <span className="inp">
                  <input
                    {...ids}
                    type="datetime-local"
                    value={since}
                    onChange={(event) => {
                      setSince(event.target.value);
                      setCounted(null);
                    }}
                  />
                </span>
              )}
            </Field>
            <Field label="Until" optional hint="Empty: now">
              {(ids) => (
                <span className="inp">
                  <input
                    {...ids}
                    type="datetime-local"
                    value={until}
                    onChange={(event) => {
                      setUntil(event.target.value);
                      setCounted(null);
                    }}
                  />
                </span>
              )}
            </Field>
          </div>
          {stats && !to && (
            <p className="s12 t2">
              In this range: {plural(stats.fail, 'failed attempt')}, {plural(stats.success, 'successful attempt')}
              {stats.capped ? ' (counted up to 100,000)' : ''}.
            </p>
          )}
          {mode !== 'waiting' && may && (
            <TextField
              label="Rate"
              optional
              hint="A limit keeps new messages from waiting behind the replay."
              value={rate}
              onChange={setRate}
              unit="messages per second"
              inputMode="numeric"
              placeholder="as fast as possible"
              error={badRate ? 'The rate must be a whole number' : null}
            />
          )}
          {start.isError && <Callout look="dead" title={messageOf(start.error)} />}
          {may ? (
            <span className="row g8 wrap">
              <Button
                disabled={wrong !== null || preview?.status === 'running'}
                busy={preview?.status === 'running'}
                onClick={() => start.mutate({ dryRun: true })}
              >
                Count first
              </Button>
              <Button
                kind={mode === 'waiting' ? 'danger' : 'primary'}
                disabled={wrong !== null || badRate || running?.status === 'running'}
                onClick={() => setConfirm(true)}
              >
                {verbs[mode]}
              </Button>
            </span>
          ) : (
            <p className="s12 t3">Your key may only read.</p>
          )}
          {preview && <Preview task={preview} />}
          {running && <TaskProgress task={running} />}
        </div>
      </Card>
      <Card
        title="Redrive dead deliveries"
        sub={
          dead &&
          (dead.done
            ? plural(dead.data.length, 'dead delivery', 'dead deliveries')
            : `more than ${count(dead.data.length)}`)
        }
      >
        <div className="in stack">
          <p className="t2">
            Dead deliveries of the range become pending again, with fresh attempts. It is quicker than a replay, because
            nothing is copied.
          </p>
          {redrive.isError && <Callout look="dead" title={messageOf(redrive.error)} />}
          {redrive.data && (
            <Callout look="delivered" title={`Redriven ${plural(redrive.data.redriven, 'delivery', 'deliveries')}`}>
              {redrive.data.done ? 'No more match.' : 'More match: press again to continue.'}
            </Callout>
          )}
          {may && (
            <span>
              <Button
                disabled={wrong !== null || dead?.data.length === 0}
                busy={redrive.isPending}
                onClick={() => redrive.mutate(undefined)}
              >
                Redrive dead
              </Button>
            </span>
          )}
        </div>
      </Card>
      <Confirm
        open={confirm}
        onClose={() => setConfirm(false)}
        danger={mode === 'waiting'}
        title={verbs[mode]}
        verb={mode === 'waiting' ? 'Cancel deliveries' : 'Start replay'}
        run={() => start.mutateAsync({ dryRun: false })}
      >
        {texts[mode]} The bulk task shows its progress and can be cancelled.{' '}
        {mode === 'waiting' ? 'Cancelled deliveries stay cancelled.' : 'Messages that were sent cannot be taken back.'}
      </Confirm>
    </div>
  );
}

/** The result of a dry run. */
function Preview({ task }: { task: BackgroundTask }) {
  if (task.status === 'running') return <TaskProgress task={task} />;
  const matched = task.data.messagesMatched;
  if (task.status !== 'finished' || typeof matched !== 'number')
    return <Callout look="dead" title={typeof task.data.error === 'string' ? task.data.error : 'The count failed'} />;
  return (
    <Callout look="delivered" title={`${plural(matched, 'message')} ${matched === 1 ? 'matches' : 'match'} now`} />
  );
}
