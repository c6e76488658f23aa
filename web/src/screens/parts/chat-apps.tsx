// Chat apps: the credentials with which chat endpoints write to single people. Secrets are never shown.

import { useQuery } from '@tanstack/react-query';
import { MessageCircle, Plus, Send, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../../api/client';
import { useChange } from '../../api/queries';
import { kindText } from '../../lib/chat';
import {
  addressLabel,
  appBody,
  appForm,
  formError,
  freeKinds,
  membersOf,
  type AppForm,
  type ChatApp,
} from '../../lib/chat-apps';
import { curl, plural } from '../../lib/text';
import { useMay } from '../../session';
import { Button, IconButton, SelectField, TextField } from '../../ui/controls';
import { Confirm, Dialog } from '../../ui/overlay';
import { Callout, Empty, Failure, Skeleton } from '../../ui/status';
import { DataTable, type Column } from '../../ui/table';
import { FullTime } from '../../ui/time';
import { toast } from '../../ui/toast';

const PATH = '/api/v1/chat-app';

type Apps = { data: ChatApp[]; updatedAt?: string | null };

export function ChatApps({ adding, onAdded, onAdd }: { adding: boolean; onAdded: () => void; onAdd?: () => void }) {
  const may = useMay(`PUT ${PATH}/{kind}`);
  const mayTest = useMay(`POST ${PATH}/{kind}/test`);
  const mayDelete = useMay(`DELETE ${PATH}/{kind}`);
  const [edited, setEdited] = useState<ChatApp | null>(null);
  const [tested, setTested] = useState<string | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const query = useQuery({ queryKey: ['chatApps'], queryFn: () => raw<Apps>('GET', PATH) });
  const rows = query.data?.data;
  const remove = useChange(
    (kind: string) => raw('DELETE', `${PATH}/${kind}`),
    ['chatApps'],
    () => toast('Chat app deleted'),
  );
  const columns: Column<ChatApp>[] = [
    {
      id: 'kind',
      header: 'Platform',
      className: 'two',
      narrow: 'a',
      cell: (row) => (
        <>
          <b>
            {may ? (
              <button type="button" onClick={() => setEdited(row)}>
                {kindText(row.kind)}
              </button>
            ) : (
              kindText(row.kind)
            )}
          </b>
          <small>people by {addressLabel(row.kind).toLowerCase()}</small>
        </>
      ),
    },
    { id: 'ids', header: 'App', narrow: 'c', cell: (row) => <Ids app={row} /> },
    {
      id: 'host',
      header: 'Server',
      width: 300,
      narrow: 'drop',
      cell: (row) =>
        row.apiUrl ? <span className="mono t2">{row.apiUrl}</span> : <span className="t3">of the platform</span>,
    },
    {
      id: 'secret',
      header: 'Secret',
      width: 150,
      narrow: 'drop',
      cell: () => <span className="t3">stored, never shown</span>,
    },
    {
      id: 'act',
      header: <span className="sr">Action</span>,
      width: 170,
      num: true,
      narrow: 'b',
      cell: (row) => (
        <span className="row acts">
          {mayTest && (
            <Button size="sm" icon={Send} onClick={() => setTested(row.kind)}>
              Test
            </Button>
          )}
          {mayDelete && (
            <IconButton
              icon={Trash2}
              size="sm"
              label={`Delete ${kindText(row.kind)}`}
              onClick={() => setRemoving(row.kind)}
            />
          )}
        </span>
      ),
    },
  ];
  return (
    <div className="col grow">
      <div className="body listbody">
        {query.isError && !rows && (
          <Failure error={query.error} what="The list of chat apps" retry={() => void query.refetch()} />
        )}
        {!rows && !query.isError && <Skeleton rows={3} />}
        {rows?.length === 0 && (
          <Empty
            icon={MessageCircle}
            title="No chat apps yet"
            command={curl({ method: 'PUT', url: `${location.origin}${PATH}/slack`, body: '{"secret":"xoxb-…"}' })}
            action={
              onAdd && (
                <Button icon={Plus} onClick={onAdd}>
                  New chat app
                </Button>
              )
            }
          >
            A chat app finds the people whom a payload names, and writes to them instead of to the room of a chat
            endpoint.
          </Empty>
        )}
        {rows && rows.length > 0 && (
          <DataTable label="Chat apps" columns={columns} rows={rows} rowId={(row) => row.kind} />
        )}
      </div>
      <footer className="foot">
        <span>{rows ? plural(rows.length, 'chat app') : ''}</span>
        {query.data?.updatedAt && (
          <span className="hide-narrow">
            Changed <FullTime at={query.data.updatedAt} />
          </span>
        )}
      </footer>
      {adding && rows && <AppDialog taken={rows.map(({ kind }) => kind)} onClose={onAdded} />}
      {edited && <AppDialog app={edited} taken={[]} onClose={() => setEdited(null)} />}
      {tested && <TestDialog kind={tested} onClose={() => setTested(null)} />}
      <Confirm
        open={removing !== null}
        onClose={() => setRemoving(null)}
        danger
        title={`Delete the app of ${kindText(removing ?? '')}`}
        verb="Delete chat app"
        run={() => remove.mutateAsync(removing ?? '')}
      >
        Its secret is deleted for good. Messages for people go to the rooms of their endpoints.
      </Confirm>
    </div>
  );
}

function Ids({ app }: { app: ChatApp }) {
  const parts = membersOf(app.kind).flatMap(([member, { label }]) =>
    member !== 'secret' && app[member] ? [[label, String(app[member])] as const] : [],
  );
  if (parts.length === 0) return <span className="t3">its bot</span>;
  return parts.map(([label, value], index) => (
    <span key={label}>
      {index > 0 && ' · '}
      <span className="t3">{label}</span> <span className="mono">{value}</span>
    </span>
  ));
}

function AppDialog({ app, taken, onClose }: { app?: ChatApp; taken: string[]; onClose: () => void }) {
  const choices = app ? [] : freeKinds(taken);
  const [form, setForm] = useState<AppForm>(() => appForm(app?.kind ?? choices[0]?.[0] ?? 'slack', app));
  const [touched, setTouched] = useState(false);
  const set = (patch: Partial<AppForm>) => setForm({ ...form, ...patch });
  const wrong = formError(form, app !== undefined);
  const save = useChange(
    () => raw('PUT', `${PATH}/${form.kind}`, { body: appBody(form) }),
    ['chatApps'],
    () => {
      toast('Chat app saved', { text: 'Test it with a person of your own.' });
      onClose();
    },
  );
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field, message]))
      : {};
  const submit = () => {
    setTouched(true);
    if (!wrong) save.mutate(undefined);
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={app ? `The app of ${kindText(app.kind)}` : 'New chat app'}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={save.isPending} disabled={!app && choices.length === 0}>
            Save chat app
          </Button>
        </>
      }
    >
      {!app && choices.length === 0 && <Callout look="disabled" title="Every platform has an app already." />}
      {!app && choices.length > 0 && (
        <SelectField
          label="Platform"
          value={form.kind}
          options={choices}
          onChange={(kind) => {
            setTouched(false);
            save.reset();
            setForm(appForm(kind));
          }}
        />
      )}
      {membersOf(form.kind).map(([member, { label, hint }]) => (
        <TextField
          key={`${form.kind} ${member}`}
          label={label}
          mono
          type={member === 'secret' ? 'password' : 'text'}
          inputMode={member === 'agentId' ? 'numeric' : undefined}
          value={form[member]}
          onChange={(value) => set({ [member]: value })}
          hint={member === 'secret' && app ? 'Never shown. Empty: unchanged' : hint}
          error={(touched && wrong?.member === member ? wrong.text : null) ?? fields[member]}
        />
      ))}
      <TextField
        label="Server"
        optional
        mono
        value={form.apiUrl}
        onChange={(apiUrl) => set({ apiUrl })}
        placeholder="https://lark.internal.example.com"
        hint="For private clouds. EVERHOOK_CHAT_HOSTS must name its host"
        error={fields.apiUrl}
      />
      {save.isError &&
        !Object.keys(fields).some(
          (name) => name === 'apiUrl' || membersOf(form.kind).some(([member]) => member === name),
        ) && <Callout look="dead" title={messageOf(save.error)} />}
    </Dialog>
  );
}

function TestDialog({ kind, onClose }: { kind: string; onClose: () => void }) {
  const [address, setAddress] = useState('');
  const test = useChange(
    () =>
      raw<{ reached: boolean; explanation: string }>('POST', `${PATH}/${kind}/test`, {
        body: { address: address.trim() },
      }),
    [],
  );
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Test the app of ${kindText(kind)}`}
      onSubmit={() => address.trim() && test.mutate(undefined)}
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" submit busy={test.isPending} disabled={!address.trim()}>
            Write to this person
          </Button>
        </>
      }
    >
      <TextField
        label={addressLabel(kind)}
        value={address}
        onChange={setAddress}
        inputMode={kind === 'dingtalk' ? 'tel' : 'email'}
        hint="This person gets a test message. Nothing is stored"
        autoFocus
      />
      {test.data && <Callout look={test.data.reached ? 'delivered' : 'dead'} title={test.data.explanation} />}
      {test.isError && <Callout look="dead" title={messageOf(test.error)} />}
    </Dialog>
  );
}
