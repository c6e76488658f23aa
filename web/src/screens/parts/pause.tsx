// Pausing an application or the whole environment: messages are accepted, and their deliveries wait.

import { useQuery } from '@tanstack/react-query';
import { Pause, Play } from 'lucide-react';
import { useState } from 'react';
import { api, ok, raw } from '../../api/client';
import { useChange } from '../../api/queries';
import type { Application } from '../../api/types';
import { useMay } from '../../session';
import { Button } from '../../ui/controls';
import { Confirm } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { toast, toastError } from '../../ui/toast';

type Policy = Record<string, unknown> & { paused?: boolean | null };

const ENVIRONMENT = '/api/v1/environment/policy';
const nouns = ['apps', 'environmentPolicy', 'endpoints', 'deliveries'];

/** A policy with or without a pause. It is replaced as a whole. */
const withPause = (policy: Policy | null | undefined, paused: boolean): Policy => ({
  ...policy,
  paused: paused || undefined,
});

export const isPaused = (policy: unknown): boolean => (policy as Policy | null | undefined)?.paused === true;

/** The policy is read first: an older copy would undo changes of others. */
async function pauseApplication(app: string, paused: boolean) {
  const params = { path: { app_id: app } };
  const { policy } = (await ok(api.GET('/api/v1/app/{app_id}', { params }))) as Application & {
    policy?: Policy | null;
  };
  return raw('PATCH', `/api/v1/app/${encodeURIComponent(app)}`, { body: { policy: withPause(policy, paused) } });
}

async function pauseEnvironment(paused: boolean) {
  const policy = await raw<Policy>('GET', ENVIRONMENT);
  return raw('PUT', ENVIRONMENT, { body: withPause(policy, paused) });
}

export const environmentPolicyQuery = {
  queryKey: ['environmentPolicy'],
  queryFn: () => raw<Policy>('GET', ENVIRONMENT),
  staleTime: 5000,
};

type Props = { noun: string; paused: boolean; may: boolean; run: (paused: boolean) => Promise<unknown> };

function PauseButton({ noun, paused, may, run }: Props) {
  const [asking, setAsking] = useState(false);
  const change = useChange(run, nouns, (_, now) =>
    toast(now ? `The ${noun} is paused` : `The ${noun} is resumed`, {
      text: now ? 'Deliveries wait on every replica within 5 seconds.' : 'Waiting deliveries go out in order.',
    }),
  );
  if (!may) return null;
  return (
    <>
      {paused ? (
        <Button
          kind="primary"
          icon={Play}
          busy={change.isPending}
          onClick={() => change.mutate(false, { onError: (error) => toastError('Resuming failed', error) })}
        >
          Resume
        </Button>
      ) : (
        <Button icon={Pause} onClick={() => setAsking(true)}>
          Pause
        </Button>
      )}
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Pause the ${noun}`}
        verb={`Pause ${noun}`}
        run={() => change.mutateAsync(true)}
      >
        Nothing is sent to the endpoints of this {noun} until it is resumed. Messages are accepted, and their deliveries
        wait.
      </Confirm>
    </>
  );
}

export function PauseApplication({ app, paused }: { app: string; paused: boolean }) {
  return (
    <PauseButton
      noun="application"
      paused={paused}
      may={useMay('PATCH /api/v1/app/{app_id}')}
      run={(next) => pauseApplication(app, next)}
    />
  );
}

export function PauseEnvironment() {
  const may = useMay(`PUT ${ENVIRONMENT}`);
  const { data } = useQuery(environmentPolicyQuery);
  return data ? <PauseButton noun="environment" paused={isPaused(data)} may={may} run={pauseEnvironment} /> : null;
}

/** Said on screens whose deliveries wait because of a pause further out. */
export function PausedAbove({ app }: { app?: { name: string; policy?: unknown } }) {
  const { data } = useQuery(environmentPolicyQuery);
  if (isPaused(data))
    return (
      <Callout look="paused" title="The environment is paused. Nothing is sent to its endpoints.">
        Settings resumes it.
      </Callout>
    );
  if (app && isPaused(app.policy))
    return (
      <Callout look="paused" title={`Application ${app.name} is paused. Nothing is sent to its endpoints.`}>
        New messages are accepted, and their deliveries wait.
      </Callout>
    );
  return null;
}
