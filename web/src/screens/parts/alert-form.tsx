// Create or edit an alert rule.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../../api/client';
import { useChange } from '../../api/queries';
import type { AlertEndpoint } from '../../api/types';
import {
  bodyOf,
  conditions,
  formErrors,
  formOf,
  hasWindow,
  ruleText,
  signals,
  unitOf,
  type AlertForm,
  type AlertRule,
} from '../../lib/alerts';
import { AreaField, Button, CheckRow, SelectField, TextField } from '../../ui/controls';
import { Dialog } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { toast } from '../../ui/toast';
import { alertEndpointsQuery } from './alert-endpoints';

export default function AlertDialog({ rule, onClose }: { rule: AlertRule | null; onClose: () => void }) {
  const [form, setForm] = useState(() => formOf(rule));
  const [touched, setTouched] = useState(false);
  const set = (patch: Partial<AlertForm>) => setForm({ ...form, ...patch });
  const endpoints = useQuery(alertEndpointsQuery()).data?.data ?? [];
  const own = formErrors(form);
  const save = useChange(
    () =>
      rule
        ? raw('PUT', `/api/v1/alert/${encodeURIComponent(rule.name)}`, { body: bodyOf(form) })
        : raw('POST', '/api/v1/alert', { body: bodyOf(form) }),
    ['alerts'],
    () => {
      toast(rule ? `Alert ${rule.name} saved` : `Alert ${form.name.trim()} created`);
      onClose();
    },
  );
  const refused =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field.split(/[.[]/)[0] ?? '', message]))
      : {};
  const errors: Record<string, string | undefined> = { ...refused, ...(touched ? own : {}) };
  const submit = () => {
    setTouched(true);
    if (Object.keys(own).length === 0) save.mutate(undefined);
  };
  const number = { inputMode: 'numeric' as const, unit: 'seconds' };
  const sentence = Object.keys(own).some((field) =>
    ['threshold', 'queue', 'windowSeconds', 'forSeconds'].includes(field),
  )
    ? null
    : ruleText({
        ...form,
        endpointId: form.signal === 'queue-depth' ? null : form.endpoint.trim() || null,
        threshold: Number(form.threshold),
        windowSeconds: hasWindow(form) ? Number(form.window) : null,
        forSeconds: Number(form.lasts),
      });
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={rule ? `Edit alert ${rule.name}` : 'New alert'}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={save.isPending}>
            {rule ? 'Save alert' : 'Create alert'}
          </Button>
        </>
      }
    >
      {!rule && (
        <TextField
          label="Name"
          value={form.name}
          onChange={(name) => set({ name })}
          mono
          placeholder="dead-letters"
          error={errors.name}
          autoFocus
        />
      )}
      <div className="fgrid two-col">
        <SelectField
          label="Watch"
          value={form.signal}
          options={signals}
          onChange={(signal) => set({ signal })}
          error={errors.signal}
        />
        {form.signal === 'queue-depth' && (
          <TextField label="Queue" value={form.queue} onChange={(queue) => set({ queue })} mono error={errors.queue} />
        )}
        <SelectField
          label="Condition"
          value={form.condition}
          options={conditions}
          onChange={(condition) => set({ condition })}
          error={errors.condition}
        />
        <TextField
          label="Threshold"
          value={form.threshold}
          onChange={(threshold) => set({ threshold })}
          inputMode="decimal"
          unit={unitOf(form.signal)}
          hint={form.signal === 'failure-rate' ? '0.25 is a quarter of the attempts' : undefined}
          error={errors.threshold}
        />
        {hasWindow(form) && (
          <TextField
            label="Window"
            value={form.window}
            onChange={(window) => set({ window })}
            {...number}
            error={errors.windowSeconds}
          />
        )}
        <TextField
          label="Must hold for"
          value={form.lasts}
          onChange={(lasts) => set({ lasts })}
          {...number}
          error={errors.forSeconds}
        />
        <TextField
          label="Resolved after"
          value={form.resolve}
          onChange={(resolve) => set({ resolve })}
          {...number}
          error={errors.resolveAfterSeconds}
        />
        <TextField
          label="Page again every"
          value={form.cooldown}
          onChange={(cooldown) => set({ cooldown })}
          {...number}
          error={errors.cooldownSeconds}
        />
      </div>
      {form.signal !== 'queue-depth' && (
        <TextField
          label="Only this endpoint"
          optional
          mono
          value={form.endpoint}
          onChange={(endpoint) => set({ endpoint })}
          placeholder="ep_…"
          hint="The id of an endpoint. Empty: the whole environment"
          error={errors.endpointId}
        />
      )}
      {sentence && <p className="s12 t2">{sentence}.</p>}
      <AreaField
        label="Description"
        optional
        mono={false}
        rows={2}
        value={form.description}
        onChange={(description) => set({ description })}
        hint="A text for the reader of a page, such as the steps to take"
        error={errors.description}
      />
      <Endpoints
        label="Pages go to"
        hint="None chosen: every alert endpoint that wants the event"
        list={endpoints}
        chosen={form.destinations}
        onChange={(destinations) => set({ destinations })}
        error={errors.destinations}
      />
      <div className="fgrid two-col">
        <SelectField
          label="Escalation"
          value={form.escalates}
          options={[
            ['no', 'None'],
            ['time', 'After some time'],
            ['pages', 'After some further pages'],
          ]}
          onChange={(escalates) =>
            set({ escalates: escalates as AlertForm['escalates'], after: escalates === 'pages' ? '1' : '1800' })
          }
        />
        {form.escalates !== 'no' && (
          <TextField
            label={form.escalates === 'time' ? 'Escalate after' : 'Further pages'}
            value={form.after}
            onChange={(after) => set({ after })}
            inputMode="numeric"
            unit={form.escalates === 'time' ? 'seconds' : ''}
            error={errors.after ?? refused.escalation}
          />
        )}
      </div>
      {form.escalates !== 'no' && (
        <Endpoints
          label="Also to"
          list={endpoints}
          chosen={form.further}
          onChange={(further) => set({ further })}
          error={errors.further}
        />
      )}
      {rule && <CheckRow label="Disabled" checked={form.disabled} onChange={(disabled) => set({ disabled })} />}
      {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
    </Dialog>
  );
}

