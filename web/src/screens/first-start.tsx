// The first webhook, step by step. It ends by itself when the first message is there.

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Check, Database, ListTodo, Send, ShieldCheck } from 'lucide-react';
import { useEffect, useState, type FormEvent } from 'react';
import { api, messageOf, ok } from '../api/client';
import { endpointsQuery, messagesQuery, queryClient } from '../api/queries';
import { curl } from '../lib/text';
import { useMay, useSession } from '../session';
import { Button } from '../ui/controls';
import { Snippet } from '../ui/snippet';
import { Callout } from '../ui/status';

const APP = 'acme';
const sample = { eventType: 'invoice.paid', payload: { id: 'inv_1', amount: 4200 } };

export function FirstStart() {
  const session = useSession();
  const may = useMay('POST /api/v1/app/{app_id}/endpoint');
  const navigate = useNavigate();
  const [address, setAddress] = useState('');
  const [busy, setBusy] = useState<'endpoint' | 'send' | null>(null);
  const [error, setError] = useState<string | null>(null);
  const endpoints = useQuery({ ...endpointsQuery(APP), retry: false, refetchInterval: 3000 });
  const messages = useQuery({ ...messagesQuery(APP, {}), retry: false, refetchInterval: 2000 });
  const endpoint = endpoints.data?.data[0];
  const message = messages.data?.data[0];

  useEffect(() => {
    if (!message || !endpoint) return;
    void navigate({
      to: '/apps/$app/messages/$msg/endpoints/$ep',
      params: { app: APP, msg: message.id, ep: endpoint.id },
    });
  }, [message, endpoint, navigate]);

  const run = (step: 'endpoint' | 'send', work: () => Promise<unknown>) => {
    setBusy(step);
    setError(null);
    work()
      .then(() => queryClient.invalidateQueries())
      .catch((reason: unknown) => setError(messageOf(reason)))
      .finally(() => setBusy(null));
  };
  const addEndpoint = (event: FormEvent) => {
    event.preventDefault();
    run('endpoint', async () => {
      await ok(
        api.POST('/api/v1/app', { params: { query: { get_if_exists: true } }, body: { name: 'Acme', uid: APP } }),
      );
      await ok(
        api.POST('/api/v1/app/{app_id}/endpoint', { params: { path: { app_id: APP } }, body: { url: address.trim() } }),
      );
    });
  };
  const send = () =>
    run('send', () => ok(api.POST('/api/v1/app/{app_id}/msg', { params: { path: { app_id: APP } }, body: sample })));
  const body = JSON.stringify({ ...sample, application: { name: 'Acme', uid: APP } });
  const command = curl({ method: 'POST', url: `${location.origin}/api/v1/app/${APP}/msg`, body });

  return (
    <div className="body">
      <div className="first">
        <div className="first-h">
          <h2>Send your first webhook</h2>
          <p className="t2 s14">Everhook runs and its store is ready. Three steps, about two minutes.</p>
        </div>
        <ol className="steps">
          <Step number={1} done title="Get a key">
            <p className="t2">
              Signed in with {session?.keyName ?? 'your key'}. Your shell needs the key as{' '}
              <code className="mono">$KEY</code>.
            </p>
          </Step>
          <Step number={2} done={endpoint !== undefined} now={!endpoint} title="Add an endpoint">
            <p className="t2">
              A URL of yours that receives messages of the application <code className="mono">{APP}</code>, which is
              created on the way.
            </p>
            {may && !endpoint && (
              <form className="row" onSubmit={addEndpoint}>
                <span className="inp">
                  <input
                    type="url"
                    required
                    value={address}
                    placeholder="https://example.com/hook"
                    aria-label="URL of the endpoint"
                    onChange={(event) => setAddress(event.target.value)}
                  />
                </span>
                <Button kind="primary" submit busy={busy === 'endpoint'} disabled={!address.trim()}>
                  Add endpoint
                </Button>
              </form>
            )}
            {endpoint && <p className="mono t2">{endpoint.url}</p>}
            {!endpoint && (
              <p className="s12 t3">
                No receiver at hand? <code className="mono">everhook listen</code> starts one on this machine and shows
                what arrives.
              </p>
            )}
          </Step>
          <Step number={3} done={message !== undefined} now={endpoint !== undefined} title="Send a message">
            <p className="t2">Run this in a terminal{may ? ', or press the button' : ''}.</p>
            <Snippet label="Command" text={command} />
            <div className="row first-send">
              {may && (
                <Button icon={Send} busy={busy === 'send'} disabled={!endpoint} onClick={send}>
                  Send it for me
                </Button>
              )}
              <span className="t2 s12 row">
                <span className="spin" aria-hidden="true" /> Waiting for the first message
              </span>
            </div>
          </Step>
        </ol>
        {error && <Callout look="dead" title={error} />}
        <div className="first-f">
          <a href="/docs">
            <ShieldCheck className="i" aria-hidden="true" />
            <span>
              <b>Verify signatures</b>
              <small>Python, JavaScript, Rust, Go</small>
            </span>
          </a>
          <a href="/docs">
            <Database className="i" aria-hidden="true" />
            <span>
              <b>Send from a transaction</b>
              <small>The outbox, in SQL</small>
            </span>
          </a>
          <a href="/jobs">
            <ListTodo className="i" aria-hidden="true" />
            <span>
              <b>Run a job</b>
              <small>Queues, schedules, batches</small>
            </span>
          </a>
        </div>
      </div>
    </div>
  );
}

function Step({
  number,
  title,
  done,
  now,
  children,
}: {
  number: number;
  title: string;
  done?: boolean;
  now?: boolean;
  children: React.ReactNode;
}) {
  return (
    <li className="step">
      <span className={`stepn ${done ? 'done' : now ? 'now' : ''}`}>
        {done ? <Check className="i s" aria-label="Done" /> : number}
      </span>
      <div className="grow">
        <h3>{title}</h3>
        {children}
      </div>
    </li>
  );
}
