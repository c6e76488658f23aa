// Replay: sends messages to their endpoints again.

import { useState } from 'react';
import { api, messageOf, ok } from '../../api/client';
import { queryClient } from '../../api/queries';
import { plural } from '../../lib/text';
import { Button } from '../../ui/controls';
import { Meter } from '../../ui/figures';
import { Dialog } from '../../ui/overlay';
import { Callout } from '../../ui/status';
import { toast } from '../../ui/toast';

/** A message in its application. */
export type Chosen = { app: string; msg: string };

type Progress = { done: number; sent: number; failed: string[] };

/** Resends every delivery of a message. Deliveries that are still open are not doubled: the server refuses those. */
async function replay({ app, msg }: Chosen): Promise<number> {
  const path = { app_id: app, msg_id: msg };
  const { data } = await ok(api.GET('/api/v1/app/{app_id}/msg/{msg_id}/endpoint', { params: { path, query: { limit: 250 } } }));
  for (const { id } of data) {
    await ok(api.POST('/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend', { params: { path: { ...path, endpoint_id: id } } }));
  }
  return data.length;
}

export function ReplayDialog({ messages, onClose }: { messages: Chosen[]; onClose: () => void }) {
  const [progress, setProgress] = useState<Progress | null>(null);
  const [running, setRunning] = useState(false);
  const run = async () => {
    setRunning(true);
    const state: Progress = { done: 0, sent: 0, failed: [] };
    for (const chosen of messages) {
      try {
        state.sent += await replay(chosen);
      } catch (error) {
        state.failed.push(`${chosen.msg}: ${messageOf(error)}`);
      }
      state.done += 1;
      setProgress({ ...state });
    }
    setRunning(false);
    for (const noun of ['deliveries', 'attempts', 'overview']) void queryClient.invalidateQueries({ queryKey: [noun] });
    if (state.failed.length === 0) {
      toast(`Replayed ${plural(messages.length, 'message')}`, { text: `${plural(state.sent, 'delivery', 'deliveries')} sent again.` });
      onClose();
    }
  };
  const noun = plural(messages.length, 'message');
  const footer = (
    <>
      <Button onClick={onClose} disabled={running}>
        {progress ? 'Close' : 'Cancel'}
      </Button>
      <Button kind="primary" submit busy={running} disabled={progress !== null && !running}>
        Replay {noun}
      </Button>
    </>
  );
  return (
    <Dialog open onClose={() => !running && onClose()} title={`Replay ${noun}`} footer={footer} onSubmit={() => void run()}>
      <p>
        Each endpoint that got {messages.length === 1 ? 'the message' : 'a message'} gets it again, with the same <span className="mono">webhook-id</span>. Receivers that check the id ignore the repetition. It cannot be undone.
      </p>
      {progress && (
        <div className="stack g8">
          <Meter share={progress.done / messages.length} label={`${progress.done} of ${messages.length}`} />
          <span className="s12 t2">
            {progress.done} of {noun}, {plural(progress.sent, 'delivery', 'deliveries')} sent
          </span>
        </div>
      )}
      {progress && progress.failed.length > 0 && (
        <Callout look="dead" title={`${plural(progress.failed.length, 'message')} failed`}>
          {progress.failed.slice(0, 3).join('; ')}
        </Callout>
      )}
    </Dialog>
  );
}
