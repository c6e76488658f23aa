// The consumer portal: endpoints, logs and the event catalogue of one application, in the operator's colours. No words
// of the operator's side (lease, node, breaker) appear here.

import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { ArrowUpRight } from 'lucide-react';
import { useEffect, useMemo, useState } from 'react';
import { api, ApiFailure, ok, raw, setCredentials } from '../api/client';
import type { PortalSettings } from '../api/types';
import { offers } from '../capabilities';
import { isLogo } from '../lib/logo';
import '../styles/portal.css';
import { Empty, Failure, Skeleton } from '../ui/status';
import { useNow } from '../ui/time';
import { usePreferences } from '../preferences';
import { useUrl } from '../url';
import { dropAccess, takeAccess, textOn, type Access } from './access';
import { Catalogue } from './catalogue';
import { PortalEndpoint } from './endpoint';
import { PortalEndpoints } from './endpoints';
import { Logs } from './logs';

export default function Portal() {
  const { app = '' } = useParams({ strict: false });
  // The token leaves the address bar before anything is rendered.
  const [access] = useState(() => {
    const found = takeAccess(app);
    if (found) setCredentials({ token: found.token });
    return found;
  });
  return access ? <Opened app={app} access={access} /> : <Closed text="This link has no token." />;
}

function Closed({ text, name }: { text: string; name?: string }) {
  return (
    <main className="portal lone">
      <Empty title="Open this page again">
        {text} Go back to {name ?? 'the application that linked here'} and open it from there.
      </Empty>
    </main>
  );
}

function Opened({ app, access }: { app: string; access: Access }) {
  const { _splat: rest = '' } = useParams({ strict: false }) as { _splat?: string };
  const [url] = useUrl();
  const { zone } = usePreferences();
  const now = useNow();
  const application = useQuery({
    queryKey: ['portal', app],
    queryFn: () => ok(api.GET('/api/v1/app/{app_id}', { params: { path: { app_id: app } } })),
    retry: false,
  });
  const settings = useQuery({
    queryKey: ['portal', 'settings'],
    queryFn: () => raw<PortalSettings>('GET', '/api/v1/portal-settings'),
    enabled: offers.portalSettings,
  }).data;
  const name = settings?.name ?? 'Webhooks';
  const brand = useMemo(() => colours(settings?.accent), [settings?.accent]);
  const embedded = window.parent !== window;
  useHeight(embedded);
  useEffect(() => {
    document.title = application.data ? `${name}: webhooks of ${application.data.name}` : name;
    if (url.theme === 'dark' || url.theme === 'light') document.documentElement.setAttribute('data-theme', url.theme);
  }, [application.data, name, url.theme]);
  useEffect(() => {
    // Dialogs are outside of this element: the skin belongs to the page.
    const root = document.documentElement;
    root.dataset.skin = 'portal';
    for (const [name, value] of Object.entries(brand ?? {})) root.style.setProperty(name, String(value));
  }, [brand]);
  const ended = access.expiresAt !== null && access.expiresAt < now;
  const refused = application.error instanceof ApiFailure && application.error.status === 401;
  useEffect(() => {
    if (ended || refused) dropAccess(app);
  }, [ended, refused, app]);
  if (ended || refused) return <Closed text="The access has ended." name={settings?.name} />;

  const [section = 'endpoints', id] = rest.split('/').filter(Boolean);
  const tab = (key: string, label: string) => (
    <Link to="/portal/$app/$" params={{ app, _splat: key }} aria-current={section === key ? 'page' : undefined}>
      {label}
    </Link>
  );
  return (
    <div className="portal">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="p-top">
        {!embedded && (
          <div className="p-in">
            <span className="p-brand">
              {isLogo(settings?.logoUrl) ? (
                <img className="p-logo" src={settings.logoUrl} alt="" />
              ) : (
                <span className="p-logo" aria-hidden="true">
                  {name.slice(0, 1)}
                </span>
              )}
              {name}
            </span>
            {application.data && (
              <span className="p-for">
                Webhooks for <b>{application.data.name}</b>
              </span>
            )}
            {settings?.backUrl?.startsWith('https://') && (
              <a className="p-back" href={settings.backUrl}>
                Back to {name}
                <ArrowUpRight className="i s" aria-hidden="true" />
              </a>
            )}
          </div>
        )}
        <nav className="p-in p-tabs" aria-label="Portal">
          {tab('endpoints', 'Endpoints')}
          {tab('logs', 'Logs')}
          {tab('events', 'Event catalogue')}
        </nav>
      </header>
      <main className="p-in p-main" id="main">
        {application.isError && (
          <Failure error={application.error} what="This page" retry={() => void application.refetch()} />
        )}
        {!application.data && !application.isError && <Skeleton />}
        {application.data && section === 'endpoints' && !id && <PortalEndpoints app={app} access={access} />}
        {application.data && section === 'endpoints' && id && (
          <PortalEndpoint key={id} app={app} ep={id} access={access} />
        )}
        {application.data && section === 'logs' && <Logs app={app} access={access} />}
        {application.data && section === 'events' && <Catalogue />}
        <footer className="p-foot">
          <span>Delivered by Everhook</span>
          <span className="push">
            Times in {zone === 'utc' ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone}
          </span>
        </footer>
      </main>
    </div>
  );
}

/** The operator's accent, if it is a plain hex colour. */
function colours(accent: string | undefined) {
  const on = accent ? textOn(accent) : null;
  return on ? { ['--brand' as string]: accent, ['--brand-on' as string]: on } : undefined;
}

/** Tells the page around an embedded portal how high it is. Only allowed origins can embed it. */
function useHeight(embedded: boolean): void {
  useEffect(() => {
    if (!embedded) return undefined;
    const origin = location.ancestorOrigins?.[0];
    if (!origin) return undefined;
    const observer = new ResizeObserver(() =>
      window.parent.postMessage({ type: 'everhook.height', height: document.body.scrollHeight }, origin),
    );
    observer.observe(document.body);
    return () => observer.disconnect();
  }, [embedded]);
}
