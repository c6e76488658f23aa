import { expect, it } from 'vitest';
import { alertState, bodyOf, formErrors, formOf, ruleText, valueText, type AlertRule } from './alerts';

const rule: AlertRule = {
  id: 'alert_1',
  name: 'failures',
  description: 'Look at the overview',
  signal: 'failure-rate',
  condition: 'above',
  threshold: 0.25,
  windowSeconds: 300,
  forSeconds: 60,
  resolveAfterSeconds: 300,
  cooldownSeconds: 3600,
  destinations: ['ep_1'],
  escalation: { afterOngoing: 2, destinations: ['ep_2'] },
  disabled: false,
  state: 'quiet',
  escalated: false,
  createdAt: '',
  updatedAt: '',
};

it('says a rule as a sentence', () => {
  expect(ruleText(rule)).toBe('Share of failed attempts above 25 % within 5 min, for 1 min');
  expect(ruleText({ signal: 'queue-depth', queue: 'email', condition: 'below', threshold: 1, forSeconds: 0 })).toBe(
    'Waiting jobs of email below 1',
  );
  expect(valueText('oldest-due-age', 90)).toBe('1 min 30 s');
  expect(valueText('dead', null)).toBe('no value');
});

it('keeps a rule through its form', () => {
  const {
    name,
    description,
    signal,
    condition,
    threshold,
    windowSeconds,
    forSeconds,
    resolveAfterSeconds,
    cooldownSeconds,
    destinations,
    escalation,
    disabled,
  } = rule;
  expect(bodyOf(formOf(rule))).toEqual({
    name,
    description,
    signal,
    condition,
    threshold,
    windowSeconds,
    forSeconds,
    resolveAfterSeconds,
    cooldownSeconds,
    destinations,
    escalation,
    disabled,
  });
});

it('keeps the endpoint of a rule, which a queue cannot have', () => {
  const one = { ...rule, endpointId: 'ep_1srOrx2ZWZBpBUvZwXKQmoEYga2' };
  expect(bodyOf(formOf(one)).endpointId).toBe(one.endpointId);
  expect(ruleText(one)).toBe('Share of failed attempts of ep_…oEYga2 above 25 % within 5 min, for 1 min');
  expect(Object.keys(bodyOf({ ...formOf(one), signal: 'queue-depth', queue: 'email' }))).not.toContain('endpointId');
  expect(Object.keys(bodyOf(formOf(rule)))).not.toContain('endpointId');
});

it('sends only the members that the signal has', () => {
  const body = bodyOf({ ...formOf(null), name: ' dead ', queue: 'left over' });
  expect(body).toMatchObject({ name: 'dead', signal: 'dead', threshold: 100 });
  expect(Object.keys(body)).not.toContain('queue');
  expect(Object.keys(body)).not.toContain('windowSeconds');
  expect(Object.keys(body)).not.toContain('destinations');
});

it('names what a form lacks', () => {
  expect(
    formErrors({ ...formOf(null), signal: 'queue-depth', threshold: 'many', lasts: '', escalates: 'time' }),
  ).toEqual({
    name: 'The name is required',
    queue: 'The queue is required',
    threshold: 'must be a number',
    forSeconds: 'must be a whole number of seconds',
    further: 'Choose at least one endpoint',
  });
  expect(formErrors({ ...formOf(null), name: 'dead' })).toEqual({});
});

it('shows the state of an alert', () => {
  expect(alertState({ state: 'triggered' }).word).toBe('Triggered');
  expect(alertState({ state: 'triggered', clearSince: '2026-01-01T00:00:00Z' }).word).toBe('Clearing');
  expect(alertState({ state: 'quiet' }).look).toBe('delivered');
});
