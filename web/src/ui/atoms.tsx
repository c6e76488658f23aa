// The smallest parts: states, ids, URLs, tags and copying.

import { Check, Copy, TriangleAlert } from 'lucide-react';
import { useEffect, useState, type ReactNode } from 'react';
import { shortId, urlParts } from '../lib/text';
import type { Chip, Look, Shown } from '../lib/state';

export function Glyph({ look }: { look: Look }) {
  return <i className={`g g-${look} st-${look}`} aria-hidden="true" />;
}

/** The state of an object in its header. */
export function Badge({ look, word, size }: Shown & { size?: 'sm' | 'lg' }) {
  return (
    <span className={`badge st-${look} ${size ?? ''}`}>
      <Glyph look={look} />
      {word}
    </span>
  );
}

/** The state of an object in a table. */
export function StateText({ look, word, plain }: Shown & { plain?: boolean }) {
  const quiet = plain ?? (look === 'delivered' || look === 'cancelled' || look === 'unmatched');
  return (
    <span className={`stt st-${look} ${quiet ? 'plain' : ''}`}>
      <Glyph look={look} />
      {word}
    </span>
  );
}

export function Fan({ chips }: { chips: Chip[] }) {
  if (chips.length === 0) {
    return (
      <span className="fan">
        <span className="st-unmatched">
          <Glyph look="unmatched" />
          unmatched
        </span>
      </span>
    );
  }
  return (
    <span className="fan">
      {chips.map(({ look, number, word }) => (
        <span key={look} className={`st-${look}`}>
          <Glyph look={look} />
          {number} {word || <span className="sr">delivered</span>}
        </span>
      ))}
    </span>
  );
}

export function Tags({ names }: { names?: string[] | null }) {
  return (names ?? []).map((name) => (
    <span key={name} className="tag">
      {name}
    </span>
  ));
}

/** A status code or an error class. */
export function Code({ children, bad }: { children: ReactNode; bad?: boolean }) {
  return <span className={`code ${bad ? 'st-dead' : ''}`}>{children}</span>;
}

export function Kbd({ children }: { children: ReactNode }) {
  return (
    <span className="kbd" aria-hidden="true">
      {children}
    </span>
  );
}

/** An id, shortened at the left, with a button that copies all of it. */
export function Id({ id, whole, copy = true }: { id: string; whole?: boolean; copy?: boolean }) {
  return (
    <span className="idc">
      <span className="id" title={id}>
        {whole ? id : shortId(id)}
      </span>
      {copy && <CopyButton text={id} label={`Copy ${id}`} />}
    </span>
  );
}

/** The host strong, the path muted, the scheme only if it is unsafe. Never a link: the customer chose the URL. */
export function Url({ url }: { url: string }) {
  const { insecure, host, path } = urlParts(url);
  return (
    <span className="url" title={url}>
      {insecure && (
        <span className="url-http" title="http: the request is not encrypted">
          <TriangleAlert className="i xs" aria-hidden="true" />
          <span className="sr">unencrypted</span>
        </span>
      )}
      <span className="url-host">{host}</span>
      <span className="url-path">{path}</span>
    </span>
  );
}

/** Copies a text, and says so for a moment. */
export function useCopy(): [copied: boolean, copy: (text: string) => void] {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  return [copied, (text) => void copyText(text).then(() => setCopied(true))];
}

/** `navigator.clipboard` exists only on HTTPS and localhost; a hidden field works elsewhere. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'sr';
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
  return undefined;
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [copied, copy] = useCopy();
  return (
    <button
      type="button"
      className="btn ghost icon sm copy"
      aria-label={copied ? 'Copied' : label}
      title={copied ? 'Copied' : label}
      onClick={(event) => {
        event.stopPropagation();
        event.preventDefault();
        copy(text);
      }}
    >
      {copied ? <Check className="i s" aria-hidden="true" /> : <Copy className="i s" aria-hidden="true" />}
    </button>
  );
}
