// Alert rules in words, and their form. Pure.

import type { Shown } from './state';
import { delayLabel } from './retry';
import { shortId } from './text';

export type AlertEscalation = { afterSeconds?: number | null; afterOngoing?: number | null; destinations: string[] };

export type AlertPage = {
  kind: string;
  at: string;
  value?: number | null;
  escalated: boolean;
  messages: { endpointId: string; msgId: string }[];
};

export type AlertRule = {
  id: string;
  name: string;
  description: string;
  signal: string;
  queue?: string | null;
  /** The endpoint whose deliveries are watched, instead of the environment. */
  endpointId?: string | null;
  condition: string;
  threshold: number;
  windowSeconds?: number | null;
  forSeconds: number;
  resolveAfterSeconds: number;
  cooldownSeconds: number;
  destinations?: string[] | null;
  escalation?: AlertEscalation | null;
  disabled: boolean;
  state: string;
  since?: string | null;
  clearSince?: string | null;
  escalated: boolean;
  lastPage?: AlertPage | null;
  createdAt: string;
  updatedAt: string;
};

export const signals: readonly (readonly [string, string])[] = [
  ['dead', 'Dead deliveries and jobs'],
  ['due', 'Due deliveries and jobs'],
  ['oldest-due-age', 'Age of the oldest due task'],
  ['failure-rate', 'Share of failed attempts'],
  ['queue-depth', 'Waiting jobs of a queue'],
];

export const conditions: readonly (readonly [string, string])[] = [
  ['above', 'above'],
  ['below', 'below'],
  ['change', 'changed by more than'],
];

const wordOf = (list: readonly (readonly [string, string])[], key: string) =>
  list.find(([name]) => name === key)?.[1] ?? key;

/** The value of a signal in its unit. */
export function valueText(signal: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return 'no value';
  if (signal === 'failure-rate') return `${Number((value * 100).toFixed(1))} %`;
  if (signal === 'oldest-due-age') return value === 0 ? '0 s' : delayLabel(value);
  return String(Number(value.toFixed(2)));
}

export const unitOf = (signal: string): string =>
  signal === 'failure-rate' ? 'of 1' : signal === 'oldest-due-age' ? 'seconds' : '';

const span = (seconds: number) => (seconds === 0 ? '0 s' : delayLabel(seconds));

/** The condition of a rule as one sentence. */
export function ruleText(
  rule: Pick<AlertRule, 'signal' | 'queue' | 'endpointId' | 'condition' | 'threshold' | 'windowSeconds' | 'forSeconds'>,
): string {
  const subject =
    rule.signal === 'queue-depth' && rule.queue ? `Waiting jobs of ${rule.queue}` : wordOf(signals, rule.signal);
  const within = rule.windowSeconds ? ` within ${span(rule.windowSeconds)}` : '';
  const lasts = rule.forSeconds > 0 ? `, for ${span(rule.forSeconds)}` : '';
  const place = rule.endpointId ? ` of ${shortId(rule.endpointId)}` : '';
  return `${subject}${place} ${wordOf(conditions, rule.condition)} ${valueText(rule.signal, rule.threshold)}${within}${lasts}`;
}

export function alertState(rule: Pick<AlertRule, 'state' | 'clearSince'>): Shown {
  if (rule.state === 'triggered')
    return rule.clearSince ? { look: 'retrying', word: 'Clearing' } : { look: 'dead', word: 'Triggered' };
  if (rule.state === 'pending') return { look: 'retrying', word: 'Pending' };
  if (rule.state === 'disabled') return { look: 'disabled', word: 'Disabled' };
  return { look: 'delivered', word: 'Quiet' };
}

const pages: Record<string, Shown> = {
  triggered: { look: 'dead', word: 'Triggered' },
  ongoing: { look: 'retrying', word: 'Ongoing' },
  resolved: { look: 'delivered', word: 'Resolved' },
};

