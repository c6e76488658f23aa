// Lists of messages without a row.

import { Send } from 'lucide-react';
import { curl } from '../../lib/text';
import { Button } from '../../ui/controls';
import { Empty } from '../../ui/status';
import { useUrl } from '../../url';
import { filterNames } from './message-filters';

export function NoApp() {
  return (
    <Empty
      title="No application yet"
      command={curl({ method: 'POST', url: `${location.origin}/api/v1/app`, body: '{"name":"Acme","uid":"acme"}' })}
    >
      An application is a customer of yours. It owns endpoints and messages.
    </Empty>
  );
}

export function NoMessages({ app, filtered, onSend }: { app: string; filtered: boolean; onSend?: () => void }) {
  const [, setUrl] = useUrl();
  if (filtered) {
    return (
      <Empty
        title="No messages match"
        action={
          <Button onClick={() => setUrl(Object.fromEntries(filterNames.map((name) => [name, undefined])))}>
            Clear filters
          </Button>
        }
      >
        The filters hide every message of this list.
      </Empty>
    );
  }
  return (
    <Empty
      title="No messages yet"
      command={curl({
        method: 'POST',
        url: `${location.origin}/api/v1/app/${app}/msg`,
        body: '{"eventType":"invoice.paid","payload":{"id":"inv_1"}}',
      })}
      action={
        onSend && (
          <Button icon={Send} onClick={onSend}>
            Send message
          </Button>
        )
      }
    >
      A message is an event with a payload. Every endpoint that matches gets it.
    </Empty>
  );
}

/** A search reads a bounded number of messages, and may find none of them. */
export function Searched({ go, all }: { go: () => void; all?: boolean }) {
  return (
    <Empty title="No match so far" action={<Button onClick={go}>Search older messages</Button>}>
      The search stopped after a bounded number of messages, and older ones may match.{' '}
      {all ? 'Choose an application to search faster.' : 'A time range makes it faster.'}
    </Empty>
  );
}
