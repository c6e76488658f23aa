// Quotas: what an application, or the environment, may use, and what it uses.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../../api/client';
import { useChange } from '../../api/queries';
import {
  quotaBody,
  quotaErrors,
  quotaForm,
  type EnvironmentQuota,
  type Mode,
  type Quota,
  type QuotaForm,
  type Rate,
} from '../../lib/quota';
import { count } from '../../lib/text';
import { useMay } from '../../session';
import { Button, SelectField, TextField } from '../../ui/controls';
import { Card, Meter } from '../../ui/figures';
import { Callout, Loaded } from '../../ui/status';
import { toast } from '../../ui/toast';

type Counted = { used: number; limit?: number | null; atLeast: boolean };
type Usage = { endpoints: Counted; storedMessages: Counted; messageRate?: Rate | null };

const noun = ['quotas'];

export function ApplicationQuota({ app }: { app: string }) {
  const base = `/api/v1/app/${encodeURIComponent(app)}`;
  const may = useMay('PUT /api/v1/app/{app_id}/quota');
  const query = useQuery({ queryKey: ['quotas', app], queryFn: () => raw<Quota>('GET', `${base}/quota`) });
  return (
    <>
      <UsageCard path={`${base}/usage`} sub="of this application" />
      <Loaded query={query} what="The quota">
        {(quota) => (
          <div className="grid cols two-cards">
            <QuotaCard
              key={JSON.stringify(quota)}
              title="Limits of this application"
              sub="inherited if they are not set"
              inherited="Inherited"
              quota={quota}
              may={may}
              write={(body) => raw('PUT', `${base}/quota`, { body })}
            />
          </div>
        )}
      </Loaded>
    </>
  );
}

export function EnvironmentQuotas() {
  const path = '/api/v1/environment/quota';
  const may = useMay('PUT /api/v1/environment/quota');
  const query = useQuery({ queryKey: ['quotas'], queryFn: () => raw<EnvironmentQuota>('GET', path) });
  // The quota is replaced as a whole, so it is read first: an older copy would undo changes of others.
  const change = async (patch: (now: EnvironmentQuota) => EnvironmentQuota) =>
    raw('PUT', path, { body: patch(await raw<EnvironmentQuota>('GET', path)) });
  return (
    <>
      <UsageCard path="/api/v1/environment/usage" sub="of all applications together" />
      <Loaded query={query} what="The quota">
        {(quota) => (
          <div className="grid cols two-cards">
            <QuotaCard
              key={`all ${JSON.stringify(quota)}`}
              title="All applications together"
              quota={quota}
              may={may}
              write={(body) => change(({ eachApplication }) => ({ ...body, eachApplication }))}
            />
            <QuotaCard
              key={`each ${JSON.stringify(quota)}`}
              title="Each application"
              sub="unless it sets its own limits"
              quota={quota.eachApplication}
              may={may}
              write={(body) => change((now) => ({ ...now, eachApplication: body }))}
            />
          </div>
        )}
      </Loaded>
    </>
  );
}

function UsageCard({ path, sub }: { path: string; sub: string }) {
  const query = useQuery({
    queryKey: ['quotas', 'usage', path],
    queryFn: () => raw<Usage>('GET', path),
    refetchInterval: 30_000,
  });
  return (
    <Card title="Usage" sub={sub}>
      <div className="in">
        <Loaded query={query} what="The usage" rows={2}>
          {({ endpoints, storedMessages, messageRate }) => (
            <div className="fgrid three-col usage">
              <Used label="Endpoints" {...endpoints} />
              <Used label="Stored messages" {...storedMessages} />
              <div>
                <span className="lab">New messages</span>
                <b>{messageRate ? rateText(messageRate) : 'no limit'}</b>
              </div>
            </div>
          )}
        </Loaded>
      </div>
    </Card>
  );
}

function Used({ label, used, limit, atLeast }: Counted & { label: string }) {
  const number = `${atLeast ? 'at least ' : ''}${count(used)}`;
  const full = typeof limit === 'number' && used >= limit;
  return (
    <div>
      <span className="lab">{label}</span>
      <b className={full ? 'dead-n' : ''}>{typeof limit === 'number' ? `${number} of ${count(limit)}` : number}</b>
      {typeof limit === 'number' ? (
        <Meter
          share={limit === 0 ? 1 : used / limit}
          color={full ? 'var(--dead)' : undefined}
          label={`${number} of ${count(limit)}`}
        />
      ) : (
        <span className="t3 s12">no limit</span>
      )}
    </div>
  );
}

