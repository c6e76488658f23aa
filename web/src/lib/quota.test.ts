import { describe, expect, it } from 'vitest';
import { quotaBody, quotaErrors, quotaForm } from './quota';

describe('quota', () => {
  it('comes back from its form unchanged', () => {
    for (const quota of [
      {},
      { endpoints: 50, messageRate: { count: 100, seconds: 1, burst: 500 } },
      { storedMessages: 'none' as const, messageRate: 'none' as const },
      { messageRate: { count: 6000, seconds: 60 } },
    ]) {
      expect(quotaBody(quotaForm(quota))).toEqual(quota);
    }
    expect(quotaBody(quotaForm(null))).toEqual({});
  });

  it('names the fields that are no numbers', () => {
    const form = quotaForm({ endpoints: 1, messageRate: { count: 1, seconds: 1 } });
    form.endpoints.value = 'many';
    form.messageRate.seconds = '';
    form.messageRate.burst = '-1';
    expect(Object.keys(quotaErrors(form))).toEqual(['endpoints', 'messageRate.seconds', 'messageRate.burst']);
    expect(quotaErrors(quotaForm({}))).toEqual({});
  });
});
