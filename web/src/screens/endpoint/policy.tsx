// The delivery policy of an endpoint: values in force with their origin, and its own settings.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../../api/client';
import { eventTypesQuery, useChange } from '../../api/queries';
import type { Endpoint } from '../../api/types';
import { offers } from '../../capabilities';
import { delaysOf, originText, parseDelays, parseStatuses, type Backoff, type Setting } from '../../lib/policy';
import { delayLabel } from '../../lib/retry';
import { draftError, draftOf, rules, valueOf, type Draft } from '../../lib/settings';
import { plural } from '../../lib/text';
import { useMay } from '../../session';
import { AreaField, Button, Seg, SelectField, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { RetrySchedule } from '../../ui/schedule-view';
import { Callout, Loaded } from '../../ui/status';
import { toast } from '../../ui/toast';
import { useUrl } from '../../url';
import { FilterCard } from './filter-card';
import { PolicySettings } from './policy-settings';

type Effective = { backoff: Setting<Backoff>; maxAttempts: Setting<number>; jitterPercent: Setting<number>; finalStatuses: Setting<(number | string)[]>; timeoutSeconds: Setting<number> } & Record<string, unknown>;
type Own = { retry?: { backoff?: Backoff; maxAttempts?: number; jitterPercent?: number; finalStatuses?: (number | string)[] }; timeoutSeconds?: number; eventTypes?: Record<string, unknown> } & Record<string, unknown>;

export function Policy({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  const base = `/api/v1/app/${encodeURIComponent(app)}/endpoint/${endpoint.id}`;
  const [url, setUrl] = useUrl();
  const types = useQuery(eventTypesQuery());
  const own = (endpoint.policy ?? {}) as Own;
  const names = [...new Set([...Object.keys(own.eventTypes ?? {}), ...(types.data?.data ?? []).map(({ name }) => name)])].toSorted();
  const query = useQuery({ queryKey: ['endpoints', 'policy', app, endpoint.id, url.type], queryFn: () => raw<Effective>('GET', `${base}/policy`, { query: { event_type: url.type } }) });
  return (
    <>
      {names.length > 0 && (
        <div className="for-type">
          <SelectField label="In force for" value={url.type ?? ''} options={[['', 'Every event type without own settings'], ...names.map((name) => [name, name] as const)]} onChange={(type) => setUrl({ type: type || undefined }, { replace: true })} />
        </div>
      )}
      <Loaded query={query} what="The policy">
        {(effective) => <Content key={JSON.stringify([effective, own])} app={app} endpoint={endpoint} effective={effective} own={own} base={base} />}
      </Loaded>
    </>
  );
}

type Form = { kind: 'inherit' | 'list' | 'exponential'; list: string; base: string; cap: string; attempts: string; jitter: string; statuses: string; timeout: string; types: string; drafts: Record<string, Draft> };

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
    types: own.eventTypes ? JSON.stringify(own.eventTypes, null, 2) : '',
    drafts: Object.fromEntries(rulesOf(effective).map((rule) => [rule.key, draftOf(rule, own[rule.key], (effective[rule.key] as Setting<unknown>).value)])),
  };
}

/** The settings that this server honours. */
const rulesOf = (effective: Effective) => rules.filter(({ key }) => key in effective);

function parseTypes(text: string): Record<string, unknown> | undefined | null {
  if (text.trim() === '') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

const number = (text: string) => (text.trim() === '' ? undefined : Number(text));

function Content({ app, endpoint, effective, own, base }: { app: string; endpoint: Endpoint; effective: Effective; own: Own; base: string }) {
  const may = useMay('PATCH /api/v1/app/{app_id}/endpoint/{endpoint_id}');
  const [start] = useState(() => formOf(own, effective));
  const [form, setForm] = useState(start);
  const set = (patch: Partial<Form>) => setForm({ ...form, ...patch });
  const list = parseDelays(form.list);
  const backoff: Backoff | undefined = form.kind === 'inherit' ? undefined : form.kind === 'list' ? (list ?? undefined) : { baseSeconds: Number(form.base), capSeconds: Number(form.cap) };
  const statuses = parseStatuses(form.statuses);
  const shown = rulesOf(effective);
  const types = parseTypes(form.types);
  const bad = statuses === null || types === null || (form.kind === 'list' && !list) || shown.some((rule) => draftError(rule, form.drafts[rule.key] as Draft) !== null);
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
      const edited = Object.fromEntries(shown.map((rule) => [rule.key, valueOf(rule, form.drafts[rule.key] as Draft)]));
      const members = { ...own, ...edited, retry: Object.keys(retry).length ? retry : undefined, timeoutSeconds: number(form.timeout), eventTypes: types ?? undefined };
      const policy = Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined && value !== null));
      return raw('PATCH', base, { body: { policy: Object.keys(policy).length ? policy : null } });
    },
    ['endpoints'],
    () => toast('Policy saved', { text: 'Attempts that are already scheduled keep their time.' }),
  );
  // Paths of the server begin with `policy`, and those of retries with `policy.retry`.
  const fields = save.error instanceof ApiFailure ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field.replace(/^policy\./, '').replace(/^retry\./, ''), message])) : {};
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
              <TextField label="First delay" value={form.base} onChange={(text) => set({ base: text })} unit="seconds" inputMode="numeric" error={fields['backoff.baseSeconds'] ?? fields.backoff} />
              <TextField label="Longest delay" value={form.cap} onChange={(text) => set({ cap: text })} unit="seconds" inputMode="numeric" error={fields['backoff.capSeconds']} />
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
      <PolicySettings list={shown} effective={effective as Record<string, Setting<unknown>>} drafts={form.drafts} set={(key, draft) => set({ drafts: { ...form.drafts, [key]: draft } })} errors={fields} readOnly={!may} />
      <Card title="Single event types" sub="their settings outrank the others">
        <div className="in stack">
          <AreaField label="Settings by event type" optional value={form.types} onChange={(text) => set({ types: text })} rows={form.types ? 6 : 3} placeholder={'{"invoice.paid": {"timeoutSeconds": 5, "retry": {"maxAttempts": 3}}}'} error={types === null ? 'Must be a JSON object' : fields.eventTypes} readOnly={!may} />
        </div>
      </Card>
      {offers.filterTest && <FilterCard app={app} endpoint={endpoint} base={base} />}
      {changed && may && (
        <div className="savebar" role="region" aria-label="Unsaved changes">
          <span className="grow">Unsaved changes of the policy</span>
          <Button kind="ghost" onClick={() => setForm(start)}>
            Discard
          </Button>
          <Button kind="primary" busy={save.isPending} disabled={bad} onClick={() => save.mutate(undefined)}>
            Save policy
          </Button>
        </div>
      )}
    </>
  );
}

