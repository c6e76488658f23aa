// API keys: who may call the API, with which rights, and until when.

import { useQuery } from '@tanstack/react-query';
import { KeyRound, Plus } from 'lucide-react';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../api/client';
import { useChange } from '../api/queries';
import type { ApiKey, NewApiKey } from '../api/types';
import { endOf, grantable, lives, scopeText } from '../lib/keys';
import type { Look } from '../lib/state';
import { plural } from '../lib/text';
import { useMay, useSession } from '../session';
import { CopyButton, StateText } from '../ui/atoms';
import { Button, CheckRow, SelectField, TextField } from '../ui/controls';
import { Filter, FilterBar } from '../ui/filters';
import { Confirm, Dialog } from '../ui/overlay';
import { Page } from '../ui/page';
import { Callout, Empty, Failure, Skeleton } from '../ui/status';
import { DataTable, type Column } from '../ui/table';
import { Ago, ListTime } from '../ui/time';
import { toast } from '../ui/toast';
import { useUrl } from '../url';
import { AppName } from './parts/names';

const PATH = '/api/v1/key';
const looks: Record<string, [Look, string]> = {
  active: ['delivered', 'Active'],
  expired: ['disabled', 'Expired'],
  revoked: ['cancelled', 'Revoked'],
};
const extraNames: Record<string, string> = { 'reveal-secret': 'secrets', 'change-url': 'URLs' };

export default function Keys() {
  const [url, setUrl] = useUrl();
  const may = useMay(`POST ${PATH}`);
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<ApiKey | null>(null);
  const query = useQuery({ queryKey: ['keys'], queryFn: () => raw<{ data: ApiKey[] }>('GET', PATH) });
  const rows = query.data?.data
    .filter((row) => (url.state ? row.state === url.state : row.state === 'active'))
    .toReversed();
  const revoke = useChange(
    (id: string) => raw('DELETE', `${PATH}/${id}`),
    ['keys'],
    () => toast('Key revoked', { text: 'Every replica refuses it within 5 seconds.' }),
  );
  const columns: Column<ApiKey>[] = [
    {
      id: 'name',
      header: 'Key',
      className: 'two',
      narrow: 'a',
      cell: (row) => (
        <>
          <b>{row.name || 'Without a name'}</b>
          <small className="mono">{row.hint}</small>
        </>
      ),
    },
    { id: 'scope', header: 'Scope', width: 190, tight: 120, narrow: 'c', cell: (row) => <Scope row={row} /> },
    {
      id: 'place',
      header: 'Valid in',
      width: 170,
      wide: true,
      narrow: 'drop',
      cell: (row) =>
        row.applicationId ? <AppName app={row.applicationId} /> : (row.environment ?? 'all environments'),
    },
    { id: 'state', header: 'State', width: 120, narrow: 'drop', cell: (row) => <State row={row} /> },
    {
      id: 'used',
      header: 'Last used',
      width: 120,
      narrow: 'b',
      cell: (row) => (row.lastUsedAt ? <Ago at={row.lastUsedAt} /> : <span className="t3">never</span>),
    },
    {
      id: 'ends',
      header: 'Ends',
      width: 160,
      narrow: 'drop',
      cell: (row) => (row.expiresAt ? <ListTime at={row.expiresAt} /> : <span className="t3">never</span>),
    },
    {
      id: 'created',
      header: 'Created',
      width: 150,
      wide: true,
      narrow: 'drop',
      cell: (row) => <ListTime at={row.createdAt} />,
    },
    {
      id: 'act',
      header: <span className="sr">Action</span>,
      width: 90,
      num: true,
      narrow: 'd',
      cell: (row) =>
        may && row.state === 'active' ? (
          <Button size="sm" kind="ghost" onClick={() => setRevoking(row)}>
            Revoke
          </Button>
        ) : (
          <span className="only-narrow">
            <State row={row} />
          </span>
        ),
    },
  ];
  return (
    <Page
      title="Keys"
      tools={
        may && (
          <Button kind="primary" icon={Plus} onClick={() => setCreating(true)}>
            New key
          </Button>
        )
      }
    >
      <div className="col grow">
        <FilterBar>
          <Filter
            name="State"
            value={url.state}
            onChange={(state) => setUrl({ state })}
            options={[
              ['expired', 'Expired'],
              ['revoked', 'Revoked'],
            ]}
          />
        </FilterBar>
        <div className="body listbody">
          {query.isError && !rows && (
            <Failure error={query.error} what="The list of keys" retry={() => void query.refetch()} />
          )}
          {!rows && !query.isError && <Skeleton rows={5} />}
          {rows?.length === 0 && <Empty icon={KeyRound} title={`No ${url.state ?? 'active'} keys`} />}
          {rows && rows.length > 0 && <DataTable label="Keys" columns={columns} rows={rows} rowId={(row) => row.id} />}
        </div>
        <footer className="foot">{rows ? plural(rows.length, `${url.state ?? 'active'} key`) : ''}</footer>
      </div>
      {creating && <KeyDialog onClose={() => setCreating(false)} />}
      <Confirm
        open={revoking !== null}
        onClose={() => setRevoking(null)}
        danger
        title={`Revoke ${revoking?.name || revoking?.hint || 'this key'}`}
        verb="Revoke key"
        run={() => revoke.mutateAsync(revoking?.id ?? '')}
      >
        Programs with this key get 401 from now on, and its sessions end. It cannot be undone.
      </Confirm>
    </Page>
  );
}

