// The delivery policy of an endpoint: values in force with their origin, and its own settings.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../../api/client';
import { messagesQuery, useChange } from '../../api/queries';
import type { Endpoint, FilterTest } from '../../api/types';
import { offers } from '../../capabilities';
import { delaysOf, originText, parseDelays, parseStatuses, type Backoff, type Setting } from '../../lib/policy';
import { delayLabel } from '../../lib/retry';
import { plural } from '../../lib/text';
import { useMayChange } from '../../session';
import { StateText } from '../../ui/atoms';
import { AreaField, Button, Seg, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { RetrySchedule } from '../../ui/schedule-view';
import { Callout, Loaded } from '../../ui/status';
import { ListTime } from '../../ui/time';
import { toast } from '../../ui/toast';

type Effective = { backoff: Setting<Backoff>; maxAttempts: Setting<number>; jitterPercent: Setting<number>; finalStatuses: Setting<(number | string)[]>; timeoutSeconds: Setting<number> } & Record<string, unknown>;
type Own = { retry?: { backoff?: Backoff; maxAttempts?: number; jitterPercent?: number; finalStatuses?: (number | string)[] }; timeoutSeconds?: number } & Record<string, unknown>;

const handled = new Set(['backoff', 'maxAttempts', 'jitterPercent', 'finalStatuses', 'timeoutSeconds', 'eventType']);

export function Policy({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const base = `/api/v1/app/${encodeURIComponent(app)}/endpoint/${endpoint.id}`;
  const query = useQuery({ queryKey: ['endpoints', 'policy', app, endpoint.id], queryFn: () => raw<Effective>('GET', `${base}/policy`) });
  const own = ((endpoint as { policy?: Own | null }).policy ?? {}) as Own;
  return (
    <Loaded query={query} what="The policy">
      {(effective) => <Content key={JSON.stringify([effective, own])} app={app} endpoint={endpoint} effective={effective} own={own} base={base} />}
    </Loaded>
  );
}

type Form = { kind: 'inherit' | 'list' | 'exponential'; list: string; base: string; cap: string; attempts: string; jitter: string; statuses: string; timeout: string };

function formOf(own: Own, effective: Effective): Form {
  const backoff = own.retry?.backoff;
  const shown = backoff ?? effective.backoff.value;
  const text = (value: unknown) => (value === undefined || value === null ? '' : String(value));
  return {
    kind: backoff === undefined ? 'inherit' : Array.isArray(backoff) ? 'list' : 'exponential',
    list: Array.isArray(shown) ? shown.join(', ') : '5, 300, 1800, 7200',
    base: Array.isArray(shown) ? '5' : String(shown.baseSeconds),
    cap: Array.isArray(shown) ? '3600' : String(shown.capSeconds),
    attempts: text(own.retry?.maxAttempts),
    jitter: text(own.retry?.jitterPercent),
    statuses: (own.retry?.finalStatuses ?? []).join(', '),
    timeout: text(own.timeoutSeconds),
  };
}

const number = (text: string) => (text.trim() === '' ? undefined : Number(text));

function Content({ app, endpoint, effective, own, base }: { app: string; endpoint: Endpoint; effective: Effective; own: Own; base: string }) {
  const may = useMayChange();
  const [start] = useState(() => formOf(own, effective));
  const [form, setForm] = useState(start);
  const set = (patch: Partial<Form>) => setForm({ ...form, ...patch });
  const list = parseDelays(form.list);
  const backoff: Backoff | undefined = form.kind === 'inherit' ? undefined : form.kind === 'list' ? (list ?? undefined) : { baseSeconds: Number(form.base), capSeconds: Number(form.cap) };
  const statuses = parseStatuses(form.statuses);
  const attempts = number(form.attempts);
  const jitter = number(form.jitter);
  const shownBackoff = backoff ?? effective.backoff.value;
  const implied = Array.isArray(shownBackoff) ? shownBackoff.length + 1 : 10;
  const shownAttempts = attempts ?? (backoff === undefined ? effective.maxAttempts.value : implied);
  const delays = delaysOf(shownBackoff, shownAttempts);
  const share = (jitter ?? effective.jitterPercent.value) / 100;
  const changed = JSON.stringify(form) !== JSON.stringify(start);

  const save = useChange(
    () => {
      const retry = Object.fromEntries(Object.entries({ backoff, maxAttempts: attempts, jitterPercent: jitter, finalStatuses: statuses?.length ? statuses : undefined }).filter(([, value]) => value !== undefined));
      // The policy is replaced as a whole: settings that this form does not show stay.
      const { retry: _retry, timeoutSeconds: _timeout, ...rest } = own;
      const timeout = number(form.timeout);
      const policy = { ...rest, ...(Object.keys(retry).length ? { retry } : {}), ...(timeout === undefined ? {} : { timeoutSeconds: timeout }) };
      return raw('PATCH', base, { body: { policy: Object.keys(policy).length ? policy : null } });
    },
    ['endpoints'],
    () => toast('Policy saved', { text: 'Attempts that are already scheduled keep their time.' }),
  );
  const fields = save.error instanceof ApiFailure ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field.split('.').at(-1) ?? '', message])) : {};
  const origin = (name: 'backoff' | 'maxAttempts' | 'jitterPercent' | 'finalStatuses' | 'timeoutSeconds') => originText(effective[name].from);
  return (
    <>
      <Card
        title="Retries"
        sub={`${plural(delays.length, 'attempt')} over ${delayLabel(delays.reduce((sum, delay) => sum + delay, 0))}; the bands are the jitter, the octagon is dead`}
        tools={
          may && (
            <Seg small label="Schedule" value={form.kind} options={[['inherit', 'Inherited'], ['exponential', 'Exponential'], ['list', 'Custom list']] as const} onChange={(kind) => set({ kind })} />
          )
        }
      >
        <div className="in stack">
          <RetrySchedule delays={delays} jitter={share} />
          {form.kind === 'list' && <TextField label="Delays" value={form.list} onChange={(text) => set({ list: text })} mono unit="seconds" error={list ? fields.backoff : 'Must be whole seconds, such as 5, 60, 3600'} readOnly={!may} />}
          {form.kind === 'exponential' && (
            <div className="fgrid two-col">
              <TextField label="First delay" value={form.base} onChange={(text) => set({ base: text })} unit="seconds" inputMode="numeric" error={fields.baseSeconds ?? fields.backoff} />
              <TextField label="Longest delay" value={form.cap} onChange={(text) => set({ cap: text })} unit="seconds" inputMode="numeric" error={fields.capSeconds} />
            </div>
          )}
          <div className="fgrid">
            <TextField label="Attempts" value={form.attempts} placeholder={String(effective.maxAttempts.value)} onChange={(text) => set({ attempts: text })} inputMode="numeric" origin={origin('maxAttempts')} error={fields.maxAttempts} readOnly={!may} />
            <TextField label="Timeout of an attempt" value={form.timeout} placeholder={String(effective.timeoutSeconds.value)} onChange={(text) => set({ timeout: text })} unit="seconds" inputMode="numeric" origin={origin('timeoutSeconds')} error={fields.timeoutSeconds} readOnly={!may} />
            <TextField label="Jitter" value={form.jitter} placeholder={String(effective.jitterPercent.value)} onChange={(text) => set({ jitter: text })} unit="± %" inputMode="numeric" origin={origin('jitterPercent')} error={fields.jitterPercent} readOnly={!may} />
            <TextField label="Final statuses" value={form.statuses} placeholder={effective.finalStatuses.value.join(', ') || 'none'} onChange={(text) => set({ statuses: text })} mono origin={origin('finalStatuses')} error={statuses ? fields.finalStatuses : 'Must be statuses such as 404, or classes such as 4xx'} readOnly={!may} />
          </div>
          {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
        </div>
      </Card>
      <Others effective={effective} />
      {offers.filterTest && <FilterCard app={app} endpoint={endpoint} base={base} />}
      {changed && may && (
        <div className="savebar" role="region" aria-label="Unsaved changes">
          <span className="grow">Unsaved changes of the policy</span>
          <Button kind="ghost" onClick={() => setForm(start)}>
            Discard
          </Button>
          <Button kind="primary" busy={save.isPending} disabled={statuses === null || (form.kind === 'list' && !list)} onClick={() => save.mutate(undefined)}>
            Save policy
          </Button>
        </div>
      )}
    </>
  );
}

