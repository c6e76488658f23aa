// Sign-in with an API key, or with the code of a one-time link.

import { useNavigate } from '@tanstack/react-router';
import { useEffect, useRef, useState, type FormEvent } from 'react';
import { ApiFailure, messageOf } from '../api/client';
import { home } from '../capabilities';
import { Logo } from '../shell/logo';
import { signIn } from '../session';
import { Button, TextField } from '../ui/controls';
import { Snippet } from '../ui/snippet';
import { Callout } from '../ui/status';
import { useNow } from '../ui/time';
import { useUrl } from '../url';

/** The code of a one-time link. It leaves the address bar at once, so that it is not shared or kept. */
function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code) history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

/** Only paths of this server: a link must not lead elsewhere after the sign-in. */
export function safeNext(next: string | undefined): string {
  return next && /^\/(?![/\\])/.test(next) && !next.startsWith('/sign-in') ? next : home;
}

export default function SignIn() {
  const [url] = useUrl();
  const navigate = useNavigate();
  const [key, setKey] = useState('');
  const [show, setShow] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [until, setUntil] = useState(0);
  const now = useNow();
  const started = useRef(false);
  const wait = Math.ceil((until - now) / 1000);

  const enter = (secret: { key: string } | { code: string }) => {
    setBusy(true);
    setError(null);
    signIn(secret)
      .then(() => navigate({ href: safeNext(url.next), replace: true }))
      .catch((reason: unknown) => {
        setError(reason);
        if (reason instanceof ApiFailure && reason.retryAfter) setUntil(Date.now() + reason.retryAfter * 1000);
      })
      .finally(() => setBusy(false));
  };
  useEffect(() => {
    document.title = 'Sign in · Everhook';
    if (started.current) return;
    started.current = true;
    const code = takeCode();
    if (code) enter({ code });
    // Runs once: the code is gone from the address bar afterwards.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim()) enter({ key: key.trim() });
  };
  return (
    <main className="auth">
      <div className="auth-c">
        <Logo big />
        <h1>Sign in to Everhook</h1>
        <p className="t2">{location.host}</p>
        <form className="auth-f" onSubmit={submit}>
          <TextField
            label="API key"
            name="key"
            type={show ? 'text' : 'password'}
            value={key}
            onChange={setKey}
            autoFocus
            mono
            placeholder="ehk_…"
            autoComplete="current-password"
            hint="The key stays on the server; the browser gets a session cookie."
          />
          <label className="checkrow">
            <input type="checkbox" className="cb" checked={show} onChange={(event) => setShow(event.target.checked)} />
            <span>Show the key</span>
          </label>
          {error !== null && (
            <Callout look="dead" title={messageOf(error)}>
              {error instanceof ApiFailure &&
                error.status === 401 &&
                'Check the key, or create another one on the server.'}
            </Callout>
          )}
          <Button kind="primary" submit busy={busy} disabled={wait > 0 || !key.trim()}>
            {wait > 0 ? `Try again in ${wait} s` : 'Sign in'}
          </Button>
        </form>
        <div className="auth-or">no key at hand</div>
        <div className="auth-alt">
          <Snippet label="Command" text="everhook key create" />
          <p className="s12 t3">Run it where the server runs. It prints a new key.</p>
        </div>
      </div>
      <footer className="auth-foot">
        <a href="/docs">API</a>
        <span>Everhook</span>
      </footer>
    </main>
  );
}
