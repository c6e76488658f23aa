// Bulk work on chosen messages or deliveries: sends them again, cancels or dismisses them.

import { Ban, CircleSlash, RotateCw } from 'lucide-react';
import { useState, type ComponentType } from 'react';
import { api, messageOf, ok } from '../../api/client';
import { queryClient } from '../../api/queries';
import { plural } from '../../lib/text';
import { useMay } from '../../session';
import { Button } from '../../ui/controls';
import { Meter } from '../../ui/figures';
import { Dialog } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { BulkBar } from '../../ui/table';
import { toast } from '../../ui/toast';

/** A message in its application, or one of its deliveries. */
export type Chosen = { app: string; msg: string; ep?: string };

type Progress = { done: number; deliveries: number; failed: string[] };

type Work = {
  verb: string;
  icon: ComponentType<{ className?: string }>;
  danger?: boolean;
  /** What happened to the deliveries. */
  past: string;
  text: string;
  /** Returns the number of deliveries that changed. */
  run: (chosen: Chosen) => Promise<number>;
};

const messagePath = ({ app, msg }: Chosen) => ({ app_id: app, msg_id: msg });
const deliveryPath = ({ app, msg, ep = '' }: Chosen) => ({ app_id: app, msg_id: msg, endpoint_id: ep });

const works = {
  replay: {
    verb: 'Replay',
    icon: RotateCw,
    past: 'sent again',
    text: 'Each endpoint that got a message gets it again, with the same webhook-id. Receivers that check the id ignore the repetition. It cannot be undone.',
    run: async (chosen) => {
      const path = messagePath(chosen);
      const { data } = await ok(
        api.GET('/api/v1/app/{app_id}/msg/{msg_id}/endpoint', { params: { path, query: { limit: 250 } } }),
      );
      // Deliveries that are still open are not doubled: the server refuses those.
      for (const { id } of data) {
        await ok(
          api.POST('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend', {
            params: { path: { ...path, endpoint_id: id } },
          }),
        );
      }
      return data.length;
    },
  },
  cancel: {
    verb: 'Cancel deliveries',
    icon: Ban,
    danger: true,
    past: 'cancelled',
    text: 'Deliveries that wait end at once. Those that are being sent are not tried again. Dead deliveries stay. Only a replay of the messages sends them again.',
    run: async (chosen) => {
      if (chosen.ep === undefined) {
        const { cancelled, requested } = await ok(
          api.POST('/api/v1/app/{app_id}/msg/{msg_id}/cancel', { params: { path: messagePath(chosen) } }),
        );
        return cancelled + requested;
      }
      await ok(
        api.POST('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/cancel', {
          params: { path: deliveryPath(chosen) },
        }),
      );
      return 1;
    },
  },
  retry: {
    verb: 'Retry now',
    icon: RotateCw,
    past: 'due now',
    text: 'Waiting deliveries are due now. Dead ones become pending again, with fresh attempts.',
    run: async (chosen) => {
      await ok(
        api.POST('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/retry-now', {
          params: { path: deliveryPath(chosen) },
        }),
      );
      return 1;
    },
  },
  dismiss: {
    verb: 'Dismiss',
    icon: CircleSlash,
    danger: true,
    past: 'dismissed',
    text: 'The deliveries end as cancelled, and no redrive finds them any more. It cannot be undone.',
    run: async (chosen) => {
      await ok(
        api.POST('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/dismiss', {
          params: { path: deliveryPath(chosen) },
        }),
      );
      return 1;
    },
  },
} satisfies Record<string, Work>;

export type WorkKind = keyof typeof works;

/** Whether the key may do any bulk work: all of it needs the same right. */
export const useMayWork = () => useMay('POST /api/v1/app/{app_id}/msg/{msg_id}/cancel');

/** The actions for the selected rows of a list, with their dialogs. */
export function ChosenBar({
  noun,
  kinds,
  rows,
  clear,
}: {
  noun: string;
  kinds: WorkKind[];
  rows: Chosen[];
  clear: () => void;
}) {
  const [kind, setKind] = useState<WorkKind | null>(null);
  const [one, many] = nounsOf(noun);
  const close = () => {
    setKind(null);
    clear();
  };
  return (
    <>
      <BulkBar count={rows.length} noun={rows.length === 1 ? one : many} onClear={clear}>
        {kinds.map((name) => {
          const { verb, icon, danger }: Work = works[name];
          return (
            <Button key={name} kind={danger ? 'danger' : 'primary'} size="sm" icon={icon} onClick={() => setKind(name)}>
              {verb}
            </Button>
          );
        })}
      </BulkBar>
      {kind && <WorkDialog kind={kind} noun={noun} rows={rows} onClose={close} />}
    </>
  );
}

const nounsOf = (noun: string): [string, string] => [noun, noun === 'delivery' ? 'deliveries' : `${noun}s`];

export function WorkDialog({
  kind,
  noun = 'message',
  rows,
  onClose,
}: {
  kind: WorkKind;
  noun?: string;
  rows: Chosen[];
  onClose: () => void;
}) {
  const { verb, danger, past, text, run }: Work = works[kind];
  const [progress, setProgress] = useState<Progress | null>(null);
  const [running, setRunning] = useState(false);
  const objects = plural(rows.length, ...nounsOf(noun));
  const start = async () => {
    setRunning(true);
    const state: Progress = { done: 0, deliveries: 0, failed: [] };
    for (const chosen of rows) {
      try {
        state.deliveries += await run(chosen);
      } catch (error) {
        state.failed.push(`${chosen.msg}: ${messageOf(error)}`);
      }
      state.done += 1;
      setProgress({ ...state });
    }
    setRunning(false);
    for (const name of ['deliveries', 'attempts', 'messages', 'overview'])
      void queryClient.invalidateQueries({ queryKey: [name] });
    if (state.failed.length === 0) {
      toast(`${verb}: ${objects}`, { text: `${plural(state.deliveries, 'delivery', 'deliveries')} ${past}.` });
      onClose();
    }
  };
  const footer = (
    <>
      <Button onClick={onClose} disabled={running}>
        {progress ? 'Close' : 'Back'}
      </Button>
      <Button kind={danger ? 'danger' : 'primary'} submit busy={running} disabled={progress !== null && !running}>
        {verb === 'Replay' ? `Replay ${objects}` : verb}
      </Button>
    </>
  );
  return (
    <Dialog
      open
      onClose={() => !running && onClose()}
      title={
        kind === 'cancel' && noun === 'message'
          ? `Cancel deliveries of ${objects}`
          : `${verb.split(' ')[0] ?? verb} ${objects}${kind === 'retry' ? ' now' : ''}`
      }
      footer={footer}
      onSubmit={() => void start()}
    >
      <p>{text}</p>
      {progress && (
        <div className="stack g8">
          <Meter share={progress.done / rows.length} label={`${progress.done} of ${rows.length}`} />
          <span className="s12 t2">
            {progress.done} of {objects}, {plural(progress.deliveries, 'delivery', 'deliveries')} {past}
          </span>
        </div>
      )}
      {progress && progress.failed.length > 0 && (
        <Callout look="dead" title={`${plural(progress.failed.length, ...nounsOf(noun))} failed`}>
          {progress.failed.slice(0, 3).join('; ')}
        </Callout>
      )}
    </Dialog>
  );
}
