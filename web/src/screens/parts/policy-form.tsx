// The form of a delivery policy, shared by endpoints, applications and the environment.

import { useState } from 'react';
import { ApiFailure, messageOf } from '../../api/client';
import { useChange } from '../../api/queries';
import {
  delaysOf,
  originText,
  parseDelays,
  parseStatuses,
  type Backoff,
  type Level,
  type Setting,
} from '../../lib/policy';
import { delayLabel } from '../../lib/retry';
import { draftError, draftOf, rules, valueOf, type Draft } from '../../lib/settings';
import { plural } from '../../lib/text';
import { AreaField, Button, Seg, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { RetrySchedule } from '../../ui/schedule-view';
import { Callout } from '../../ui/status';
import { toast } from '../../ui/toast';
import { PolicySettings } from './policy-settings';

export type Effective = {
  backoff: Setting<Backoff>;
  maxAttempts: Setting<number>;
  jitterPercent: Setting<number>;
  finalStatuses: Setting<(number | string)[]>;
  timeoutSeconds: Setting<number>;
} & Record<string, unknown>;
export type Own = {
  retry?: { backoff?: Backoff; maxAttempts?: number; jitterPercent?: number; finalStatuses?: (number | string)[] };
  timeoutSeconds?: number;
  eventTypes?: Record<string, unknown>;
} & Record<string, unknown>;

type Form = {
  kind: 'inherit' | 'list' | 'exponential';
  list: string;
  base: string;
  cap: string;
  attempts: string;
  jitter: string;
  statuses: string;
  timeout: string;
  types: string;
  drafts: Record<string, Draft>;
};

function formOf(own: Own, effective: Effective, level: Level): Form {
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
    drafts: Object.fromEntries(
      rulesOf(effective, level).map((rule) => [
        rule.key,
        draftOf(rule, own[rule.key], (effective[rule.key] as Setting<unknown>).value),
      ]),
    ),
  };
}

/** The settings that this server honours on a level. */
const rulesOf = (effective: Effective, level: Level) =>
  rules.filter(({ key, only }) => key in effective && (!only || only === level));