const rateText = ({ count: number, seconds, burst }: Rate): string =>
  `${count(number)} in ${seconds === 1 ? 'a second' : `${count(seconds)} seconds`}${burst && burst !== number ? `, ${count(burst)} at once` : ''}`;

type CardProps = {
  title: string;
  sub?: string;
  quota: Quota | null | undefined;
  may: boolean;
  inherited?: string;
  write: (quota: Quota) => Promise<unknown>;
};

function QuotaCard({ title, sub, quota, may, inherited, write }: CardProps) {
  const [start] = useState(() => quotaForm(quota));
  const [form, setForm] = useState<QuotaForm>(start);
  const errors = quotaErrors(form);
  const save = useChange(
    () => write(quotaBody(form)),
    noun,
    () => toast('Quota saved', { text: 'Every replica applies it within 5 seconds.' }),
  );
  // Paths of the server can begin with the part that this card edits.
  const refused =
    save.error instanceof ApiFailure
      ? Object.fromEntries(
          save.error.fields.map(({ field, message }) => [field.replace(/^eachApplication\./, ''), message]),
        )
      : {};
  const error = (name: string) => errors[name] ?? refused[name];
  const modes: (readonly [string, string])[] = inherited
    ? [
        ['inherit', inherited],
        ['none', 'No limit'],
        ['own', 'Limit'],
      ]
    : [
        ['inherit', 'No limit'],
        ['own', 'Limit'],
      ];
  // Without an outer level, "none" and an absent limit are the same.
  const shown = (mode: Mode) => (!inherited && mode === 'none' ? 'inherit' : mode);
  const rate = form.messageRate;
  const setRate = (patch: Partial<typeof rate>) => setForm({ ...form, messageRate: { ...rate, ...patch } });
  return (
    <Card title={title} sub={sub}>
      <form
        className="in stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (Object.keys(errors).length === 0) save.mutate(undefined);
        }}
      >
        {(
          [
            ['endpoints', 'Endpoints', 'endpoints'],
            ['storedMessages', 'Stored messages', 'messages'],
          ] as const
        ).map(([name, label, unit]) => (
          <div key={name} className="fgrid two-col">
            <SelectField
              label={label}
              value={shown(form[name].mode)}
              options={modes}
              disabled={!may}
              onChange={(mode) => setForm({ ...form, [name]: { ...form[name], mode: mode as Mode } })}
            />
            {form[name].mode === 'own' && (
              <TextField
                label="At most"
                aria-label={`${label}, at most`}
                unit={unit}
                inputMode="numeric"
                value={form[name].value}
                readOnly={!may}
                onChange={(value) => setForm({ ...form, [name]: { ...form[name], value } })}
                error={error(name)}
              />
            )}
          </div>
        ))}
        <div className="fgrid two-col">
          <SelectField
            label="New messages"
            value={shown(rate.mode)}
            options={modes}
            disabled={!may}
            onChange={(mode) => setRate({ mode: mode as Mode })}
            hint="Requests beyond it get 429 with Retry-After"
            error={refused.messageRate}
          />
        </div>
        {rate.mode === 'own' && (
          <div className="fgrid three-col">
            <TextField
              label="Messages"
              inputMode="numeric"
              value={rate.count}
              readOnly={!may}
              onChange={(value) => setRate({ count: value })}
              error={error('messageRate.count')}
            />
            <TextField
              label="In each"
              unit="seconds"
              inputMode="numeric"
              value={rate.seconds}
              readOnly={!may}
              onChange={(value) => setRate({ seconds: value })}
              error={error('messageRate.seconds')}
            />
            <TextField
              label="At once"
              optional
              inputMode="numeric"
              value={rate.burst}
              readOnly={!may}
              onChange={(value) => setRate({ burst: value })}
              error={error('messageRate.burst')}
            />
          </div>
        )}
        {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
        {may && (
          <span>
            <Button
              submit
              busy={save.isPending}
              disabled={JSON.stringify(form) === JSON.stringify(start) || Object.keys(errors).length > 0}
            >
              Save limits
            </Button>
          </span>
        )}
      </form>
    </Card>
  );
}