function Endpoints({
  label,
  hint,
  list,
  chosen,
  onChange,
  error,
}: {
  label: string;
  hint?: string;
  list: AlertEndpoint[];
  chosen: string[];
  onChange: (chosen: string[]) => void;
  error?: string;
}) {
  const ids = new Set(list.flatMap(({ id, uid }) => (uid ? [id, uid] : [id])));
  const unknown = chosen.filter((name) => !ids.has(name));
  const toggle = (names: string[], on: boolean) =>
    onChange(on ? [...chosen, names[0] ?? ''] : chosen.filter((name) => !names.includes(name)));
  return (
    <fieldset className="picks">
      <legend>{label}</legend>
      {list.length === 0 && unknown.length === 0 && (
        <p className="s12 t3">No alert endpoint yet: add one under Endpoints.</p>
      )}
      {list.map((endpoint) => {
        const names = endpoint.uid ? [endpoint.id, endpoint.uid] : [endpoint.id];
        return (
          <CheckRow
            key={endpoint.id}
            label={<span className="cut">{endpoint.description || endpoint.url}</span>}
            hint={endpoint.description ? endpoint.url : undefined}
            checked={names.some((name) => chosen.includes(name))}
            onChange={(on) => toggle(names, on)}
          />
        );
      })}
      {unknown.map((name) => (
        <CheckRow
          key={name}
          label={<span className="mono">{name}</span>}
          hint="Not among the first alert endpoints"
          checked
          onChange={() => toggle([name], false)}
        />
      ))}
      {error ? <span className="err">{error}</span> : hint && <span className="hint">{hint}</span>}
    </fieldset>
  );
}
