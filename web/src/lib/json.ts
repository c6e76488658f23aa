// JSON as lines of a tree. Numbers keep their digits, and every part is text.

import { isLosslessNumber, parse, stringify } from 'lossless-json';

/** Parses without rounding numbers. Returns undefined for text that is not JSON. */
export function parseLossless(text: string): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

/** Serializes with all digits, indented unless `indent` is 0. */
export function toText(value: unknown, indent = 2): string {
  return stringify(value, undefined, indent) ?? '';
}

export type Token = { kind: 'key' | 'string' | 'number' | 'atom' | 'mark' | 'comment'; text: string };
export type Line = { path: string; depth: number; tokens: Token[]; fold?: 'open' | 'shut' };

/** Lines of a value. `shut` holds the paths of folded objects and lists. */
export function treeLines(value: unknown, shut: ReadonlySet<string>): Line[] {
  const lines: Line[] = [];
  walk(value, { path: '$', depth: 0, lead: [], comma: false });
  return lines;

  function walk(node: unknown, at: { path: string; depth: number; lead: Token[]; comma: boolean }) {
    const { path, depth, lead, comma } = at;
    const end = comma ? [mark(',')] : [];
    const entries = entriesOf(node);
    if (!entries) {
      lines.push({ path, depth, tokens: [...lead, scalar(node), ...end] });
      return;
    }
    const [open, close] = Array.isArray(node) ? ['[', ']'] : ['{', '}'];
    if (entries.length === 0) {
      lines.push({ path, depth, tokens: [...lead, mark(`${open}${close}`), ...end] });
    } else if (shut.has(path)) {
      const noun = Array.isArray(node) ? 'item' : 'key';
      const size: Token = { kind: 'comment', text: `  ${entries.length} ${noun}${entries.length === 1 ? '' : 's'}` };
      lines.push({ path, depth, fold: 'shut', tokens: [...lead, mark(`${open} … ${close}`), ...end, size] });
    } else {
      lines.push({ path, depth, fold: 'open', tokens: [...lead, mark(open)] });
      entries.forEach(([key, child], index) => {
        const inner = Array.isArray(node) ? `${path}[${key}]` : `${path}${member(key)}`;
        const name: Token[] = Array.isArray(node) ? [] : [{ kind: 'key', text: JSON.stringify(key) }, mark(': ')];
        walk(child, { path: inner, depth: depth + 1, lead: name, comma: index < entries.length - 1 });
      });
      lines.push({ path, depth, tokens: [mark(close), ...end] });
    }
  }
}

const mark = (text: string): Token => ({ kind: 'mark', text });

const member = (key: string) => (/^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`);

function entriesOf(node: unknown): [string, unknown][] | null {
  if (Array.isArray(node)) return node.map((child, index) => [String(index), child]);
  if (typeof node !== 'object' || node === null || isLosslessNumber(node)) return null;
  return Object.entries(node);
}

function scalar(node: unknown): Token {
  if (typeof node === 'string') return { kind: 'string', text: JSON.stringify(node) };
  if (isLosslessNumber(node)) return { kind: 'number', text: node.toString() };
  if (typeof node === 'number' || typeof node === 'bigint') return { kind: 'number', text: String(node) };
  return { kind: 'atom', text: String(node) };
}

/** The paths to fold at first: everything below `depth`. */
export function foldedBelow(value: unknown, depth: number): Set<string> {
  const shut = new Set<string>();
  for (const line of treeLines(value, shut)) {
    if (line.fold && line.depth >= depth) shut.add(line.path);
  }
  return shut;
}
