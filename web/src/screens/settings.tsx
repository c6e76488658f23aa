// Settings: preferences of the person, the session, and what the server says about itself.

import { useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { api, ok } from '../api/client';
import { offers } from '../capabilities';
import { setPreference, usePreferences, type Theme } from '../preferences';
import { ChatApps } from './parts/chat-apps';
import { Configuration } from './parts/configuration';
import { EnvironmentPolicy } from './parts/outer-policy';
import { PauseEnvironment } from './parts/pause';
import { PortalLookCard } from './parts/portal-look';
import { EnvironmentQuotas } from './parts/quotas';
import { currentEnvironment, useMay, useSession } from '../session';
import { Button, Seg, Switch } from '../ui/controls';
import { Card, Props } from '../ui/figures';
import { Body, Page, Tabs } from '../ui/page';
import { Loaded } from '../ui/status';
import { FullTime } from '../ui/time';
import { useUrl } from '../url';

const themes: readonly (readonly [Theme, string])[] = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

export default function SettingsScreen() {
  const [url] = useUrl();
  const [adding, setAdding] = useState(false);
  const mayAdd = useMay('PUT /api/v1/chat-app/{kind}');
  const maySee = useMay('GET /api/v1/config');
  const tabs = [
    ['', 'General', true],
    ['policy', 'Delivery policy', offers.outerPolicy],
    ['quotas', 'Quotas', offers.quotas],
    ['chat', 'Chat apps', offers.chatApps],
    ['config', 'Configuration', offers.config && maySee],
  ] as const;
  const shown = tabs.filter(([, , on]) => on);
  const tab = shown.find(([key]) => key === url.tab)?.[0] ?? '';
  const add = mayAdd ? () => setAdding(true) : undefined;
  return (
    <Page
      title="Settings"
      tools={
        tab === 'chat' &&
        add && (
          <Button kind="primary" icon={Plus} onClick={add}>
            New chat app
          </Button>
        )
      }
    >
      {shown.length > 1 && (
        <Tabs
          label="Settings"
          tabs={shown.map(([key, label]) => ({
            to: '/settings',
            search: key ? { tab: key } : {},
            label,
            active: key === tab,
          }))}
        />
      )}
      {tab === 'policy' && (
        <Body>
          <EnvironmentPolicy />
        </Body>
      )}
      {tab === 'quotas' && (
        <Body>
          <EnvironmentQuotas />
        </Body>
      )}
      {tab === 'chat' && <ChatApps adding={adding} onAdd={add} onAdded={() => setAdding(false)} />}
      {tab === 'config' && <Configuration />}
      {tab === '' && <General />}
    </Page>
  );
}

function General() {
  const preferences = usePreferences();
  const session = useSession();
  const ready = useQuery({
    queryKey: ['ready'],
    queryFn: () => ok(api.GET('/api/v1/health/ready')),
    refetchInterval: 10_000,
  });
  return (
    <Body>
      <div className="grid cols two-cards wide-left">
        <div className="stack">
          <Card title="Display" sub="kept in this browser">
            <div className="in stack g12">
              <Option title="Theme" text="System follows the setting of your device.">
                <Seg
                  label="Theme"
                  value={preferences.theme}
                  options={themes}
                  onChange={(theme) => setPreference('theme', theme)}
                />
              </Option>
              <Option title="Time zone" text="Links always hold UTC.">
                <Seg
                  label="Time zone"
                  value={preferences.zone}
                  options={
                    [
                      ['utc', 'UTC'],
                      ['local', 'Local'],
                    ] as const
                  }
                  onChange={(zone) => setPreference('zone', zone)}
                />
              </Option>
              <Option
                title="Live updates"
                text="Lists and charts follow changes at once, and refresh every 5 seconds. A hidden tab stops."
              >
                <Switch
                  label="Live updates"
                  checked={preferences.live}
                  onChange={(live) => setPreference('live', live)}
                />
              </Option>
              <Option title="Single-key shortcuts" text="Press ? for the list.">
                <Switch
                  label="Single-key shortcuts"
                  checked={preferences.shortcuts}
                  onChange={(shortcuts) => setPreference('shortcuts', shortcuts)}
                />
              </Option>
            </div>
          </Card>
          {offers.portalSettings && <PortalLookCard />}
        </div>
        <div className="stack">
          <Card title="Session">
            <div className="in">
              {session && (
                <Props
                  items={[
                    ['Environment', currentEnvironment(session)],
                    ['Key', session.keyName ?? '–'],
                    ['Rights', session.role === 'read' ? 'read only' : session.role],
                    ['Ends', <FullTime key="e" at={session.expiresAt} age={false} />],
                  ]}
                />
              )}
            </div>
          </Card>
          <Card title="Deliveries">
            <div className="in">
              <Option title="Pause the environment" text="Messages are accepted, and all deliveries wait.">
                <PauseEnvironment />
              </Option>
            </div>
          </Card>
          <Card title="Server">
            <div className="in">
              <Loaded query={ready} what="The state of the server" rows={3}>
                {(data) => (
                  <Props
                    items={[
                      ['State', data.ready ? 'ready' : `not ready: ${data.reason ?? 'unknown'}`],
                      ['Version', data.version],
                      ['Role', data.role],
                      [
                        'API',
                        <a key="d" className="link" href="/docs">
                          /docs
                        </a>,
                      ],
                    ]}
                  />
                )}
              </Loaded>
            </div>
          </Card>
        </div>
      </div>
    </Body>
  );
}

function Option({ title, text, children }: { title: string; text: string; children: React.ReactNode }) {
  return (
    <div className="opt">
      <span>
        <b>{title}</b>
        <small>{text}</small>
      </span>
      {children}
    </div>
  );
}
