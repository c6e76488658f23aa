// Enqueue a job by hand.

import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../../api/client';
import { useChange } from '../../api/queries';
import { AreaField, Button, TextField } from '../../ui/controls';
import { Dialog } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { toast } from '../../ui/toast';

function isObject(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function EnqueueDialog({ queue: initial, onClose }: { queue?: string; onClose: () => void }) {
  const navigate = useNavigate();
  const [queue, setQueue] = useState(initial ?? '');
  const [kind, setKind] = useState('');
  const [name, setName] = useState('');
  const [delay, setDelay] = useState('');
  const [payload, setPayload] = useState('{}');
  const valid = isObject(payload);
  const create = useChange(
    () =>
      ok(
        api.POST('/api/v1/job', {
          body: {
            queue: queue.trim(),
            kind: kind.trim(),
            payload: JSON.parse(payload) as Record<string, unknown>,
            ...(name.trim() ? { name: name.trim() } : {}),
            ...(delay.trim() ? { delaySeconds: Number(delay) } : {}),
          },
        }),
      ),
    ['jobs', 'queues'],
    (job) => {
      toast('Job enqueued');
      onClose();
      void navigate({ to: '/jobs/$job', params: { job: job.id } });
    },
  );
  const fields =
    create.error instanceof ApiFailure
      ? Object.fromEntries(create.error.fields.map(({ field, message }) => [field, message]))
      : {};
  const footer = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" submit busy={create.isPending} disabled={!queue.trim() || !kind.trim() || !valid}>
        Enqueue job
      </Button>
    </>
  );
  return (
    <Dialog open wide onClose={onClose} title="Enqueue job" footer={footer} onSubmit={() => create.mutate(undefined)}>
      <div className="fgrid two-col">
        <TextField
          label="Queue"
          value={queue}
          onChange={setQueue}
          mono
          placeholder="emails"
          error={fields.queue}
          autoFocus={!initial}
        />
        <TextField
          label="Kind"
          value={kind}
          onChange={setKind}
          mono
          placeholder="receipt.send"
          error={fields.kind}
          autoFocus={Boolean(initial)}
        />
        <TextField label="Name" optional value={name} onChange={setName} error={fields.name} hint="Shown in lists" />
        <TextField
          label="Delay"
          optional
          value={delay}
          onChange={setDelay}
          unit="seconds"
          inputMode="decimal"
          error={fields.delaySeconds}
        />
      </div>
      <AreaField
        label="Payload"
        value={payload}
        onChange={setPayload}
        rows={8}
        error={valid ? fields.payload : 'The payload is not valid JSON'}
      />
      {create.isError && <Callout look="dead" title={messageOf(create.error)} />}
    </Dialog>
  );
}
