// Create and edit an endpoint. The server's word on a field lands at that field.

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, ApiFailure, messageOf, ok } from '../../api/client';
import { appsQuery, eventTypesQuery, useChange } from '../../api/queries';
import type { Endpoint } from '../../api/types';
import { offers } from '../../capabilities';
import { chatBody, emptyChat, isChat, kinds, kindText, parseFields } from '../../lib/chat';
import { useMay } from '../../session';
import { AreaField, Button, SelectField, TextField } from '../../ui/controls';
import { Dialog } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { toast } from '../../ui/toast';
import { ChatFields, ChatTry } from './chat-text';

export type EndpointForm = {
  url: string;
  description: string;
  eventTypes: string;
  channels: string;
  uid: string;
  throttleRate: string;
};

export const emptyForm: EndpointForm = {
  url: '',
  description: '',
  eventTypes: '',
  channels: '',
  uid: '',
  throttleRate: '',
};

export function formOf(endpoint: Endpoint): EndpointForm {
  return {
    url: endpoint.url,
    description: endpoint.description,
    eventTypes: (endpoint.eventTypes ?? []).join('\n'),
    channels: (endpoint.channels ?? []).join(', '),
    uid: endpoint.uid ?? '',
    throttleRate: endpoint.throttleRate ? String(endpoint.throttleRate) : '',
  };
}

export const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

/** What can be wrong before the server is asked. */
export function checkUrl(url: string): string | null {
  if (!url.trim()) return 'The URL is required';
  try {
    const { protocol } = new URL(url.trim());
    return protocol === 'https:' || protocol === 'http:' ? null : 'The URL must begin with https:// or http://';
  } catch {
    return 'The URL must be complete, such as https://example.com/hook';
  }
}

/** The body of a change: empty lists and texts become null. */
export function bodyOf(form: EndpointForm) {
  return {
    url: form.url.trim(),
    description: form.description.trim(),
    eventTypes: words(form.eventTypes).length ? words(form.eventTypes) : null,
    channels: words(form.channels).length ? words(form.channels) : null,
    uid: form.uid.trim() || null,
    throttleRate: form.throttleRate.trim() ? Number(form.throttleRate) : null,
  };
}

type FieldsProps = {
  form: EndpointForm;
  set: (patch: Partial<EndpointForm>) => void;
  error: unknown;
  touched: boolean;
  readOnly?: boolean;
  /** For keys that may not change where messages go. */ fixedUrl?: boolean;
  /** Without the operator's fields. */ simple?: boolean;
};

export function EndpointFields({ form, set, error, touched, readOnly, fixedUrl, simple }: FieldsProps) {
  const types = useQuery(eventTypesQuery());
  const fields =
    error instanceof ApiFailure
      ? Object.fromEntries(error.fields.map(({ field, message }) => [field.split('.')[0] ?? '', message]))
      : {};
  const known = (types.data?.data ?? []).map(({ name }) => name);
  const chosen = new Set(words(form.eventTypes));
  return (
    <>
      <TextField
        label="URL"
        value={form.url}
        onChange={(url) => set({ url })}
        mono
        type="url"
        placeholder="https://example.com/hook"
        error={(touched ? checkUrl(form.url) : null) ?? fields.url}
        readOnly={readOnly || fixedUrl}
        hint={fixedUrl && !readOnly ? 'Your key may not change URLs' : undefined}
        required
      />
      <TextField
        label="Description"
        optional
        value={form.description}
        onChange={(description) => set({ description })}
        error={fields.description}
        readOnly={readOnly}
      />
      <AreaField
        label="Event types"
        optional
        rows={3}
        value={form.eventTypes}
        onChange={(eventTypes) => set({ eventTypes })}
        hint="One on each line. Empty: all types"
        error={fields.eventTypes ?? fields.filterTypes}
        readOnly={readOnly}
      />
      {!readOnly && known.length > 0 && (
        <div className="row wrap chips" aria-label="Known event types">
          {known.slice(0, 24).map((name) => (
            <button
              key={name}
              type="button"
              className="tag"
              aria-pressed={chosen.has(name)}
              onClick={() =>
                set({
                  eventTypes: (chosen.has(name) ? [...chosen].filter((one) => one !== name) : [...chosen, name]).join(
                    '\n',
                  ),
                })
              }
            >
              {name}
            </button>
          ))}
        </div>
      )}
      {!simple && (
        <div className="fgrid three-col">
          <TextField
            label="Channels"
            optional
            value={form.channels}
            onChange={(channels) => set({ channels })}
            hint="Separated by commas"
            error={fields.channels}
            readOnly={readOnly}
          />
          <TextField
            label="Your id"
            optional
            value={form.uid}
            onChange={(uid) => set({ uid })}
            mono
            error={fields.uid}
            hint="Unique in the application"
            readOnly={readOnly}
          />
          <TextField
            label="Rate limit"
            optional
            value={form.throttleRate}
            onChange={(throttleRate) => set({ throttleRate })}
            inputMode="numeric"
            unit="per second"
            error={fields.throttleRate ?? fields.rateLimit}
            readOnly={readOnly}
          />
        </div>
      )}
    </>
  );
}