export const pageState = (kind: string): Shown => pages[kind] ?? { look: 'skipped', word: kind };

export type AlertForm = {
  name: string;
  description: string;
  signal: string;
  queue: string;
  endpoint: string;
  condition: string;
  threshold: string;
  window: string;
  lasts: string;
  resolve: string;
  cooldown: string;
  destinations: string[];
  escalates: 'no' | 'time' | 'pages';
  after: string;
  further: string[];
  disabled: boolean;
};

export function formOf(rule: AlertRule | null): AlertForm {
  const text = (value: number | null | undefined, fallback: number) => String(value ?? fallback);
  const escalation = rule?.escalation;
  return {
    name: rule?.name ?? '',
    description: rule?.description ?? '',
    signal: rule?.signal ?? 'dead',
    queue: rule?.queue ?? '',
    endpoint: rule?.endpointId ?? '',
    condition: rule?.condition ?? 'above',
    threshold: text(rule?.threshold, 100),
    window: text(rule?.windowSeconds, 300),
    lasts: text(rule?.forSeconds, 60),
    resolve: text(rule?.resolveAfterSeconds, 300),
    cooldown: text(rule?.cooldownSeconds, 3600),
    destinations: rule?.destinations ?? [],
    escalates: !escalation ? 'no' : escalation.afterSeconds ? 'time' : 'pages',
    after: text(escalation?.afterSeconds ?? escalation?.afterOngoing, 1800),
    further: escalation?.destinations ?? [],
    disabled: rule?.disabled ?? false,
  };
}

/** A failure rate is measured over a window, and a change is looked for in one. */
export const hasWindow = (form: Pick<AlertForm, 'signal' | 'condition'>): boolean =>
  form.signal === 'failure-rate' || form.condition === 'change';

/** The rule that a form stands for. It replaces the whole rule. */
export function bodyOf(form: AlertForm): Record<string, unknown> {
  const escalation = {
    [form.escalates === 'time' ? 'afterSeconds' : 'afterOngoing']: Number(form.after),
    destinations: form.further,
  };
  return {
    name: form.name.trim(),
    description: form.description.trim(),
    signal: form.signal,
    ...(form.signal === 'queue-depth'
      ? { queue: form.queue.trim() }
      : form.endpoint.trim()
        ? { endpointId: form.endpoint.trim() }
        : {}),
    condition: form.condition,
    threshold: Number(form.threshold),
    ...(hasWindow(form) ? { windowSeconds: Number(form.window) } : {}),
    forSeconds: Number(form.lasts),
    resolveAfterSeconds: Number(form.resolve),
    cooldownSeconds: Number(form.cooldown),
    ...(form.destinations.length > 0 ? { destinations: form.destinations } : {}),
    ...(form.escalates === 'no' ? {} : { escalation }),
    disabled: form.disabled,
  };
}

/** What the form lacks, by field. The server checks the limits. */
export function formErrors(form: AlertForm): Record<string, string> {
  const errors: Record<string, string> = {};
  const whole = (field: string, text: string) => {
    if (!/^\d+$/.test(text.trim())) errors[field] = 'must be a whole number of seconds';
  };
  if (!form.name.trim()) errors.name = 'The name is required';
  if (form.signal === 'queue-depth' && !form.queue.trim()) errors.queue = 'The queue is required';
  if (form.threshold.trim() === '' || !(Number(form.threshold) >= 0)) errors.threshold = 'must be a number';
  if (hasWindow(form)) whole('windowSeconds', form.window);
  whole('forSeconds', form.lasts);
  whole('resolveAfterSeconds', form.resolve);
  whole('cooldownSeconds', form.cooldown);
  if (form.escalates !== 'no') {
    if (!/^\d+$/.test(form.after.trim())) errors.after = 'must be a whole number';
    if (form.further.length === 0) errors.further = 'Choose at least one endpoint';
  }
  return errors;
}
