// The navigation: groups of screens that the server offers.

import {
  Bell,
  Boxes,
  Building2,
  CalendarClock,
  Database,
  Fingerprint,
  Inbox,
  KeyRound,
  Layers,
  LayoutDashboard,
  ListChecks,
  ListTodo,
  MailX,
  ScrollText,
  Server,
  Settings,
  Tag,
  Webhook,
  type LucideIcon,
} from 'lucide-react';
import { screens, type Screen } from '../capabilities';

export type Entry = {
  screen: Screen;
  to: string;
  label: string;
  icon: LucideIcon;
  key?: string;
  /** Needs an admin key. */ admin?: boolean;
  /** The read that the screen is about, if not every key may call it. */ reads?: string;
};
export type Group = { title: string; entries: Entry[] };

const all: Group[] = [
  { title: '', entries: [{ screen: 'overview', to: '/overview', label: 'Overview', icon: LayoutDashboard, key: 'o' }] },
  {
    title: 'Webhooks',
    entries: [
      { screen: 'messages', to: '/messages', label: 'Messages', icon: Inbox, key: 'm' },
      { screen: 'endpoints', to: '/endpoints', label: 'Endpoints', icon: Webhook, key: 'e' },
      { screen: 'dead', to: '/dead', label: 'Dead letters', icon: MailX, key: 'd' },
      { screen: 'apps', to: '/apps', label: 'Applications', icon: Building2, key: 'a' },
      { screen: 'eventTypes', to: '/event-types', label: 'Event types', icon: Tag, key: 't' },
      { screen: 'once', to: '/once', label: 'Once-slots', icon: Fingerprint },
      { screen: 'outboxes', to: '/outboxes', label: 'Outboxes', icon: Database, admin: true },
    ],
  },
  {
    title: 'Jobs',
    entries: [
      { screen: 'jobs', to: '/jobs', label: 'Jobs', icon: ListTodo, key: 'j' },
      { screen: 'queues', to: '/queues', label: 'Queues', icon: Layers, key: 'q' },
      { screen: 'schedules', to: '/schedules', label: 'Schedules', icon: CalendarClock, key: 's' },
      { screen: 'batches', to: '/batches', label: 'Batches', icon: Boxes, key: 'b' },
    ],
  },
  {
    title: 'Operate',
    entries: [
      { screen: 'alerts', to: '/alerts', label: 'Alerts', icon: Bell },
      { screen: 'bulk', to: '/bulk', label: 'Bulk tasks', icon: ListChecks },
      { screen: 'nodes', to: '/nodes', label: 'Nodes', icon: Server, key: 'n', admin: true },
      { screen: 'keys', to: '/keys', label: 'Keys', icon: KeyRound, reads: 'GET /api/v1/key' },
      { screen: 'audit', to: '/audit', label: 'Audit log', icon: ScrollText, reads: 'GET /api/v1/audit' },
      { screen: 'settings', to: '/settings', label: 'Settings', icon: Settings },
    ],
  },
];

export const groups: Group[] = all
  .map(({ title, entries }) => ({ title, entries: entries.filter(({ screen }) => screens[screen]) }))
  .filter(({ entries }) => entries.length > 0);

export const entries: Entry[] = groups.flatMap((group) => group.entries);

/** The tab bar of narrow screens. */
export const narrowEntries: Entry[] = entries.filter(({ screen }) =>
  ['overview', 'messages', 'endpoints', 'dead'].includes(screen),
);
