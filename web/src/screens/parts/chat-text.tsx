// The text of a chat endpoint: its template, a preview with a message, and a test post.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../../api/client';
import { messagesQuery, useChange } from '../../api/queries';
import type { ChatPreview, ChatTest } from '../../api/types';
import { offers } from '../../capabilities';
import { hasPeople, hasSecret, parseFields, type Chat, type ChatForm } from '../../lib/chat';
import { AreaField, Button, SelectField, TextField } from '../../ui/controls';
import { JsonTree } from '../../ui/json-view';
import { Callout } from '../../ui/status';

type FieldsProps = {
  kind: string;
  form: ChatForm;
  set: (patch: Partial<ChatForm>) => void;
  error: unknown;
  readOnly?: boolean;
  /** For an endpoint that exists: its secret is kept. */ stored?: boolean;
};

export function ChatFields({ kind, form, set, error, readOnly, stored }: FieldsProps) {
  const fields =
    error instanceof ApiFailure
      ? Object.fromEntries(error.fields.map(({ field, message }) => [field.replace(/^chat\./, ''), message]))
      : {};
  const at = (name: string) => fields[`template.${name}`];
  return (
    <>
      <TextField
        label="Title"
        optional
        value={form.title}
        onChange={(title) => set({ title })}
        mono
        placeholder="{{ payload.title }}"
        error={at('title')}
        readOnly={readOnly}
      />
      <AreaField
        label="Text"
        optional
        rows={3}
        value={form.description}
        onChange={(description) => set({ description })}
        placeholder="{{ payload.message }}"
        error={at('description') ?? fields.template}
        readOnly={readOnly}
      />
      <AreaField
        label="Fields"
        optional
        rows={3}
        value={form.fields}
        onChange={(text) => set({ fields: text })}
        placeholder={'Amount: {{ payload.amount }}'}
        hint="One on each line. Empty: the members of the payload"
        error={parseFields(form.fields) ? at('fields') : 'Each line must be a name, a colon and a value'}
        readOnly={readOnly}
      />
      <div className="fgrid two-col">
        <TextField
          label="Level"
          optional
          value={form.level}
          onChange={(level) => set({ level })}
          mono
          placeholder="info, success, warning or error"
          error={at('level')}
          readOnly={readOnly}
        />
        <TextField
          label="Link"
          optional
          value={form.link}
          onChange={(link) => set({ link })}
          mono
          placeholder="https://…"
          error={at('link')}
          readOnly={readOnly}
        />
        <TextField
          label="Mentions"
          optional
          value={form.mentions}
          onChange={(mentions) => set({ mentions })}
          mono
          placeholder="all"
          error={at('mentions')}
          readOnly={readOnly}
        />
        <SelectField
          label="Language"
          value={form.language}
          onChange={(language) => set({ language })}
          options={[
            ['en', 'English'],
            ['zh', '中文'],
          ]}
          error={fields.language}
          disabled={readOnly}
        />
      </div>
      {hasPeople(kind) && (
        <TextField
          label="People"
          optional
          value={form.people}
          onChange={(people) => set({ people })}
          mono
          placeholder={kind === 'dingtalk' ? '/owner/phone' : '/owner/email'}
          hint={
            <>
              Where the payload names people who get the message instead of the room. The environment needs{' '}
              {offers.chatApps ? (
                <Link className="link" to="/settings" search={{ tab: 'chat' }}>
                  a chat app
                </Link>
              ) : (
                'a chat app'
              )}
            </>
          }
          error={fields.people}
          readOnly={readOnly}
        />
      )}
      {hasSecret(kind) && (
        <TextField
          label="Signing secret"
          optional
          type="password"
          value={form.secret}
          onChange={(secret) => set({ secret })}
          mono
          hint={stored ? 'Never shown. Empty: unchanged' : 'If the webhook of the platform has one'}
          error={fields.secret}
          readOnly={readOnly}
        />
      )}
    </>
  );
}

type Target = { endpointId: string } | { kind: string; url?: string };

/** The request that the platform gets, and a real post on demand. */
export function ChatTry({ app, target, chat, mayTest }: { app: string; target: Target; chat: Chat; mayTest: boolean }) {
  const [id, setId] = useState('');
  const recent = useQuery(messagesQuery(app, {})).data?.data.slice(0, 8) ?? [];
  const message = id
    ? { msgId: id }
    : { eventType: 'example', payload: { title: 'An example', message: 'This is a test of Everhook.', amount: 42 } };
  const base = `/api/v1/app/${encodeURIComponent(app)}/chat`;
  // A preview needs no URL.
  const shown = 'endpointId' in target ? target : { kind: target.kind };
  const preview = useChange(
    () => raw<ChatPreview>('POST', `${base}/preview`, { body: { ...shown, chat, ...message } }),
    [],
  );
  const test = useChange(() => raw<ChatTest>('POST', `${base}/test`, { body: { ...target, chat, ...message } }), []);
  const canTest = mayTest && ('endpointId' in target || Boolean(target.url));
  const body = test.data?.body ?? preview.data?.body;
  const templateError = (test.data ?? preview.data)?.templateError;
  const error = preview.error ?? test.error;
  return (
    <div className="stack g12">
      <SelectField
        label="Message"
        value={id}
        onChange={setId}
        options={[
          ['', 'An example'],
          ...recent.map((one) => [one.id, `${one.eventType} ${one.id.slice(-6)}`] as const),
        ]}
      />
      <span className="row wrap">
        <Button
          size="sm"
          busy={preview.isPending}
          onClick={() => preview.mutate(undefined, { onSuccess: () => test.reset() })}
        >
          Preview
        </Button>
        {canTest && (
          <Button size="sm" busy={test.isPending} onClick={() => test.mutate(undefined)}>
            Post a test
          </Button>
        )}
      </span>
      {error && <Callout look="dead" title={messageOf(error)} />}
      {templateError && (
        <Callout look="retrying" title="The template does not work with this message. The default text is used.">
          {templateError}
        </Callout>
      )}
      {test.data && (
        <Callout look={test.data.posted ? 'delivered' : 'dead'} title={test.data.explanation}>
          {test.data.responseStatusCode > 0 ? `The platform answered ${test.data.responseStatusCode}.` : undefined}
        </Callout>
      )}
      {body !== undefined && (
        // The end of a long dialog is out of sight.
        <div className="payload" ref={(element) => element?.scrollIntoView({ block: 'nearest' })}>
          <JsonTree value={body} />
        </div>
      )}
    </div>
  );
}
