// The credentials that deliveries carry beside their signature: Basic, OAuth 2.0, a client certificate.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../../api/client';
import { useChange } from '../../api/queries';
import { useMay } from '../../session';
import { StateText } from '../../ui/atoms';
import { AreaField, Button, SelectField, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { Confirm, Dialog } from '../../ui/overlay';
import { Callout, Loaded } from '../../ui/status';
import { toast } from '../../ui/toast';

type Kind = 'basic-auth' | 'oauth' | 'mtls';
type State = {
  basic: { username: string } | null;
  oauth: { clientId: string; tokenUrl: string; scopes: string[]; authMethod: string } | null;
  mtls: boolean;
};

const titles: Record<Kind, string> = {
  'basic-auth': 'User name and password',
  oauth: 'OAuth 2.0',
  mtls: 'Client certificate',
};
const verbs: Record<Kind, string> = {
  'basic-auth': 'Authorization: Basic',
  oauth: 'Authorization: Bearer, with fetched tokens',
  mtls: 'Presented in the TLS handshake',
};
const NEEDS = '/api/v1/app/{app_id}/endpoint/{endpoint_id}';

/** An answer of 404 means that nothing is set. */
async function found<T>(path: string): Promise<T | null> {
  try {
    return await raw<T>('GET', path);
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 404) return null;
    throw error;
  }
}

export function AuthCard({ app, ep }: { app: string; ep: string }) {
  const base = `/api/v1/app/${encodeURIComponent(app)}/endpoint/${ep}`;
  const [editing, setEditing] = useState<Kind | null>(null);
  const [removing, setRemoving] = useState<Kind | null>(null);
  const may: Record<Kind, boolean> = {
    'basic-auth': useMay(`PUT ${NEEDS}/basic-auth`),
    oauth: useMay(`PUT ${NEEDS}/oauth`),
    mtls: useMay(`PUT ${NEEDS}/mtls`),
  };
  const query = useQuery({
    queryKey: ['endpoints', 'auth', app, ep],
    queryFn: async (): Promise<State> => {
      const [basic, oauth, mtls] = await Promise.all([
        found<NonNullable<State['basic']>>(`${base}/basic-auth`),
        raw<{ config?: State['oauth'] }>('GET', `${base}/oauth-config`),
        raw<{ enabled: boolean }>('GET', `${base}/mtls-config`),
      ]);
      return { basic, oauth: oauth.config ?? null, mtls: mtls.enabled };
    },
  });
  const remove = useChange(
    (kind: Kind) => raw('DELETE', `${base}/${kind}`),
    ['endpoints'],
    () => toast('Credentials removed'),
  );
  return (
    <Card title="Authentication" sub="for gateways in front of the receiver; credentials are never shown again">
      <div className="in">
        <Loaded query={query} what="The authentication" rows={3}>
          {(state) => (
            <ul className="creds">
              {(Object.keys(titles) as Kind[]).map((kind) => (
                <li key={kind} className="opt">
                  <span>
                    <b>{titles[kind]}</b>
                    <small>{stateText(kind, state) ?? verbs[kind]}</small>
                  </span>
                  <span className="row">
                    {stateText(kind, state) !== null ? (
                      <StateText look="delivered" word="Set" />
                    ) : (
                      <StateText look="disabled" word="Not set" />
                    )}
                    {may[kind] && (
                      <Button size="sm" onClick={() => setEditing(kind)}>
                        {stateText(kind, state) !== null ? 'Replace' : 'Set'}
                      </Button>
                    )}
                    {may[kind] && stateText(kind, state) !== null && (
                      <Button size="sm" kind="ghost" onClick={() => setRemoving(kind)}>
                        Remove
                      </Button>
                    )}
                  </span>
                </li>
              ))}
            </ul>
          )}
        </Loaded>
      </div>
      {editing && (
        <AuthDialog kind={editing} base={base} oauth={query.data?.oauth ?? null} onClose={() => setEditing(null)} />
      )}
      <Confirm
        open={removing !== null}
        onClose={() => setRemoving(null)}
        danger
        title="Remove the credentials"
        verb="Remove credentials"
        run={() => remove.mutateAsync(removing ?? 'mtls')}
      >
        Deliveries go out without them from now on.
      </Confirm>
    </Card>
  );
}

