// Filters of lists. They live in the URL.

import { Command } from 'cmdk';
import { Building2, Check, ChevronDown, Plus, Search as SearchIcon, X } from 'lucide-react';
import { Popover } from 'radix-ui';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState, type FormEvent, type ReactNode } from 'react';
import { appsQuery, useAppName } from '../api/queries';
import { useKeys } from '../keys';
import { Button } from './controls';
import { Kbd } from './atoms';

export function FilterBar({ children, end }: { children: ReactNode; end?: ReactNode }) {
  return (
    <div className="filters" role="search">
      <div className="filters-in">{children}</div>
      {end && <span className="push row filters-end">{end}</span>}
    </div>
  );
}

/** A text filter that applies a moment after typing, or at once with Enter. */
export function SearchBox({
  value,
  onChange,
  placeholder,
}: {
  value: string;
  onChange: (value: string) => void;
  placeholder: string;
}) {
  const [text, setText] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const apply = useRef(onChange);
  useEffect(() => {
    apply.current = onChange;
  });
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => apply.current(text), 350);
    return () => clearTimeout(timer);
  }, [text, value]);
  useKeys({ '/': () => input.current?.focus() });
  return (
    <label className="search">
      <SearchIcon className="i s" aria-hidden="true" />
      <input
        ref={input}
        type="search"
        value={text}
        placeholder={placeholder}
        aria-label={placeholder}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === 'Enter' && onChange(text)}
      />
      <Kbd>/</Kbd>
    </label>
  );
}

type FilterProps = {
  name: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
  options?: readonly (readonly [string, string])[];
  hint?: string;
  type?: 'text' | 'datetime-local';
  show?: (value: string) => string;
  /** Why the list cannot be filtered by it now. */ blocked?: string;
};

/** A filter: a chip with its value, or a button that adds it. */
export function Filter({ name, value, onChange, options, hint, type = 'text', show, blocked }: FilterProps) {
  const [open, setOpen] = useState(false);
  const choose = (next: string | undefined) => {
    onChange(next || undefined);
    setOpen(false);
  };
  const label = value === undefined ? '' : (options?.find(([key]) => key === value)?.[1] ?? show?.(value) ?? value);
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      {value === undefined ? (
        <Popover.Trigger className="fadd">
          <Plus className="i xs" aria-hidden="true" />
          {name}
        </Popover.Trigger>
      ) : (
        <span className="fchip">
          <Popover.Trigger>
            <span className="op">{name}</span>
            <span className="val">{label}</span>
          </Popover.Trigger>
          <button type="button" aria-label={`Remove filter ${name}`} onClick={() => onChange(undefined)}>
            <X className="i xs" aria-hidden="true" />
          </button>
        </span>
      )}
      <Popover.Portal>
        <Popover.Content className="menu pop" align="start" sideOffset={4} collisionPadding={8}>
          {blocked ? (
            <p className="pop-none">{blocked}</p>
          ) : options ? (
            <Options name={name} options={options} value={value} choose={choose} />
          ) : (
            <TextForm name={name} value={value ?? ''} choose={choose} hint={hint} type={type} />
          )}
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Options({
  name,
  options,
  value,
  choose,
}: {
  name: string;
  options: readonly (readonly [string, string])[];
  value?: string;
  choose: (value: string) => void;
}) {
  return (
    <Command label={name}>
      {options.length > 8 && <Command.Input className="pop-q" placeholder={`Find ${name.toLowerCase()}`} autoFocus />}
      <Command.List>
        <Command.Empty className="pop-none">No match</Command.Empty>
        {options.map(([key, text]) => (
          <Command.Item key={key} value={`${text} ${key}`} onSelect={() => choose(key)} className="menu-item">
            {text}
            {key === value && <Check className="i s push" aria-hidden="true" />}
          </Command.Item>
        ))}
      </Command.List>
    </Command>
  );
}

function TextForm({
  name,
  value,
  choose,
  hint,
  type,
}: {
  name: string;
  value: string;
  choose: (value: string) => void;
  hint?: string;
  type: string;
}) {
  const [text, setText] = useState(value);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    choose(text.trim());
  };
  return (
    <form className="pop-form" onSubmit={submit}>
      <span className="inp">
        <input type={type} value={text} aria-label={name} autoFocus onChange={(event) => setText(event.target.value)} />
      </span>
      {hint && <span className="hint">{hint}</span>}
      <Button size="sm" submit kind="primary">
        Apply
      </Button>
    </form>
  );
}

/** The application of a list. Without `all`, one application is always chosen. */
export function AppPicker({
  app,
  onChange,
  all,
}: {
  app: string;
  onChange: (app: string | undefined) => void;
  all?: boolean;
}) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState('');
  const name = useAppName(app);
  const { data } = useQuery({ ...appsQuery({ limit: 250 }), enabled: open });
  const choose = (id: string | undefined) => {
    onChange(id);
    setOpen(false);
    setText('');
  };
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger className="btn ghost apppick">
        <Building2 className="i s" aria-hidden="true" />
        <span className="cut">{app ? name : 'All applications'}</span>
        <ChevronDown className="i xs" aria-hidden="true" />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content className="menu pop" align="start" sideOffset={4} collisionPadding={8}>
          <Command label="Applications">
            <Command.Input
              className="pop-q"
              placeholder="Name, id or uid"
              value={text}
              onValueChange={setText}
              autoFocus
            />
            <Command.List>
              {all && (
                <Command.Item value="all applications" className="menu-item" onSelect={() => choose(undefined)}>
                  All applications
                  {!app && <Check className="i s push" aria-hidden="true" />}
                </Command.Item>
              )}
              {data?.data.map((one) => (
                <Command.Item
                  key={one.id}
                  value={`${one.name} ${one.uid ?? ''} ${one.id}`}
                  className="menu-item"
                  onSelect={() => choose(one.id)}
                >
                  <span className="cut">{one.name}</span>
                  {one.id === app && <Check className="i s push" aria-hidden="true" />}
                </Command.Item>
              ))}
              {text.trim() && (
                <Command.Item value={`${text} use`} className="menu-item" onSelect={() => choose(text.trim())}>
                  <span className="cut">Application “{text.trim()}”</span>
                </Command.Item>
              )}
            </Command.List>
          </Command>
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
