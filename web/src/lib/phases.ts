// The steps of a request as parts of its duration.

export type Phases = {
  reused: boolean;
  waitMs?: number | null;
  dnsMs?: number | null;
  connectMs?: number | null;
  tlsMs?: number | null;
  firstByteMs?: number | null;
  bodyMs?: number | null;
};

export type Phase = { name: string; className: string; ms: number; failed?: boolean };

const steps = [
  ['waitMs', 'Queue', 'ph-queue'],
  ['dnsMs', 'DNS', 'ph-dns'],
  ['connectMs', 'Connect', 'ph-connect'],
  ['tlsMs', 'TLS', 'ph-tls'],
  ['firstByteMs', 'First byte', 'ph-wait'],
  ['bodyMs', 'Body', 'ph-body'],
] as const;

/** Time that no step explains is shown above this part of the duration. */
const UNEXPLAINED = 0.05;

/** The steps that the server measured, in their order; the whole duration as one phase without them. */
export function phasesOf(
  phases: Phases | null | undefined,
  totalMs: number,
  ended: 'reply' | 'no reply' | 'cancelled',
): Phase[] {
  const failed = ended === 'no reply';
  if (!phases) return [{ name: 'Total', className: 'ph-wait', ms: totalMs, failed }];
  const measured: Phase[] = steps.flatMap(([key, name, className]) => {
    const ms = phases[key];
    return typeof ms === 'number' ? [{ name, className, ms }] : [];
  });
  const rest = totalMs - measured.reduce((sum, phase) => sum + phase.ms, 0);
  const last = measured.at(-1);
  // A request without a reply failed in its last step, or waited in vain for the reply.
  const waited = failed && rest > Math.max(1, totalMs * UNEXPLAINED);
  if (waited) measured.push({ name: 'No reply', className: 'ph-wait', ms: rest, failed: true });
  else if (failed && last) last.failed = true;
  else if (rest > Math.max(1, totalMs * UNEXPLAINED)) measured.push({ name: 'Other', className: 'ph-queue', ms: rest });
  return measured;
}

/** A span of a step: steps on one machine take less than a millisecond. */
export function spanText(ms: number): string {
  if (ms < 10) return `${ms.toFixed(ms < 1 ? 2 : 1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
