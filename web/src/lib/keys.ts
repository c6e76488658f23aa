// API keys: scopes in words, and the ends that a form offers. Pure.

export const scopes = [
  ['read', 'Read', 'Sees everything but secrets'],
  ['write', 'Write', 'Sends messages and jobs, and manages applications and endpoints'],
  ['operate', 'Operate', 'Everything in this environment, also keys, redrives and policies'],
  ['admin', 'Admin', 'Everything in all environments'],
] as const;

export type ScopeName = (typeof scopes)[number][0];

const order: readonly string[] = ['read', 'write', 'operate', 'admin'];

/** The scopes that a key may grant: none above its own. */
export const grantable = (own: string): (typeof scopes)[number][] =>
  scopes.filter(([name]) => order.indexOf(name) <= order.indexOf(own));

export const scopeText = (name: string): string => scopes.find(([key]) => key === name)?.[1] ?? name;

export const lives = [
  ['', 'Never'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
  ['at', 'At a time'],
] as const;

/** The end of a key that a form asks for; null if the time cannot be read, undefined for a key without an end. */
export function endOf(life: string, at: string, now: number): string | null | undefined {
  if (life === '') return undefined;
  const time = life === 'at' ? Date.parse(at) : now + Number(life) * 86_400_000;
  return Number.isFinite(time) && time > now ? new Date(time).toISOString() : null;
}
