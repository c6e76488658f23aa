// A screen that this server does not offer. Never fake data.

import { useRouterState } from '@tanstack/react-router';
import { Page } from '../ui/page';
import { Empty } from '../ui/status';

const names: Record<string, string> = { '/keys': 'Keys', '/audit': 'Audit log' };

export default function Missing() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const name = names[path] ?? 'This screen';
  return (
    <Page title={name}>
      <Empty title={`This server does not offer ${name.toLowerCase()}`}>Its API has no route for it.</Empty>
    </Page>
  );
}
