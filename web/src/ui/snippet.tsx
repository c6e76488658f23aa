// Commands and code to copy. Text only.

import { CopyButton } from './atoms';

export function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <div className="snip">
      <CopyButton text={text} label={`Copy ${label.toLowerCase()}`} />
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
    </div>
  );
}
