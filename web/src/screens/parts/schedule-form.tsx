// Create or edit a schedule.

import { useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../../api/client';
import { useChange } from '../../api/queries';
import type { Schedule, ScheduleInput } from '../../api/types';
import { AreaField, Button, Seg, SelectField, TextField } from '../../ui/controls';
import { Dialog } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { toast } from '../../ui/toast';
import { CronText } from './cron';

const zones: string[] = ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')];

export default function ScheduleDialog({ schedule, onClose }: { schedule: Schedule | null; onClose: () => void }) {
  const [form, setForm] = useState({
    name: schedule?.name ?? '',
    by: schedule?.everySeconds ? ('every' as const) : ('cron' as const),
    cron: schedule?.cron ?? '0 2 * * *',
    every: String(schedule?.everySeconds ?? 300),
    timezone: schedule?.timezone ?? 'UTC',
    overlap: schedule?.overlap ?? 'skip',
    missed: schedule?.missed ?? 'runOnce',
    jitter: String(schedule?.jitterSeconds ?? 0),
    queue: schedule?.job?.queue ?? '',
    kind: schedule?.job?.kind ?? '',
    payload: JSON.stringify(schedule?.job?.payload ?? schedule?.message?.payload ?? {}, null, 2),
    starts: schedule?.message ? ('message' as const) : ('job' as const),
    application: schedule?.message?.application ?? '',
    eventType: schedule?.message?.eventType ?? '',
  });
  const set = (patch: Partial<typeof form>) => setForm({ ...form, ...patch });
  let payload: Record<string, unknown> | null = null;
  try {
    payload = JSON.parse(form.payload) as Record<string, unknown>;
  } catch {
    payload = null;
  }
  const save = useChange(
    () => {
      const body: ScheduleInput = {
        ...(form.by === 'cron'
          ? { cron: form.cron.trim(), timezone: form.timezone }
          : { everySeconds: Number(form.every) }),
        overlap: form.overlap as ScheduleInput['overlap'],
        missed: form.missed as ScheduleInput['missed'],
        jitterSeconds: Number(form.jitter) || 0,
        ...(form.starts === 'job'
          ? { job: { ...pickJob(schedule), queue: form.queue.trim(), kind: form.kind.trim(), payload: payload ?? {} } }
          : {
              message: {
                application: form.application.trim(),
                eventType: form.eventType.trim(),
                payload: payload ?? {},
              },
            }),
      };
      return schedule
        ? ok(api.PATCH('/api/v1/schedule/{schedule}', { params: { path: { schedule: schedule.name } }, body }))
        : ok(api.POST('/api/v1/schedule', { body: { ...body, name: form.name.trim() } }));
    },
    ['schedules'],
    () => {
      toast(schedule ? 'Schedule saved' : 'Schedule created');
      onClose();
    },
  );
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field, message]))
      : {};
  const ready =
    payload !== null &&
    (schedule || form.name.trim()) &&
    (form.starts === 'job' ? form.queue.trim() && form.kind.trim() : form.application.trim() && form.eventType.trim());
  const footer = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" submit busy={save.isPending} disabled={!ready}>
        {schedule ? 'Save schedule' : 'Create schedule'}
      </Button>
    </>
  );
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={schedule ? `Edit ${schedule.name}` : 'New schedule'}
      footer={footer}
      onSubmit={() => save.mutate(undefined)}
    >
      {!schedule && (
        <TextField
          label="Name"
          value={form.name}
          onChange={(name) => set({ name })}
          mono
          placeholder="nightly-report"
          error={fields.name}
          autoFocus
        />
      )}
      <Seg
        label="Rule"
        value={form.by}
        options={
          [
            ['cron', 'Cron rule'],
            ['every', 'Interval'],
          ] as const
        }
        onChange={(by) => set({ by })}
      />
      {form.by === 'cron' ? (
        <div className="fgrid two-col">
          <TextField
            label="Cron rule"
            value={form.cron}
            onChange={(cron) => set({ cron })}
            mono
            error={fields.cron}
            hint={<CronText cron={form.cron} />}
          />
          <SelectField
            label="Time zone"
            value={form.timezone}
            onChange={(timezone) => set({ timezone })}
            options={zones.map((zone) => [zone, zone] as const)}
            error={fields.timezone}
          />
        </div>
      ) : (
        <TextField
          label="Every"
          value={form.every}
          onChange={(every) => set({ every })}
          unit="seconds"
          inputMode="numeric"
          error={fields.everySeconds}
        />
      )}
      <div className="fgrid three-col">
        <SelectField
          label="Overlap"
          value={form.overlap}
          onChange={(overlap) => set({ overlap: overlap as typeof form.overlap })}
          options={[
            ['skip', 'Skip'],
            ['allow', 'Allow'],
            ['queueOne', 'Queue one'],
          ]}
          error={fields.overlap}
        />
        <SelectField
          label="Missed runs"
          value={form.missed}
          onChange={(missed) => set({ missed: missed as typeof form.missed })}
          options={[
            ['runOnce', 'Run once'],
            ['skip', 'Skip'],
            ['catchUp', 'Catch up'],
          ]}
          error={fields.missed}
        />
        <TextField
          label="Jitter"
          value={form.jitter}
          onChange={(jitter) => set({ jitter })}
          unit="seconds"
          inputMode="numeric"
          error={fields.jitterSeconds}
        />
      </div>
      <Seg
        label="Starts"
        value={form.starts}
        options={
          [
            ['job', 'A job'],
            ['message', 'A message'],
          ] as const
        }
        onChange={(starts) => set({ starts })}
      />
      <div className="fgrid two-col">
        {form.starts === 'job' ? (
          <>
            <TextField
              label="Queue"
              value={form.queue}
              onChange={(queue) => set({ queue })}
              mono
              error={fields['job.queue']}
            />
            <TextField
              label="Kind"
              value={form.kind}
              onChange={(kind) => set({ kind })}
              mono
              error={fields['job.kind']}
            />
          </>
        ) : (
          <>
            <TextField
              label="Application"
              value={form.application}
              onChange={(application) => set({ application })}
              mono
              error={fields['message.application']}
              hint="Its id or uid"
            />
            <TextField
              label="Event type"
              value={form.eventType}
              onChange={(eventType) => set({ eventType })}
              mono
              error={fields['message.eventType']}
            />
          </>
        )}
      </div>
      <AreaField
        label="Payload"
        value={form.payload}
        onChange={(text) => set({ payload: text })}
        rows={5}
        error={payload ? null : 'The payload is not valid JSON'}
      />
      {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
    </Dialog>
  );
}

/** The settings of the stored job that the form does not show. A change replaces the job as a whole. */
function pickJob(schedule: Schedule | null) {
  const job = schedule?.job;
  if (!job) return {};
  return {
    maxAttempts: job.maxAttempts,
    timeoutSeconds: job.timeoutSeconds,
    priority: job.priority,
    tags: job.tags,
    metadata: job.metadata as Record<string, string>,
    ...(job.name ? { name: job.name } : {}),
    ...(job.concurrencyKey ? { concurrencyKey: job.concurrencyKey } : {}),
    backoff: job.backoff,
  };
}
