// The text of a chat endpoint, beside its preview.

import { useState } from 'react';
import { messageOf, raw } from '../../api/client';
import { useChange } from '../../api/queries';
import type { Endpoint } from '../../api/types';
import { chatBody, chatForm, kindText, parseFields, type Chat } from '../../lib/chat';
import { useMay } from '../../session';
import { Button } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { Callout } from '../../ui/status';
import { toast } from '../../ui/toast';
import { ChatFields, ChatTry } from '../parts/chat-text';

export function ChatTab({ app, endpoint, kind }: { app: string; endpoint: Endpoint; kind: string }) {
  const stored = (endpoint as { chat?: Chat | null }).chat;
  return <Content key={JSON.stringify(stored)} app={app} endpoint={endpoint} kind={kind} stored={stored} />;
}

function Content({
  app,
  endpoint,
  kind,
  stored,
}: {
  app: string;
  endpoint: Endpoint;
  kind: string;
  stored?: Chat | null;
}) {
  const may = useMay('PATCH /api/v1/app/{app_id}/endpoint/{endpoint_id}');
  const mayTest = useMay('POST /api/v1/app/{app_id}/chat/test');
  const [start] = useState(() => chatForm(stored));
  const [form, setForm] = useState(start);
  const changed = JSON.stringify(form) !== JSON.stringify(start);
  const save = useChange(
    () =>
      raw('PATCH', `/api/v1/app/${encodeURIComponent(app)}/endpoint/${endpoint.id}`, {
        body: { chat: chatBody(form, stored) },
      }),
    ['endpoints'],
    () => toast('Text saved'),
  );
  return (
    <div className="grid cols two-cards">
      <Card title="Text" sub={`of a post in ${kindText(kind)}; empty parts have defaults`}>
        <form
          className="in stack"
          onSubmit={(event) => {
            event.preventDefault();
            save.mutate(undefined);
          }}
        >
          <ChatFields
            kind={kind}
            form={form}
            set={(patch) => setForm({ ...form, ...patch })}
            error={save.error}
            readOnly={!may}
            stored
          />
          {save.isError && <Callout look="dead" title={messageOf(save.error)} />}
          {may && (
            <span>
              <Button submit kind="primary" busy={save.isPending} disabled={!changed || !parseFields(form.fields)}>
                Save text
              </Button>
            </span>
          )}
        </form>
      </Card>
      <Card title="Preview" sub="with the text as it stands here">
        <div className="in">
          <ChatTry app={app} target={{ endpointId: endpoint.id }} chat={chatBody(form, stored)} mayTest={mayTest} />
        </div>
      </Card>
    </div>
  );
}