/** Without an application, the person chooses one. */
export function EndpointDialog({ app: given, onClose }: { app?: string; onClose: () => void }) {
  const apps = useQuery({ ...appsQuery({ limit: 250 }), enabled: !given }).data?.data ?? [];
  const [chosen, setChosen] = useState('');
  const app = given || chosen || apps[0]?.id || '';
  const [form, setForm] = useState(emptyForm);
  const [kind, setKind] = useState<string>('http');
  const [chat, setChat] = useState(emptyChat);
  const mayTest = useMay('POST /api/v1/app/{app_id}/chat/test');
  const [touched, setTouched] = useState(false);
  const navigate = useNavigate();
  const create = useChange(
    () => {
      const { uid, eventTypes, channels, throttleRate, ...rest } = bodyOf(form);
      const body = {
        ...rest,
        ...(uid ? { uid } : {}),
        ...(eventTypes ? { eventTypes } : {}),
        ...(channels ? { channels } : {}),
        ...(throttleRate ? { throttleRate } : {}),
        ...(isChat(kind) ? { kind, chat: chatBody(chat) } : {}),
      };
      return ok(api.POST('/api/v1/app/{app_id}/endpoint', { params: { path: { app_id: app } }, body }));
    },
    ['endpoints'],
    (endpoint) => {
      toast('Endpoint created', { text: endpoint.url });
      onClose();
      void navigate({
        to: '/apps/$app/endpoints/$ep/$tab',
        params: { app, ep: endpoint.id, tab: isChat(kind) ? 'chat' : 'test' },
      });
    },
  );
  const submit = () => {
    setTouched(true);
    if (!checkUrl(form.url) && parseFields(chat.fields) && app) create.mutate(undefined);
  };
  const footer = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" submit busy={create.isPending}>
        Create endpoint
      </Button>
    </>
  );
  return (
    <Dialog open wide onClose={onClose} title="New endpoint" footer={footer} onSubmit={submit}>
      {!given && (
        <SelectField
          label="Application"
          value={app}
          onChange={setChosen}
          options={apps.map(({ id, name }) => [id, name] as const)}
        />
      )}
      {offers.chat && (
        <SelectField
          label="Kind"
          value={kind}
          onChange={setKind}
          options={kinds}
          hint={
            isChat(kind)
              ? `A readable message is posted in ${kindText(kind)}. The URL is a credential and is not shown again`
              : undefined
          }
        />
      )}
      <EndpointFields
        form={form}
        set={(patch) => setForm({ ...form, ...patch })}
        error={create.error}
        touched={touched}
      />
      {isChat(kind) && (
        <>
          <ChatFields kind={kind} form={chat} set={(patch) => setChat({ ...chat, ...patch })} error={create.error} />
          {app && (
            <ChatTry
              app={app}
              target={{ kind, url: form.url.trim() || undefined }}
              chat={chatBody(chat)}
              mayTest={mayTest}
            />
          )}
        </>
      )}
      {create.isError && <Callout look="dead" title={messageOf(create.error)} />}
    </Dialog>
  );
}