function parseTypes(text: string): Record<string, unknown> | undefined | null {
  if (text.trim() === '') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

const number = (text: string) => (text.trim() === '' ? undefined : Number(text));

type FormProps = {
  level: Level;
  effective: Effective;
  own: Own;
  may: boolean;
  /** Reads the policy of this level. It is replaced as a whole, so that an older copy would undo changes of others. */
  read: () => Promise<Own | null | undefined>;
  /** Replaces the policy of this level. */
  write: (policy: Own | null) => Promise<unknown>;
  nouns: string[];
};

/** The form of one level. It starts from its values: give it another key when they change. */
export function PolicyForm({ level, effective, own, may, read, write, nouns }: FormProps) {
  const [start] = useState(() => formOf(own, effective, level));
  const [form, setForm] = useState(start);
  const set = (patch: Partial<Form>) => setForm({ ...form, ...patch });
  const list = parseDelays(form.list);
  const backoff: Backoff | undefined =
    form.kind === 'inherit'
      ? undefined
      : form.kind === 'list'
        ? (list ?? undefined)
        : { baseSeconds: Number(form.base), capSeconds: Number(form.cap) };
  const statuses = parseStatuses(form.statuses);
  const shown = rulesOf(effective, level);
  const types = parseTypes(form.types);
  const bad =
    statuses === null ||
    types === null ||
    (form.kind === 'list' && !list) ||
    shown.some((rule) => draftError(rule, form.drafts[rule.key] as Draft) !== null);
  const attempts = number(form.attempts);
  const jitter = number(form.jitter);
  const shownBackoff = backoff ?? effective.backoff.value;
  const implied = Array.isArray(shownBackoff) ? shownBackoff.length + 1 : 10;
  const shownAttempts = attempts ?? (backoff === undefined ? effective.maxAttempts.value : implied);
  const delays = delaysOf(shownBackoff, shownAttempts);
  const share = (jitter ?? effective.jitterPercent.value) / 100;
  const changed = JSON.stringify(form) !== JSON.stringify(start);

  const save = useChange(
    async () => {
      const retry = Object.fromEntries(
        Object.entries({
          backoff,
          maxAttempts: attempts,
          jitterPercent: jitter,
          finalStatuses: statuses?.length ? statuses : undefined,
        }).filter(([, value]) => value !== undefined),
      );
      // Settings that this form does not show stay.
      const edited = Object.fromEntries(shown.map((rule) => [rule.key, valueOf(rule, form.drafts[rule.key] as Draft)]));
      const members = {
        ...(await read()),
        ...edited,
        retry: Object.keys(retry).length ? retry : undefined,
        timeoutSeconds: number(form.timeout),
        eventTypes: types ?? undefined,
      };
      const policy = Object.fromEntries(
        Object.entries(members).filter(([, value]) => value !== undefined && value !== null),
      );
      return write(Object.keys(policy).length ? policy : null);
    },
    nouns,
    () => toast('Policy saved', { text: 'Attempts that are already scheduled keep their time.' }),
  );
  // Paths of the server begin with `policy`, and those of retries with `policy.retry`.
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(
          save.error.fields.map(({ field, message }) => [
            field.replace(/^policy\./, '').replace(/^retry\./, ''),
            message,
          ]),
        )
      : {};
  const origin = (name: 'backoff' | 'maxAttempts' | 'jitterPercent' | 'finalStatuses' | 'timeoutSeconds') =>
    originText(effective[name].from, level);
  return (
    <>
      <Card
        title="Retries"
        sub={`${plural(delays.length, 'attempt')} over ${delayLabel(delays.reduce((sum, delay) => sum + delay, 0))}; the bands are the jitter, the octagon is dead`}
        tools={
          may && (
            <Seg
              small
              label="Schedule"
              value={form.kind}
              options={
                [
                  ['inherit', 'Inherited'],
                  ['exponential', 'Exponential'],
                  ['list', 'Custom list'],
                ] as const
              }
              onChange={(kind) => set({ kind })}
            />
          )
        }
      >
        <div className="in stack">
          <RetrySchedule delays={delays} jitter={share} />
          {form.kind === 'list' && (
            <TextField
              label="Delays"
              value={form.list}
              onChange={(text) => set({ list: text })}
              mono
              unit="seconds"
              error={list ? fields.backoff : 'Must be whole seconds, such as 5, 60, 3600'}
              readOnly={!may}
            />
          )}
          {form.kind === 'exponential' && (
            <div className="fgrid two-col">
              <TextField
                label="First delay"
                value={form.base}
                onChange={(text) => set({ base: text })}
                unit="seconds"
                inputMode="numeric"
                error={fields['backoff.baseSeconds'] ?? fields.backoff}
              />
              <TextField
                label="Longest delay"
                value={form.cap}
                onChange={(text) => set({ cap: text })}
                unit="seconds"
                inputMode="numeric"
                error={fields['backoff.capSeconds']}
              />
            </div>
          )}
          <div className="fgrid">
            <TextField
              label="Attempts"
              value={form.attempts}
              placeholder={String(effective.maxAttempts.value)}
              onChange={(text) => set({ attempts: text })}
              inputMode="numeric"
              origin={origin('maxAttempts')}
              error={fields.maxAttempts}
              readOnly={!may}
            />
            <TextField
              label="Timeout of an attempt"
              value={form.timeout}
              placeholder={String(effective.timeoutSeconds.value)}
              onChange={(text) => set({ timeout: text })}
              unit="seconds"
              inputMode="numeric"
              origin={origin('timeoutSeconds')}
              error={fields.timeoutSeconds}
              readOnly={!may}
            />
            <TextField
              label="Jitter"
              value={form.jitter}
              placeholder={String(effective.jitterPercent.value)}
              onChange={(text) => set({ jitter: text })}
              unit="± %"
              inputMode="numeric"
              origin={origin('jitterPercent')}
              error={fields.jitterPercent}
              readOnly={!may}
            />
            <TextField
              label="Final statuses"
              value={form.statuses}
              placeholder={effective.finalStatuses.value.join(', ') || 'none'}
              onChange={(text) => set({ statuses: text })}
              mono
              origin={origin('finalStatuses')}
              error={statuses ? fields.finalStatuses : 'Must be statuses such as 404, or classes such as 4xx'}
              readOnly={!may}
            />
          </div>
          {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
        </div>
      </Card>
      <PolicySettings
        level={level}
        list={shown}
        effective={effective as Record<string, Setting<unknown>>}
        drafts={form.drafts}
        set={(key, draft) => set({ drafts: { ...form.drafts, [key]: draft } })}
        errors={fields}
        readOnly={!may}
      />
      <Card title="Single event types" sub="their settings outrank the others">
        <div className="in stack">
          <AreaField
            label="Settings by event type"
            optional
            value={form.types}
            onChange={(text) => set({ types: text })}
            rows={form.types ? 6 : 3}
            placeholder={'{"invoice.paid": {"timeoutSeconds": 5, "retry": {"maxAttempts": 3}}}'}
            error={types === null ? 'Must be a JSON object' : fields.eventTypes}
            readOnly={!may}
          />
        </div>
      </Card>
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
