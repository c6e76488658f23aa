import { describe, expect, it } from 'vitest';
import {
  attemptLabel,
  deliveryState,
  destinationState,
  endpointState,
  fanOut,
  jobState,
  reasonText,
  tallyChips,
} from './state';
import { delayLabel, percentile, points } from './retry';

describe('states', () => {
  it('says retrying once an attempt failed', () => {
    const pending = { state: 'pending', reason: { kind: 'retry' } };
    expect(deliveryState({ ...pending, tries: 0 })).toEqual({ look: 'pending', word: 'Pending' });
    expect(deliveryState({ ...pending, tries: 2 })).toEqual({ look: 'retrying', word: 'Retrying' });
    expect(deliveryState({ state: 'pending', reason: { kind: 'breakerOpen' }, tries: 2 }).look).toBe('breaker');
    expect(deliveryState({ state: 'pending', reason: { kind: 'rateLimit' } }).look).toBe('limited');
    expect(deliveryState({ state: 'held', reason: { kind: 'endpointDisabled' } }).look).toBe('disabled');
    expect(deliveryState({ state: 'later' }).word).toBe('later');
    expect(jobState({ state: 'pending', tries: 1 }).word).toBe('Retrying');
  });
  it('counts a fan-out in order', () => {
    const rows = [{ status: 2 }, { status: 0 }, { status: 0 }, { status: 2, nextAttempt: '2026-01-01T00:00:00Z' }];
    expect(fanOut(rows.map(destinationState))).toEqual([
      { look: 'delivered', number: 2, word: '' },
      { look: 'retrying', number: 1, word: 'retrying' },
      { look: 'dead', number: 1, word: 'dead' },
    ]);
  });
  it('judges endpoints only by enough attempts', () => {
    expect(endpointState({}, { attempts: 0, failures: 0 }).word).toBe('No attempts');
    expect(endpointState({}, { attempts: 100, failures: 1 }).word).toBe('Healthy');
    expect(endpointState({}, { attempts: 100, failures: 9 }).word).toBe('Degraded');
    expect(endpointState({}, { attempts: 10, failures: 6 }).word).toBe('Failing');
    expect(endpointState({ disabled: true }, { attempts: 10, failures: 0 }).word).toBe('Disabled');
  });
  it('counts deliveries by state', () => {
    const none = { succeeded: 0, sending: 0, pending: 0, held: 0, retrying: 0, cancelled: 0, dead: 0 };
    expect(tallyChips(none)).toEqual([]);
    expect(tallyChips({ ...none, succeeded: 3, dead: 1 }).map(({ number, word }) => `${number} ${word}`)).toEqual([
      '3 ',
      '1 dead',
    ]);
  });
  it('shows a pause before the health', () => {
    expect(endpointState({ policy: { paused: true } }, { attempts: 10, failures: 10 }).word).toBe('Paused');
    expect(endpointState({ disabled: true, policy: { paused: true } }).word).toBe('Disabled');
  });
  it('shows unknown reasons as they are', () => {
    expect(reasonText('someNewThing')).toBe('some new thing');
    expect(reasonText('gone', 'x')).toBe('The receiver answered 410 Gone: x');
    expect(attemptLabel({ class: 'timeout', responseStatusCode: 0 })).toBe('Timeout');
    expect(attemptLabel({ class: 'status', responseStatusCode: 503 })).toBe('503');
  });
});

describe('retry schedules', () => {
  it('spreads over a fourth-root axis', () => {
    const [first, second, last] = points([0, 5, 86_395]);
    expect([first?.x, last?.x, last?.after]).toEqual([0, 1, 86_400]);
    expect(second?.x).toBeGreaterThan(0.05);
  });
  it('labels delays', () => {
    expect([0, 5, 300, 7200, 115_200].map(delayLabel)).toEqual(['at once', '5 s', '5 min', '2 h', '1 d 8 h']);
  });
  it('takes percentiles', () => {
    expect(percentile([5, 1, 3], 0.5)).toBe(3);
    expect(percentile([5, 1, 3], 0.95)).toBe(5);
    expect(percentile([], 0.5)).toBeNull();
  });
});
