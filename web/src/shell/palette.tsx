// The command palette: paste an id to jump, or search by words.

import { Command } from 'cmdk';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import {
  Building2,
  CornerDownLeft,
  Inbox,
  Layers,
  ListTodo,
  Moon,
  Search,
  Tag,
  Webhook,
  Zap,
  type LucideIcon,
} from 'lucide-react';
import { Dialog } from 'radix-ui';
import { useDeferredValue, useState } from 'react';
import { api, ApiFailure, raw } from '../api/client';
import type { Lookup } from '../api/types';
import { offers } from '../capabilities';
import { appsQuery, endpointsQuery, eventTypesQuery } from '../api/queries';
import { targetOf } from '../lib/ids';
import { rank } from '../lib/rank';
import { isDark, preferences, setPreference } from '../preferences';
import { queuesQuery } from '../screens/parts/queue-data';
import { Kbd } from '../ui/atoms';
import { entries } from './nav';

type Go = { to: string; params?: Record<string, string>; search?: Record<string, string> };

/** The application that owns a message or endpoint. Servers without a look-up are asked application by application. */
function useOwner(text: string) {
  const id = text.trim();
  const target = targetOf(id, '');
  const page = useQuery({ ...appsQuery({ limit: 250 }), enabled: target?.needsApp === true && !offers.lookup }).data;
  const apps = page?.data;
  const found = useQuery({
    queryKey: ['owner', id, apps?.length],
    enabled: target?.needsApp === true && apps !== undefined,
    staleTime: Infinity,
    placeholderData: undefined,
    queryFn: async () => {
      const last = preferences().app;
      const list = [...(apps ?? [])].sort((a, b) => Number(b.id === last) - Number(a.id === last));
      for (const app of list) {
        const path = { app_id: app.id };
        const { response } = id.startsWith('msg_')
          ? await api.GET('/api/v1/app/{app_id}/msg/{msg_id}', {
              params: { path: { ...path, msg_id: id }, query: { with_content: false } },
            })
          : await api.GET('/api/v1/app/{app_id}/endpoint/{endpoint_id}', {
              params: { path: { ...path, endpoint_id: id } },
            });
        if (response.ok) return { id: app.id, name: app.name };
      }
      return null;
    },
  });
  const lookup = useQuery({
    queryKey: ['lookup', id],
    enabled: target?.needsApp === true && offers.lookup,
    placeholderData: undefined,
    retry: false,
    queryFn: async () => {
      try {
        const { appId } = await raw<Lookup>('GET', `/api/v1/lookup/${encodeURIComponent(id)}`);
        return appId ? { id: appId, name: undefined } : null;
      } catch (error) {
        if (error instanceof ApiFailure && error.status === 404) return null;
        throw error;
      }
    },
  });
  return offers.lookup ? { ...lookup, everywhere: true } : { ...found, everywhere: page?.done === true };
}