/** Settings in force that the form does not edit, with their origin. */
function Others({ effective }: { effective: Effective }) {
  const list = Object.entries(effective).filter((entry): entry is [string, Setting<unknown>] => !handled.has(entry[0]) && typeof entry[1] === 'object' && entry[1] !== null && 'value' in entry[1]);
  if (list.length === 0) return null;
  const name = (key: string) => key.replace(/([a-z])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`).replace(/^./, (first) => first.toUpperCase());
  const text = (value: unknown) => (value === null || value === 'none' ? 'none' : typeof value === 'object' ? JSON.stringify(value) : String(value));
  return (
    <Card title="Also in force" sub="change them with PATCH …/endpoint">
      <table className="tbl card-tbl compact">
        <thead>
          <tr>
            <th scope="col">Setting</th>
            <th scope="col">Value</th>
            <th scope="col">Origin</th>
          </tr>
        </thead>
        <tbody>
          {list.map(([key, setting]) => (
            <tr key={key}>
              <td>{name(key)}</td>
              <td className="mono">{text(setting.value)}</td>
              <td className="t2">{originText(setting.from)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

/** An expression against an accepted message. The endpoint's own expression is the start. */
function FilterCard({ app, endpoint, base }: { app: string; endpoint: Endpoint; base: string }) {
  const may = useMayChange();
  const own = (endpoint as { filter?: string | null }).filter ?? '';
  const [filter, setFilter] = useState(own);
  const recent = useQuery(messagesQuery(app, {})).data?.data.slice(0, 8) ?? [];
  const test = useChange(
    () => Promise.all(recent.map(async (message) => ({ message, result: await raw<FilterTest>('POST', `${base}/filter/test`, { body: { msgId: message.id, ...(filter.trim() ? { filter } : {}) } }) }))),
    [],
  );
  const save = useChange(() => raw('PATCH', base, { body: { filter: filter.trim() || null } }), ['endpoints'], () => toast('Filter saved'));
  const matching = test.data?.filter(({ result }) => result.matches).length ?? 0;
  return (
    <Card title="Filter" sub="CEL over the payload; messages that do not match are not delivered to this endpoint">
      <div className="in stack">
        <AreaField label="Expression" optional value={filter} onChange={setFilter} rows={2} placeholder="payload.amount > 100" error={save.isError ? messageOf(save.error) : test.isError ? messageOf(test.error) : null} readOnly={!may} />
        <span className="row">
          <Button size="sm" busy={test.isPending} disabled={recent.length === 0} onClick={() => test.mutate(undefined)}>
            Try on the latest {recent.length} messages
          </Button>
          {may && filter !== own && (
            <Button size="sm" kind="primary" busy={save.isPending} onClick={() => save.mutate(undefined)}>
              Save filter
            </Button>
          )}
          {test.data && (
            <span className="t2">
              <b>{matching} match</b>, {test.data.length - matching} do not
            </span>
          )}
        </span>
        {test.data && (
          <table className="tbl card-tbl compact">
            <tbody>
              {test.data.map(({ message, result }) => (
                <tr key={message.id}>
                  <td>
                    <ListTime at={message.timestamp} /> {message.eventType}
                  </td>
                  <td className="t2">{result.checks.find((check) => !check.passes)?.reason ?? ''}</td>
                  <td className="num">{result.matches ? <StateText look="delivered" word="matches" /> : <StateText look="unmatched" word="no match" />}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </Card>
  );
}
