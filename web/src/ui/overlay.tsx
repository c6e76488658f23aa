// Dialogs, confirmations and menus.

import { X } from 'lucide-react';
import { Dialog as RadixDialog, DropdownMenu } from 'radix-ui';
import { useState, type ComponentType, type FormEvent, type ReactNode } from 'react';
import { messageOf } from '../api/client';
import { Button, IconButton, TextField } from './controls';
import { Callout } from './status';

type DialogProps = {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  footer: ReactNode;
  wide?: boolean;
  onSubmit?: () => void;
};

export function Dialog({ open, onClose, title, children, footer, wide, onSubmit }: DialogProps) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSubmit?.();
  };
  return (
    <RadixDialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className="scrim mid">
          <RadixDialog.Content className={`dlg ${wide ? 'wide' : ''}`} aria-describedby={undefined} asChild>
            <form onSubmit={submit} noValidate>
              <header>
                <RadixDialog.Title asChild>
                  <h2>{title}</h2>
                </RadixDialog.Title>
                <RadixDialog.Close asChild>
                  <IconButton icon={X} label="Close" size="sm" className="push" />
                </RadixDialog.Close>
              </header>
              <div className="in">{children}</div>
              <footer>{footer}</footer>
            </form>
          </RadixDialog.Content>
        </RadixDialog.Overlay>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  );
}

type ConfirmProps = {
  open: boolean;
  onClose: () => void;
  title: string;
  verb: string;
  children: ReactNode;
  danger?: boolean;
  /** A name that must be typed before the button works. */
  typed?: string;
  run: () => Promise<unknown>;
};

/** States what happens, to how many, and whether it can be undone. The button repeats the verb. */
export function Confirm({ open, onClose, title, verb, children, danger, typed, run }: ConfirmProps) {
  const [busy, setBusy] = useState(false);
  const [text, setText] = useState('');
  const [error, setError] = useState<string | null>(null);
  const close = () => {
    setText('');
    setError(null);
    onClose();
  };
  const submit = () => {
    if (typed !== undefined && text !== typed) return;
    setBusy(true);
    setError(null);
    run()
      .then(close)
      .catch((reason: unknown) => setError(messageOf(reason)))
      .finally(() => setBusy(false));
  };
  const footer = (
    <>
      <Button onClick={close} autoFocus={danger}>
        Keep
      </Button>
      <Button
        kind={danger ? 'danger-solid' : 'primary'}
        submit
        busy={busy}
        disabled={typed !== undefined && text !== typed}
      >
        {verb}
      </Button>
    </>
  );
  return (
    <Dialog open={open} onClose={close} title={title} footer={footer} onSubmit={submit}>
      <div>{children}</div>
      {typed !== undefined && <TextField label={`Type ${typed} to confirm`} value={text} onChange={setText} mono />}
      {error && <Callout look="dead" title={error} />}
    </Dialog>
  );
}

export type MenuItem =
  | { label: string; icon?: ComponentType<{ className?: string }>; run: () => void; danger?: boolean; hint?: string }
  | 'line';

export function Menu({
  trigger,
  items,
  align = 'end',
}: {
  trigger: ReactNode;
  items: MenuItem[];
  align?: 'start' | 'end';
}) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align={align} sideOffset={4} collisionPadding={8}>
          {items.map((item, index) =>
            item === 'line' ? (
              <DropdownMenu.Separator key={`line-${index}`} className="menu-line" />
            ) : (
              <DropdownMenu.Item
                key={item.label}
                className={`menu-item ${item.danger ? 'danger' : ''}`}
                onSelect={item.run}
              >
                {item.icon && <item.icon className="i" />}
                {item.label}
                {item.hint && <span className="push">{item.hint}</span>}
              </DropdownMenu.Item>
            ),
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