export default function Palette({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState('');
  const query = useDeferredValue(text);
  const target = targetOf(query, '');
  const owner = useOwner(query);
  const app = preferences().app;
  const isWord = query.trim().length > 0 && !target;
  const apps = useQuery({ ...appsQuery({ limit: 250 }), enabled: isWord }).data?.data ?? [];
  const endpoints =
    useQuery({ ...endpointsQuery(app, undefined, 250), enabled: isWord && app !== '' }).data?.data ?? [];
  const types = useQuery({ ...eventTypesQuery(), enabled: isWord }).data?.data ?? [];
  const queues = useQuery({ ...queuesQuery(), enabled: isWord }).data?.data ?? [];
  const go = ({ to, params, search }: Go) => {
    onClose();
    void navigate({ to, params: params ?? {}, search: search ?? {} });
  };
  const jump = target?.needsApp ? (owner.data ? targetOf(query, owner.data.id) : null) : target;
  const searching = target?.needsApp && owner.isFetching;
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="scrim">
          <Dialog.Content className="pal" aria-describedby={undefined}>
            <Dialog.Title className="sr">Search</Dialog.Title>
            <Command label="Search" shouldFilter={!target} filter={rank} loop>
              <div className="q">
                <Search className="i" aria-hidden="true" />
                <Command.Input value={text} onValueChange={setText} placeholder="Search or paste an id" autoFocus />
                <Kbd>Esc</Kbd>
              </div>
              <Command.List>
                {target && (
                  <Command.Group heading="Jump to">
                    {jump?.to && (
                      <Row icon={CornerDownLeft} value={query} onSelect={() => go(jump as Go)} note={owner.data?.name}>
                        {jump.kind} <span className="mono t3">{query.trim()}</span>
                      </Row>
                    )}
                    {searching && <p className="pal-note">Looking for it in every application…</p>}
                    {target.needsApp && owner.data === null && !searching && (
                      <p className="pal-note">
                        {target.kind} not found{' '}
                        {owner.everywhere ? 'in this environment' : 'in the first 250 applications'}.
                      </p>
                    )}
                  </Command.Group>
                )}
                {!target && (
                  <Command.Empty className="pal-note">No match. Paste a whole id to jump to it.</Command.Empty>
                )}
                {!target && (
                  <Command.Group heading="Screens">
                    {entries.map(({ to, label, icon, key }) => (
                      <Row
                        key={to}
                        icon={icon}
                        value={`go ${label}`}
                        onSelect={() => go({ to })}
                        note={key ? `G ${key.toUpperCase()}` : undefined}
                      >
                        {label}
                      </Row>
                    ))}
                  </Command.Group>
                )}
                {isWord && (
                  <>
                    <Command.Group heading="Applications">
                      {apps.map((one) => (
                        <Row
                          key={one.id}
                          icon={Building2}
                          value={`${one.name} ${one.uid ?? ''} ${one.id}`}
                          onSelect={() => go({ to: '/apps/$app', params: { app: one.id } })}
                          note={one.uid ?? undefined}
                        >
                          {one.name}
                        </Row>
                      ))}
                    </Command.Group>
                    <Command.Group heading="Messages of an application">
                      {apps.map((one) => (
                        <Row
                          key={one.id}
                          icon={Inbox}
                          value={`messages ${one.name} ${one.uid ?? ''}`}
                          onSelect={() => go({ to: '/messages', search: { app: one.id } })}
                        >
                          Messages of {one.name}
                        </Row>
                      ))}
                    </Command.Group>
                    <Command.Group heading="Endpoints">
                      {endpoints.map((one) => (
                        <Row
                          key={one.id}
                          icon={Webhook}
                          value={`${one.url} ${one.description} ${one.id}`}
                          onSelect={() =>
                            go({ to: '/apps/$app/endpoints/$ep/$tab', params: { app, ep: one.id, tab: 'health' } })
                          }
                          note={one.description}
                        >
                          {one.url}
                        </Row>
                      ))}
                    </Command.Group>
                    <Command.Group heading="Event types">
                      {types.map((one) => (
                        <Row
                          key={one.name}
                          icon={Tag}
                          value={`type ${one.name} ${one.description}`}
                          onSelect={() => go({ to: '/event-types', search: { open: one.name } })}
                        >
                          {one.name}
                        </Row>
                      ))}
                    </Command.Group>
                    <Command.Group heading="Queues">
                      {queues.map((one) => (
                        <Row
                          key={one.name}
                          icon={Layers}
                          value={`queue ${one.name}`}
                          onSelect={() => go({ to: '/queues/$name', params: { name: one.name } })}
                        >
                          {one.name}
                        </Row>
                      ))}
                    </Command.Group>
                  </>
                )}
                {!target && (
                  <Command.Group heading="Commands">
                    <Row
                      icon={Moon}
                      value="command theme dark light"
                      onSelect={() => {
                        setPreference('theme', isDark() ? 'light' : 'dark');
                        onClose();
                      }}
                    >
                      Switch theme
                    </Row>
                    <Row
                      icon={Zap}
                      value="command live updates pause"
                      onSelect={() => {
                        setPreference('live', !preferences().live);
                        onClose();
                      }}
                    >
                      {preferences().live ? 'Pause live updates' : 'Resume live updates'}
                    </Row>
                    <Row
                      icon={ListTodo}
                      value="command dead jobs"
                      onSelect={() => go({ to: '/jobs', search: { state: 'dead' } })}
                    >
                      Show dead jobs
                    </Row>
                  </Command.Group>
                )}
              </Command.List>
            </Command>
            <footer>
              <span>
                <Kbd>↑</Kbd> <Kbd>↓</Kbd> move
              </span>
              <span>
                <Kbd>↵</Kbd> open
              </span>
              <span>
                <Kbd>?</Kbd> shortcuts, outside of this box
              </span>
            </footer>
          </Dialog.Content>
        </Dialog.Overlay>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Row({
  icon: Icon,
  value,
  onSelect,
  note,
  children,
}: {
  icon: LucideIcon;
  value: string;
  onSelect: () => void;
  note?: string;
  children: React.ReactNode;
}) {
  return (
    <Command.Item value={value} onSelect={onSelect} className="pal-item">
      <Icon className="i" aria-hidden="true" />
      <span className="cut">{children}</span>
      {note && <span className="push cut pal-side">{note}</span>}
    </Command.Item>
  );
}
