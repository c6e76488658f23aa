// Chat apps: which members an app of a platform has, and its form. Pure.

import { kinds } from './chat';

export type ChatApp = {
  kind: string;
  clientId?: string | null;
  tenantId?: string | null;
  agentId?: number | null;
  apiUrl?: string | null;
};
export type AppForm = {
  kind: string;
  clientId: string;
  tenantId: string;
  agentId: string;
  secret: string;
  apiUrl: string;
};

type Member = 'clientId' | 'tenantId' | 'agentId' | 'secret';
type Label = { label: string; hint?: string };

/** The members of each platform, in the order of its own console. */
const members: Record<string, Partial<Record<Member, Label>>> = {
  slack: { secret: { label: 'Bot token', hint: 'Begins with xoxb-. The bot needs users:read.email and chat:write' } },
  teams: {
    clientId: { label: 'Bot id' },
    tenantId: { label: 'Tenant id' },
    secret: { label: 'Client secret', hint: 'The bot needs User.Read.All, and must be installed for the people' },
  },
  feishu: {
    clientId: { label: 'App id' },
    secret: { label: 'App secret', hint: 'The app needs im:message:send_as_bot' },
  },
  lark: {
    clientId: { label: 'App id' },
    secret: { label: 'App secret', hint: 'The app needs im:message:send_as_bot' },
  },
  wecom: {
    clientId: { label: 'Corp id' },
    agentId: { label: 'Agent id' },
    secret: { label: 'Secret', hint: 'The members must be visible to the app' },
  },
  dingtalk: {
    clientId: { label: 'App key' },
    agentId: { label: 'Agent id' },
    secret: { label: 'App secret', hint: 'The app needs the look-up by mobile number, and work notices' },
  },
};

/** The platforms that can have an app, without those that have one. */
export const freeKinds = (taken: string[]): (readonly [string, string])[] =>
  kinds.filter(([kind]) => kind in members && !taken.includes(kind));

export const membersOf = (kind: string): [Member, Label][] => Object.entries(members[kind] ?? {}) as [Member, Label][];

/** People are found by e-mail; DingTalk finds them by phone number. */
export const addressLabel = (kind: string): string => (kind === 'dingtalk' ? 'Phone number' : 'E-mail address');

export const appForm = (kind: string, app?: ChatApp): AppForm => ({
  kind,
  clientId: app?.clientId ?? '',
  tenantId: app?.tenantId ?? '',
  agentId: app?.agentId === undefined || app.agentId === null ? '' : String(app.agentId),
  secret: '',
  apiUrl: app?.apiUrl ?? '',
});

/** The first missing member, or a number that is none; a stored secret may stay empty. */
export function formError(form: AppForm, stored: boolean): { member: string; text: string } | null {
  for (const [member, { label }] of membersOf(form.kind)) {
    const value = form[member].trim();
    if (value === '' && !(member === 'secret' && stored)) return { member, text: `${label} is required` };
    if (member === 'agentId' && !/^\d{1,15}$/.test(value)) return { member, text: `${label} must be a whole number` };
  }
  return null;
}

/** Only the members of the platform are sent. Without a secret, a stored app keeps its own. */
export function appBody(form: AppForm): Record<string, string | number> {
  const body: Record<string, string | number> = {};
  for (const [member] of membersOf(form.kind)) {
    const value = form[member].trim();
    if (value !== '') body[member] = member === 'agentId' ? Number(value) : value;
  }
  if (form.apiUrl.trim()) body.apiUrl = form.apiUrl.trim();
  return body;
}
