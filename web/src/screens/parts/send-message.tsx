// Send a message by hand.

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiFailure, authHeaders, failure, messageOf } from '../../api/client';
import { appsQuery, eventTypesQuery, queryClient } from '../../api/queries';
import type { Message } from '../../api/types';
import { parseLossless } from '../../lib/json';
import { AreaField, Button, SelectField, TextField } from '../../ui/controls';
import { Dialog } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { exampleOf } from './example';

export function SendDialog({ app, onClose }: { app: string; onClose: () => void }) {
  const navigate = useNavigate();
  const apps = useQuery(appsQuery({ limit: 250 }));
  const types = useQuery(eventTypesQuery());
  const [to, setTo] = useState(app);
  const [type, setType] = useState('');
  const [payload, setPayload] = useState('{\n  "id": "inv_1",\n  "amount": 4200\n}');
  const [tags, setTags] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const target = to || apps.data?.data[0]?.id || '';
  const valid = parseLossless(payload) !== undefined;
  const fields =
    error instanceof ApiFailure ? Object.fromEntries(error.fields.map(({ field, message }) => [field, message])) : {};

  const choose = (name: string) => {
    setType(name);
    const example = exampleOf(types.data?.data.find((one) => one.name === name));
    if (example) setPayload(example);
  };
  const send = async () => {
    setBusy(true);
    setError(null);
    try {
      // The payload goes out as it was typed: its digits and spaces are part of what is signed.
      const list = tags
        .split(',')
        .map((tag) => tag.trim())
        .filter(Boolean);
      const body = `{"eventType":${JSON.stringify(type.trim())},"payload":${payload}${list.length ? `,"tags":${JSON.stringify(list)}` : ''}}`;
      const response = await fetch(`/api/v1/app/${encodeURIComponent(target)}/msg`, {
        method: 'POST',
        credentials: 'same-origin',
        headers: { ...authHeaders('POST'), 'content-type': 'application/json' },
        body,
      });
      const text = await response.text();
      if (!response.ok) throw failure(response, text);
      const message = JSON.parse(text) as Message;
      for (const noun of ['messages', 'deliveries', 'overview'])
        void queryClient.invalidateQueries({ queryKey: [noun] });
      onClose();
      void navigate({ to: '/apps/$app/messages/$msg', params: { app: target, msg: message.id } });
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  const footer = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" submit busy={busy} disabled={!target || !type.trim() || !valid}>
        Send message
      </Button>
    </>
  );
  return (
    <Dialog open wide onClose={onClose} title="Send message" footer={footer} onSubmit={() => void send()}>
      <div className="fgrid two-col">
        <SelectField
          label="Application"
          value={target}
          onChange={setTo}
          options={withCurrent(
            (apps.data?.data ?? []).map(({ id, name }) => [id, name] as const),
            target,
          )}
        />
        <TextField
          label="Event type"
          value={type}
          onChange={choose}
          list="send-types"
          mono
          placeholder="invoice.paid"
          error={fields.eventType}
          autoFocus
        />
      </div>
      <datalist id="send-types">
        {types.data?.data.map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <AreaField
        label="Payload"
        value={payload}
        onChange={setPayload}
        rows={10}
        error={valid ? fields.payload : 'The payload is not valid JSON'}
      />
      <TextField label="Tags" optional value={tags} onChange={setTags} hint="Separated by commas" error={fields.tags} />
      {error !== null && <Callout look="dead" title={messageOf(error)} />}
    </Dialog>
  );
}

const withCurrent = (options: (readonly [string, string])[], value: string) =>
  options.some(([key]) => key === value) || !value ? options : [[value, value] as const, ...options];
