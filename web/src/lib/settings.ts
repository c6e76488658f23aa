// The settings of a delivery policy beside the retries: their words, and the forms that edit them. Pure.
//
// A server names the settings that it honours in the effective policy. A setting that it does not name has no form.

import type { Level } from './policy';
import { delayLabel } from './retry';

/** One value of a setting. A setting with the single part `''` is that value itself. */
export type Part = {
  name: string;
  label: string;
  unit?: string;
  text?: boolean;
  placeholder?: string;
  check?: (text: string) => string | null;
};

export type Rule = {
  key: string;
  label: string;
  hint: string;
  /** Whether `"none"` switches off the value of an outer level. */
  off?: string;
  /** Values without parts. */
  choices?: readonly (readonly [string, string])[];
  /** The name of the choice that opens the parts. */
  own?: string;
  parts?: readonly Part[];
  /** The only level that may have the setting. */
  only?: Level;
};

export type Draft = { mode: string; parts: Record<string, string> };

export const INHERIT = 'inherit';
export const OFF = 'none';
export const OWN = 'own';

export const rules: readonly Rule[] = [
  {
    key: 'rate',
    label: 'Rate limit',
    hint: 'Deliveries beyond it wait; none is lost.',
    off: 'No limit',
    own: 'Limit',
    parts: [
      { name: 'count', label: 'Deliveries' },
      { name: 'seconds', label: 'In each', unit: 'seconds' },
    ],
  },
  {
    key: 'concurrency',
    label: 'Concurrency limit',
    hint: 'Attempts that may run at the same time.',
    off: 'No limit',
    own: 'Limit',
    parts: [{ name: '', label: 'Attempts at once' }],
  },
  {
    key: 'breaker',
    label: 'Circuit breaker',
    hint: 'Stops sending while most attempts fail, and probes until one succeeds.',
    off: 'No breaker',
    own: 'Set here',
    parts: [
      { name: 'failurePercent', label: 'Failed attempts', unit: '%' },
      { name: 'minAttempts', label: 'At least', unit: 'attempts' },
      { name: 'windowSeconds', label: 'Within', unit: 'seconds' },
      { name: 'openSeconds', label: 'Open for', unit: 'seconds' },
      { name: 'maxOpenSeconds', label: 'At most', unit: 'seconds' },
    ],
  },
  {
    key: 'disableAfterSeconds',
    label: 'Disable when failing',
    hint: 'Disables the endpoint after this time of nothing but failures.',
    off: 'Never',
    own: 'After',
    parts: [{ name: '', label: 'Time of failures', unit: 'seconds' }],
  },
  {
    key: 'ordering',
    label: 'Order',
    hint: 'Ordered deliveries wait for each other, one at a time. With a key, only those with the same value in their payload.',
    off: 'Unordered',
    choices: [['endpoint', 'All deliveries']],
    own: 'By a key of the payload',
    parts: [{ name: 'key', label: 'Key', text: true, placeholder: '/customerId', check: pointerError }],
  },
  {
    key: 'onDead',
    label: 'After a dead delivery',
    hint: 'For ordered deliveries: what happens to those behind it.',
    choices: [
      ['skip', 'The next one starts'],
      ['block', 'The lane waits for a decision'],
    ],
  },
  {
    key: 'whileDisabled',
    only: 'endpoint',
    label: 'Messages while disabled',
    hint: 'Messages that are accepted while the endpoint is disabled.',
    choices: [
      ['skip', 'Not delivered to it'],
      ['hold', 'Held until it is enabled'],
    ],
  },
  {
    key: 'keepReplies',
    label: 'Replies',
    hint: 'Whether bodies and headers of replies are stored. They are not if any level says no.',
    choices: [
      ['true', 'Stored, up to 16 KiB'],
      ['false', 'Not stored'],
    ],
  },
  {
    key: 'retryBudget',
    label: 'Retry budget',
    hint: 'Retries that are allowed for now, for example 0 during an incident.',
    own: 'Limit',
    parts: [{ name: '', label: 'Retries' }],
  },
  {
    key: 'legacySignature',
    label: 'Legacy signature',
    hint: 'A second signature header, for receivers that migrate.',
    off: 'None',
    own: 'Set here',
    parts: [
      { name: 'header', label: 'Header', text: true },
      { name: 'encoding', label: 'Encoding', text: true },
      { name: 'signedText', label: 'Signed text', text: true },
      { name: 'value', label: 'Value', text: true },
    ],
  },
];

