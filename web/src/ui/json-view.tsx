// A payload as a tree or as text. Every character is a text node.

import { useMemo, useState, type ReactNode } from 'react';
import { foldedBelow, parseLossless, toText, treeLines, type Token } from '../lib/json';
import { byteLength, bytes, count } from '../lib/text';
import { CopyButton, useCopy } from './atoms';
import { Button, Seg } from './controls';

const TREE_BYTES_MAX = 256_000;
const LINES_STEP = 500;
const RAW_STEP = 32_000;

const classes: Record<Token['kind'], string> = {
  key: 'k',
  string: 'v-s',
  number: 'v-n',
  atom: 'v-b',
  mark: 'p',
  comment: 'cm',
};

export function JsonTree({ value }: { value: unknown }) {
  const [shut, setShut] = useState(() => foldedBelow(value, 3));
  const [limit, setLimit] = useState(LINES_STEP);
  const [copied, copy] = useCopy();
  const lines = useMemo(() => treeLines(value, shut), [value, shut]);
  const toggle = (path: string) => {
    const next = new Set(shut);
    if (!next.delete(path)) next.add(path);
    setShut(next);
  };
  return (
    <div className="json" role="group" aria-label="Payload" tabIndex={0}>
      {lines.slice(0, limit).map((line, index) => (
        <div key={index} title={copied ? 'Path copied' : line.path} onDoubleClick={() => copy(line.path)}>
          {line.fold && (
            <button
              type="button"
              className={`f ${line.fold === 'shut' ? 'shut' : ''}`}
              aria-expanded={line.fold === 'open'}
              aria-label={`Fold ${line.path}`}
              onClick={() => toggle(line.path)}
            />
          )}
          {'  '.repeat(line.depth)}
          {line.tokens.map((token, at) => (
            <span key={at} className={classes[token.kind]}>
              {token.text}
            </span>
          ))}
        </div>
      ))}
      {lines.length > limit && (
        <Button size="sm" onClick={() => setLimit(limit + LINES_STEP)}>
          Show more of {count(lines.length)} lines
        </Button>
      )}
    </div>
  );
}

/** Text in slices, so that a large body does not stall the page. */
export function RawText({ text, label }: { text: string; label: string }) {
  const [limit, setLimit] = useState(RAW_STEP);
  return (
    <>
      <div className="bodybox" role="group" tabIndex={0} aria-label={label}>
        {text.slice(0, limit)}
      </div>
      {text.length > limit && (
        <Button size="sm" onClick={() => setLimit(limit + RAW_STEP)}>
          Show more of {bytes(byteLength(text))}
        </Button>
      )}
    </>
  );
}

/** A payload with its size, a choice of view, and copying. `value` may hold lossless numbers. */
export function Payload({
  value,
  view,
  onView,
  title = 'Payload',
  note,
  extra,
}: {
  value: unknown;
  view?: string;
  onView?: (view: 'tree' | 'raw') => void;
  title?: string;
  note?: ReactNode;
  extra?: ReactNode;
}) {
  const [own, setOwn] = useState<'tree' | 'raw'>('tree');
  const text = useMemo(() => (typeof value === 'string' ? value : toText(value)), [value]);
  const size = useMemo(() => byteLength(typeof value === 'string' ? value : toText(value, 0)), [value]);
  const parsed = useMemo(() => (typeof value === 'string' ? parseLossless(value) : value), [value]);
  const canTree = parsed !== undefined && size <= TREE_BYTES_MAX;
  const shown = !canTree ? 'raw' : ((onView ? view : own) ?? 'tree');
  return (
    <div className="card line clip">
      <header>
        <h2>{title}</h2>
        <span className="sub">
          {bytes(size)}
          {note && <> · {note}</>}
        </span>
        <span className="push row">
          {canTree && (
            <Seg
              small
              label="View"
              value={shown === 'raw' ? 'raw' : 'tree'}
              options={[
                ['tree', 'Tree'],
                ['raw', 'Raw'],
              ]}
              onChange={onView ?? setOwn}
            />
          )}
          <CopyButton text={text} label={`Copy ${title.toLowerCase()}`} />
          {extra}
        </span>
      </header>
      <div className="payload">
        {shown === 'tree' ? <JsonTree value={parsed} /> : <RawText text={text} label={title} />}
      </div>
    </div>
  );
}
