import { describe, expect, it } from 'vitest';
import { typeMatches, whyNot } from './match';

const endpoint = { id: 'ep_1', url: 'https://a.example', createdAt: '2026-01-01T00:00:00Z' };
const message = { eventType: 'payment.succeeded', channels: ['eu'], timestamp: '2026-02-01T00:00:00Z' };

describe('why not', () => {
  it('names the reason', () => {
    expect(whyNot({ ...endpoint, eventTypes: ['customer.*', 'dispute.*'] }, message).text).toBe(
      'Subscribed to customer.* and dispute.*. This message is payment.succeeded',
    );
    expect(whyNot({ ...endpoint, channels: ['us'] }, message).text).toBe('Listens to us. This message is on eu');
    expect(whyNot({ ...endpoint, disabled: true }, message).look).toBe('disabled');
    expect(whyNot({ ...endpoint, createdAt: '2026-03-01T00:00:00Z' }, message).text).toMatch(/^Created after/);
    expect(whyNot(endpoint, message).text).toMatch(/^Matches now/);
  });
  it('matches wildcards by segment', () => {
    expect(typeMatches('payment.*', 'payment.succeeded')).toBe(true);
    expect(typeMatches('payment.*', 'payments.x')).toBe(false);
    expect(typeMatches('payment', 'payment.x')).toBe(false);
  });
});
