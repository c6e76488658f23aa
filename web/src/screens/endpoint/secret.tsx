// The signing secret: reveal, rotate, verify.

import { useMutation } from '@tanstack/react-query';
import { Eye, EyeOff, RefreshCw } from 'lucide-react';
import { useState } from 'react';
import { api, messageOf, ok } from '../../api/client';
import { useChange } from '../../api/queries';
import type { Endpoint } from '../../api/types';
import { languages, verification, type Language } from '../../lib/snippets';
import { useMay } from '../../session';
import { CopyButton } from '../../ui/atoms';
import { Button, IconButton, Seg, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { Dialog } from '../../ui/overlay';
import { Snippet } from '../../ui/snippet';
import { Callout } from '../../ui/status';
import { Countdown } from '../../ui/time';

const GRACE_HOURS = '24';

export function Secret({ app, endpoint }: { app: string; endpoint: Endpoint }) {
  return (
    <div className="grid cols two-cards">
      <SecretCard app={app} ep={endpoint.id} />
      <VerifyCard />
    </div>
  );
}

export function VerifyCard() {
  const [language, setLanguage] = useState<Language>('Python');
  return (
    <Card
      title="Verify"
      tools={
        <Seg
          small
          label="Language"
          value={language}
          options={languages.map((name) => [name, name] as const)}
          onChange={setLanguage}
        />
      }
    >
      <div className="in stack g8">
        <Snippet text={verification[language]} label={`${language} code`} />
        <p className="s12 t3">
          Pass the body as it arrived: any change of a byte breaks the signature. The headers are{' '}
          <span className="mono">webhook-id</span>, <span className="mono">webhook-timestamp</span> and{' '}
          <span className="mono">webhook-signature</span>.
        </p>
      </div>
    </Card>
  );
}

export function SecretCard({ app, ep }: { app: string; ep: string }) {
  const may = useMay('GET /api/v1/app/{app_id}/endpoint/{endpoint_id}/secret');
  if (!may) {
    return (
      <Card title="Signing secret">
        <p className="in t2">Your key may not read secrets.</p>
      </Card>
    );
  }
  return <SecretFor app={app} ep={ep} may />;
}

/** `may` is an argument, because the portal decides it by capabilities. */
export function SecretFor({ app, ep, may }: { app: string; ep: string; may: boolean }) {
  const [rotating, setRotating] = useState(false);
  const [grace, setGrace] = useState(GRACE_HOURS);
  const [overlap, setOverlap] = useState<string | null>(null);
  const path = { app_id: app, endpoint_id: ep };
  // A mutation, not a query: the secret is not cached and not fetched again.
  const reveal = useMutation({
    mutationFn: () => ok(api.GET('/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret', { params: { path } })),
  });
  const rotate = useChange(
    () =>
      ok(
        api.POST('/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate', {
          params: { path },
          body: { gracePeriodSeconds: Math.round(Number(grace) * 3600) },
        }),
      ),
    ['endpoints'],
    () => {
      setOverlap(Number(grace) > 0 ? new Date(Date.now() + Number(grace) * 3_600_000).toISOString() : null);
      setRotating(false);
      reveal.mutate();
    },
  );
  const key = reveal.data?.key;
  const hours = Number(grace);
  const bad =
    !Number.isFinite(hours) || hours < 0 || grace.trim() === '' ? 'Must be a number of hours, 0 or more' : null;
  return (
    <Card
      title="Signing secret"
      tools={
        may && (
          <Button size="sm" kind="ghost" icon={RefreshCw} onClick={() => setRotating(true)}>
            Rotate
          </Button>
        )
      }
    >
      <div className="in stack g12">
        <span className="inp secret">
          <span className="mono cut grow">{key ?? 'whsec_••••••••••••••••••••'}</span>
          {key ? (
            <IconButton icon={EyeOff} label="Hide the secret" size="sm" onClick={() => reveal.reset()} />
          ) : (
            <IconButton
              icon={Eye}
              label="Reveal the secret"
              size="sm"
              disabled={reveal.isPending}
              onClick={() => reveal.mutate()}
            />
          )}
          {key && <CopyButton text={key} label="Copy the secret" />}
        </span>
        {reveal.isError && <Callout look="dead" title={messageOf(reveal.error)} />}
        {overlap && (
          <Callout
            look="retrying"
            title={
              <>
                The old secret also signs for <Countdown at={overlap} />.
              </>
            }
          >
            Deliveries carry both signatures until then. Change the receiver before it ends.
          </Callout>
        )}
        <p className="s12 t3">Deliveries are signed with this secret. Keep it on the receiver only.</p>
      </div>
      <Dialog
        open={rotating}
        onClose={() => setRotating(false)}
        title="Rotate the secret"
        onSubmit={() => !bad && rotate.mutate(undefined)}
        footer={
          <>
            <Button onClick={() => setRotating(false)}>Cancel</Button>
            <Button kind="primary" submit busy={rotate.isPending} disabled={bad !== null}>
              Rotate secret
            </Button>
          </>
        }
      >
        <p>
          A new random secret signs from now on. During the overlap deliveries carry the signatures of both, so that the
          receiver can be changed without a failure.
        </p>
        <TextField
          label="Overlap"
          value={grace}
          onChange={setGrace}
          unit="hours"
          inputMode="decimal"
          error={bad}
          hint="0 ends the old secret at once"
        />
        {rotate.isError && <Callout look="dead" title={messageOf(rotate.error)} />}
      </Dialog>
    </Card>
  );
}
