// The list of shortcuts.

import { entries } from './nav';
import { Kbd } from '../ui/atoms';
import { Button } from '../ui/controls';
import { Dialog } from '../ui/overlay';

const fixed: [string, string][] = [
  ['Ctrl K', 'Search or paste an id'],
  ['/', 'Search in the list'],
  ['J K', 'Next and previous row'],
  ['O', 'Open the row in the panel'],
  ['Esc', 'Close the panel'],
  ['X', 'Select the row'],
  ['A', 'Select the page'],
  ['R', 'Replay, retry or redrive'],
  ['C', 'Copy as curl'],
  ['[ ]', 'Previous and next attempt'],
  ['.', 'Live updates on or off'],
];

export default function Shortcuts({ onClose }: { onClose: () => void }) {
  const all = [
    ...fixed,
    ...entries.flatMap(({ key, label }): [string, string][] => (key ? [[`G ${key.toUpperCase()}`, label]] : [])),
  ];
  return (
    <Dialog open onClose={onClose} title="Shortcuts" footer={<Button onClick={onClose}>Close</Button>}>
      <dl className="shortcuts">
        {all.map(([keys, text]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <Kbd key={key}>{key}</Kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
