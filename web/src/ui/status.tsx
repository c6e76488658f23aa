// What a part of a page shows while it loads, when it is empty, and when it failed.

import { Inbox } from 'lucide-react';
import { useEffect, useState, type ComponentType, type ReactNode } from 'react';
import type { UseQueryResult } from '@tanstack/react-query';
import { ApiFailure, messageOf } from '../api/client';
import type { Look } from '../lib/state';
import { Glyph } from './atoms';
import { Button } from './controls';
import { Snippet } from './snippet';

export function Callout({
  look,
  title,
  children,
  action,
}: {
  look: Look;
  title: ReactNode;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className={`callout st-${look}`} role={look === 'dead' ? 'alert' : undefined}>
      <Glyph look={look} />
      <div className="grow">
        {title}
        {children && <small>{children}</small>}
      </div>
      {action}
    </div>
  );
}

/** Nothing for 150 ms, then lines in the height of the rows. */
export function Skeleton({ rows = 8 }: { rows?: number }) {
  const [visible, setVisible] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setVisible(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="skels" aria-busy="true" aria-label="Loading" role="status">
      {visible &&
        Array.from({ length: rows }, (_, index) => (
          <span key={index} className="skelrow">
            <i className="skel" style={{ width: `${12 + ((index * 7) % 9)}%` }} />
            <i className="skel" style={{ width: `${22 + ((index * 11) % 17)}%` }} />
            <i className="skel" style={{ width: `${10 + ((index * 5) % 12)}%` }} />
          </span>
        ))}
    </div>
  );
}

export function Empty({
  icon: Icon = Inbox,
  title,
  children,
  command,
  action,
}: {
  icon?: ComponentType<{ className?: string }>;
  title: string;
  children?: ReactNode;
  command?: string;
  action?: ReactNode;
}) {
  return (
    <div className="empty">
      <Icon className="i" />
      <b>{title}</b>
      {children && <p>{children}</p>}
      {command && (
        <div className="empty-cmd">
          <Snippet text={command} label="Command" />
        </div>
      )}
      {action}
    </div>
  );
}

/** The words of the server, and what to do. */
export function Failure({ error, retry, what = 'This part' }: { error: unknown; retry?: () => void; what?: string }) {
  const status = error instanceof ApiFailure ? error.status : 0;
  return (
    <div className="failure">
      <Callout
        look="dead"
        title={messageOf(error)}
        action={
          retry && (
            <Button size="sm" onClick={retry}>
              Try again
            </Button>
          )
        }
      >
        {advice(status, what)}
      </Callout>
    </div>
  );
}

function advice(status: number, what: string): string {
  if (status === 0) return `${what} shows again when the server answers.`;
  if (status === 403) return 'Your key has no rights for it. Sign in with a key that has.';
  if (status === 404) return `${what} was not found. It may be deleted, or belong to another environment.`;
  if (status === 501 || status === 405) return `This server does not offer ${what.toLowerCase()}.`;
  if (status === 503) return 'The server is not ready. GET /api/v1/health/ready names the reason.';
  return `The server answered ${status}.`;
}

/** The three states of a query, and its data. Data that is there stays while it refreshes or fails. */
export function Loaded<T>({
  query,
  what,
  rows,
  children,
}: {
  query: UseQueryResult<T>;
  what?: string;
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) {
    return (
      <>
        {query.isError && <Failure error={query.error} retry={() => void query.refetch()} what={what} />}
        {children(query.data)}
      </>
    );
  }
  if (query.isError) return <Failure error={query.error} retry={() => void query.refetch()} what={what} />;
  return <Skeleton rows={rows} />;
}
