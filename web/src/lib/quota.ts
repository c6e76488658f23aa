// Quotas: limits as forms. Pure.

export type Rate = { count: number; seconds: number; burst?: number };
export type Limit<T> = T | 'none' | null | undefined;
export type Quota = { endpoints?: Limit<number>; messageRate?: Limit<Rate>; storedMessages?: Limit<number> };
export type EnvironmentQuota = Quota & { eachApplication?: Quota | null };

export type Mode = 'inherit' | 'none' | 'own';
type NumberForm = { mode: Mode; value: string };
export type QuotaForm = {
  endpoints: NumberForm;
  storedMessages: NumberForm;
  messageRate: { mode: Mode; count: string; seconds: string; burst: string };
};

const modeOf = (limit: Limit<unknown>): Mode =>
  limit === undefined || limit === null ? 'inherit' : limit === 'none' ? 'none' : 'own';

const numberForm = (limit: Limit<number>): NumberForm => ({
  mode: modeOf(limit),
  value: typeof limit === 'number' ? String(limit) : '',
});

export function quotaForm(quota: Quota | null | undefined): QuotaForm {
  const { endpoints, storedMessages, messageRate } = quota ?? {};
  const rate = typeof messageRate === 'object' && messageRate !== null ? messageRate : undefined;
  return {
    endpoints: numberForm(endpoints),
    storedMessages: numberForm(storedMessages),
    messageRate: {
      mode: modeOf(messageRate),
      count: String(rate?.count ?? ''),
      seconds: String(rate?.seconds ?? 1),
      burst: String(rate?.burst ?? ''),
    },
  };
}

const whole = (text: string): boolean => /^\d{1,12}$/.test(text.trim());

/** The errors of a form by field; empty if it can be sent. */
export function quotaErrors(form: QuotaForm): Record<string, string> {
  const errors: Record<string, string> = {};
  for (const name of ['endpoints', 'storedMessages'] as const) {
    if (form[name].mode === 'own' && !whole(form[name].value)) errors[name] = 'Must be a whole number';
  }
  const { mode, count, seconds, burst } = form.messageRate;
  if (mode === 'own') {
    if (!whole(count)) errors['messageRate.count'] = 'Must be a whole number';
    if (!whole(seconds)) errors['messageRate.seconds'] = 'Must be a whole number';
    if (burst.trim() !== '' && !whole(burst)) errors['messageRate.burst'] = 'Must be a whole number, or empty';
  }
  return errors;
}

/** Inherited limits are absent. */
export function quotaBody(form: QuotaForm): Quota {
  const body: Quota = {};
  for (const name of ['endpoints', 'storedMessages'] as const) {
    if (form[name].mode === 'none') body[name] = 'none';
    if (form[name].mode === 'own') body[name] = Number(form[name].value);
  }
  const { mode, count, seconds, burst } = form.messageRate;
  if (mode === 'none') body.messageRate = 'none';
  if (mode === 'own')
    body.messageRate = {
      count: Number(count),
      seconds: Number(seconds),
      ...(burst.trim() ? { burst: Number(burst) } : {}),
    };
  return body;
}
