// Chat endpoints: platforms, and the text of a message as a form. Pure.

export const kinds = [
  ['http', 'Webhook'],
  ['slack', 'Slack'],
  ['discord', 'Discord'],
  ['teams', 'Microsoft Teams'],
  ['google-chat', 'Google Chat'],
  ['feishu', 'Feishu'],
  ['lark', 'Lark'],
  ['dingtalk', 'DingTalk'],
  ['wecom', 'WeCom'],
] as const;

const signed = new Set(['dingtalk', 'feishu', 'lark']);
const roomsOnly = new Set(['discord', 'google-chat']);

export const isChat = (kind: string | null | undefined): kind is string => Boolean(kind) && kind !== 'http';
/** Whether the webhook of a platform can have a secret. */
export const hasSecret = (kind: string): boolean => signed.has(kind);
/** Whether a chat app can write to single people. */
export const hasPeople = (kind: string): boolean => !roomsOnly.has(kind);
export const kindText = (kind: string): string => kinds.find(([key]) => key === kind)?.[1] ?? kind;

export type ChatTemplate = {
  title?: string | null;
  description?: string | null;
  level?: string | null;
  link?: string | null;
  mentions?: string[] | null;
  fields?: { name: string; value: string }[] | null;
};
export type Chat = {
  language?: string | null;
  template?: ChatTemplate | null;
  eventTypes?: Record<string, ChatTemplate> | null;
  secret?: string | null;
  people?: string | null;
};

export type ChatForm = {
  title: string;
  description: string;
  level: string;
  link: string;
  mentions: string;
  fields: string;
  language: string;
  secret: string;
  people: string;
};

export const emptyChat: ChatForm = {
  title: '',
  description: '',
  level: '',
  link: '',
  mentions: '',
  fields: '',
  language: 'en',
  secret: '',
  people: '',
};

export function chatForm(chat: Chat | null | undefined): ChatForm {
  const { title, description, level, link, mentions, fields } = chat?.template ?? {};
  return {
    title: title ?? '',
    description: description ?? '',
    level: level ?? '',
    link: link ?? '',
    mentions: (mentions ?? []).join(', '),
    fields: (fields ?? []).map(({ name, value }) => `${name}: ${value}`).join('\n'),
    language: chat?.language ?? 'en',
    secret: '',
    people: chat?.people ?? '',
  };
}

/** Lines such as `Amount: {{ payload.amount }}`; null if one has no colon. */
export function parseFields(text: string): { name: string; value: string }[] | null {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  const fields = lines.map((line) => ({
    name: line.slice(0, Math.max(0, line.indexOf(':'))).trim(),
    value: line.slice(line.indexOf(':') + 1).trim(),
  }));
  return fields.every(({ name, value }) => name && value) ? fields : null;
}

/** The body of a change. Empty texts are left to the defaults; an empty secret keeps the stored one. */
export function chatBody(form: ChatForm, stored?: Chat | null): Chat {
  const some = (text: string) => text.trim() || undefined;
  const mentions = form.mentions.split(/[\s,]+/).filter(Boolean);
  const fields = parseFields(form.fields) ?? [];
  const template = {
    title: some(form.title),
    description: some(form.description),
    level: some(form.level),
    link: some(form.link),
    mentions: mentions.length ? mentions : undefined,
    fields: fields.length ? fields : undefined,
  };
  const types = stored?.eventTypes && Object.keys(stored.eventTypes).length ? { eventTypes: stored.eventTypes } : {};
  // Null removes the people of an endpoint that has some.
  const people = form.people.trim() ? { people: form.people.trim() } : stored?.people ? { people: null } : {};
  return {
    language: form.language,
    template: Object.fromEntries(Object.entries(template).filter(([, value]) => value !== undefined)),
    ...types,
    ...people,
    ...(form.secret.trim() ? { secret: form.secret.trim() } : {}),
  };
}