/** What the server tells about credentials; null if there are none. */
function stateText(kind: Kind, { basic, oauth, mtls }: State): string | null {
  if (kind === 'basic-auth') return basic ? `User ${basic.username}` : null;
  if (kind === 'oauth') return oauth ? `Client ${oauth.clientId}, tokens of ${oauth.tokenUrl}` : null;
  return mtls ? 'A certificate with its key' : null;
}

function AuthDialog({
  kind,
  base,
  oauth,
  onClose,
}: {
  kind: Kind;
  base: string;
  oauth: State['oauth'];
  onClose: () => void;
}) {
  const [form, setForm] = useState({
    username: '',
    password: '',
    identity: '',
    clientId: oauth?.clientId ?? '',
    clientSecret: '',
    tokenUrl: oauth?.tokenUrl ?? '',
    scopes: (oauth?.scopes ?? []).join(' '),
    authMethod: oauth?.authMethod ?? 'clientSecretBasic',
  });
  const set = (patch: Partial<typeof form>) => setForm({ ...form, ...patch });
  const scopes = form.scopes.split(/[\s,]+/).filter(Boolean);
  const bodies: Record<Kind, object> = {
    'basic-auth': { username: form.username, password: form.password },
    oauth: {
      grantType: 'clientCredentials',
      authMethod: form.authMethod,
      clientId: form.clientId.trim(),
      clientSecret: form.clientSecret,
      tokenUrl: form.tokenUrl.trim(),
      ...(scopes.length ? { scopes } : {}),
    },
    mtls: { identity: form.identity },
  };
  const save = useChange(
    () => raw('PUT', `${base}/${kind}`, { body: bodies[kind] }),
    ['endpoints'],
    () => {
      toast('Credentials saved');
      onClose();
    },
  );
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field, message]))
      : {};
  return (
    <Dialog
      open
      onClose={onClose}
      title={titles[kind]}
      onSubmit={() => save.mutate(undefined)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={save.isPending}>
            Save credentials
          </Button>
        </>
      }
    >
      {kind === 'basic-auth' && (
        <>
          <TextField
            label="User name"
            value={form.username}
            onChange={(username) => set({ username })}
            error={fields.username}
            autoFocus
          />
          <TextField
            label="Password"
            type="password"
            value={form.password}
            onChange={(password) => set({ password })}
            error={fields.password}
          />
        </>
      )}
      {kind === 'oauth' && (
        <>
          <TextField
            label="Token URL"
            value={form.tokenUrl}
            onChange={(tokenUrl) => set({ tokenUrl })}
            mono
            placeholder="https://issuer.example.com/token"
            error={fields.tokenUrl}
            autoFocus
          />
          <TextField
            label="Client id"
            value={form.clientId}
            onChange={(clientId) => set({ clientId })}
            mono
            error={fields.clientId}
          />
          <TextField
            label="Client secret"
            type="password"
            value={form.clientSecret}
            onChange={(clientSecret) => set({ clientSecret })}
            mono
            error={fields.clientSecret}
            hint="Needed again for every change"
          />
          <TextField
            label="Scopes"
            optional
            value={form.scopes}
            onChange={(text) => set({ scopes: text })}
            mono
            error={fields.scopes}
          />
          <SelectField
            label="The client sends its secret"
            value={form.authMethod}
            onChange={(authMethod) => set({ authMethod })}
            options={[
              ['clientSecretBasic', 'In a header'],
              ['clientSecretPost', 'In the body'],
            ]}
            error={fields.authMethod}
          />
        </>
      )}
      {kind === 'mtls' && (
        <AreaField
          label="Certificate and key"
          rows={10}
          value={form.identity}
          onChange={(identity) => set({ identity })}
          placeholder="-----BEGIN CERTIFICATE-----"
          hint="PEM: the certificate with its chain, and the private key without a password"
          error={fields.identity}
        />
      )}
      {save.isError && Object.keys(fields).length === 0 && <Callout look="dead" title={messageOf(save.error)} />}
    </Dialog>
  );
}