const State = ({ row }: { row: ApiKey }) => (
  <StateText look={looks[row.state]?.[0] ?? 'pending'} word={looks[row.state]?.[1] ?? row.state} />
);

function Scope({ row }: { row: ApiKey }) {
  const extra = row.rights.flatMap((right) => extraNames[right] ?? []);
  return (
    <>
      {scopeText(row.scope)}
      {(row.scope === 'read' || row.scope === 'write') && extra.length > 0 && (
        <span className="t3"> + {extra.join(', ')}</span>
      )}
    </>
  );
}

/** The form of a new key, and then its text, which is shown once. */
function KeyDialog({ onClose }: { onClose: () => void }) {
  const session = useSession();
  const options = grantable(session?.role ?? 'read');
  const [form, setForm] = useState({
    name: '',
    scope: options[1]?.[0] ?? 'read',
    app: '',
    life: '90',
    at: '',
    secrets: false,
    urls: false,
  });
  const set = (patch: Partial<typeof form>) => setForm({ ...form, ...patch });
  const end = endOf(form.life, form.at, Date.now());
  const limited = form.scope === 'read' || form.scope === 'write';
  const create = useChange(() => {
    const rights = [...(form.secrets ? ['reveal-secret'] : []), ...(form.urls ? ['change-url'] : [])];
    return raw<NewApiKey>('POST', PATH, {
      body: {
        name: form.name.trim(),
        scope: form.scope,
        ...(limited && rights.length ? { rights } : {}),
        ...(form.app.trim() ? { applicationId: form.app.trim() } : {}),
        ...(end ? { expiresAt: end } : {}),
      },
    });
  }, ['keys']);
  const fields =
    create.error instanceof ApiFailure
      ? Object.fromEntries(create.error.fields.map(({ field, message }) => [field, message]))
      : {};
  if (create.data) {
    return (
      <Dialog
        open
        onClose={onClose}
        title="The new key"
        footer={
          <Button kind="primary" onClick={onClose}>
            I have stored it
          </Button>
        }
      >
        <Callout look="retrying" title="This is the only time that the key is shown.">
          Store it where your program reads it. It cannot be shown again.
        </Callout>
        <span className="inp secret">
          <span className="mono cut grow">{create.data.key}</span>
          <CopyButton text={create.data.key} label="Copy the key" />
        </span>
      </Dialog>
    );
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title="New key"
      onSubmit={() => form.name.trim() && end !== null && create.mutate(undefined)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={create.isPending} disabled={!form.name.trim() || end === null}>
            Create key
          </Button>
        </>
      }
    >
      <TextField
        label="Name"
        value={form.name}
        onChange={(name) => set({ name })}
        placeholder="billing service"
        error={fields.name}
        autoFocus
        required
      />
      <SelectField
        label="Scope"
        value={form.scope}
        onChange={(scope) => set({ scope: scope as typeof form.scope })}
        options={options.map(([name, label]) => [name, label] as const)}
        hint={options.find(([name]) => name === form.scope)?.[2]}
        error={fields.scope}
      />
      {limited && (
        <>
          <CheckRow
            label="Read and rotate signing secrets"
            checked={form.secrets}
            onChange={(secrets) => set({ secrets })}
          />
          {form.scope === 'write' && (
            <CheckRow
              label="Choose the URLs that messages are sent to"
              checked={form.urls}
              onChange={(urls) => set({ urls })}
            />
          )}
        </>
      )}
      {form.scope !== 'admin' && (
        <TextField
          label="Only for this application"
          optional
          value={form.app}
          onChange={(app) => set({ app })}
          mono
          placeholder="its id or your id"
          error={fields.applicationId}
        />
      )}
      <SelectField
        label="Ends"
        value={form.life}
        onChange={(life) => set({ life })}
        options={lives}
        error={end === null && form.life !== 'at' ? 'Must be in the future' : fields.expiresAt}
      />
      {form.life === 'at' && (
        <TextField
          label="Time"
          type="datetime-local"
          value={form.at}
          onChange={(at) => set({ at })}
          error={form.at && end === null ? 'Must be in the future' : null}
        />
      )}
      {create.isError && Object.keys(fields).length === 0 && <Callout look="dead" title={messageOf(create.error)} />}
    </Dialog>
  );
}