/** Why a text is not a JSON pointer (RFC 6901); null if it is one. */
export function pointerError(text: string): string | null {
  if (!text.startsWith('/')) return 'must be a JSON pointer, such as /customerId';
  return /~(?![01])/.test(text) ? 'must have ~0 for ~ and ~1 for / in a name' : null;
}

type Members = Record<string, unknown>;

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value of a setting in words. */
export function settingText(key: string, value: unknown): string {
  const rule = rules.find((one) => one.key === key);
  if (value === null || value === undefined || value === OFF) return rule?.off?.toLowerCase() ?? 'none';
  const choice = rule?.choices?.find(([name]) => name === String(value));
  if (choice) return choice[1].charAt(0).toLowerCase() + choice[1].slice(1);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (isObject(value)) return objectText(key, value);
  if (typeof value === 'number' && key.endsWith('Seconds')) return delayLabel(value);
  return String(value);
}

function objectText(key: string, value: Members): string {
  if (key === 'rate') {
    const seconds = Number(value.seconds);
    return `${String(value.count)} ${seconds === 1 ? 'per second' : `in ${delayLabel(seconds)}`}`;
  }
  if (key === 'breaker') {
    const [window, open] = [Number(value.windowSeconds), Number(value.openSeconds)];
    return `opens at ${String(value.failurePercent)} % of ${String(value.minAttempts)} or more attempts in ${delayLabel(window)}, for ${delayLabel(open)}`;
  }
  if (key === 'ordering' && typeof value.key === 'string') return `by ${value.key}`;
  if (key === 'legacySignature' && typeof value.header === 'string') return `in ${value.header}`;
  return JSON.stringify(value);
}

/** The form of a setting: the endpoint's own value, or the inherited one as a start. */
export function draftOf(rule: Rule, own: unknown, effective: unknown): Draft {
  const start = own ?? effective;
  const parts = Object.fromEntries((rule.parts ?? []).map(({ name }) => [name, partText(name, start)]));
  if (own === undefined || own === null) return { mode: INHERIT, parts };
  if (own === OFF) return { mode: OFF, parts };
  const choice = rule.choices?.find(([name]) => name === String(own));
  return { mode: choice?.[0] ?? OWN, parts };
}

function partText(name: string, value: unknown): string {
  if (name === '')
    return typeof value === 'number' || typeof value === 'string' ? String(value === OFF ? '' : value) : '';
  const member = isObject(value) ? value[name] : undefined;
  return member === undefined || member === null ? '' : String(member);
}

/** The value that a form stands for; undefined for an inherited one. */
export function valueOf(rule: Rule, draft: Draft): unknown {
  if (draft.mode === INHERIT) return undefined;
  if (draft.mode === 'true' || draft.mode === 'false') return draft.mode === 'true';
  if (draft.mode !== OWN) return draft.mode;
  const values = (rule.parts ?? []).map(
    (part) =>
      [part.name, part.text ? (draft.parts[part.name] ?? '').trim() : toNumber(draft.parts[part.name] ?? '')] as const,
  );
  const single = values.find(([name]) => name === '');
  return single ? single[1] : Object.fromEntries(values.filter(([, value]) => value !== ''));
}

const toNumber = (text: string): number | '' => (text.trim() === '' ? '' : Number(text));

/** Why a form cannot be saved; null if it can. The server checks the limits. */
export function draftError(rule: Rule, draft: Draft): string | null {
  if (draft.mode !== OWN) return null;
  const bad = rule.parts?.find((part) => {
    const text = (draft.parts[part.name] ?? '').trim();
    return part.text ? text === '' : !/^\d+$/.test(text);
  });
  if (!bad) {
    const wrong = rule.parts
      ?.map((part) => [part.label, part.check?.((draft.parts[part.name] ?? '').trim())] as const)
      .find(([, why]) => why);
    return wrong ? `${wrong[0]} ${String(wrong[1])}` : null;
  }
  return bad.text ? `${bad.label} is required` : `${bad.label} must be a whole number`;
}
