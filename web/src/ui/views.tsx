// Saved views of a list: named filters of this browser.

import { Bookmark, Check, X } from 'lucide-react';
import { Popover } from 'radix-ui';
import { useState, type FormEvent } from 'react';
import { isSame, nameOf, parseViews, searchOf, withView, type View } from '../lib/views';
import { useUrl } from '../url';
import { Button } from './controls';

const key = (screen: string) => `everhook.views.${screen}`;

function read(screen: string): View[] {
  try {
    return parseViews(localStorage.getItem(key(screen)));
  } catch {
    return [];
  }
}

function write(screen: string, views: View[]): void {
  try {
    localStorage.setItem(key(screen), JSON.stringify(views));
  } catch {
    // Storage is full or forbidden: the views hold until the page is closed.
  }
}

/** `names` are the parameters of the URL that a view keeps. */
export function Views({ screen, names }: { screen: string; names: readonly string[] }) {
  const [url, setUrl] = useUrl();
  const [open, setOpen] = useState(false);
  const [views, setViews] = useState(() => read(screen));
  const [text, setText] = useState('');
  const now = searchOf(url, names);
  const active = views.find((view) => isSame(view.search, now));
  const change = (next: View[]) => {
    setViews(next);
    write(screen, next);
  };
  const apply = (view: View) => {
    setUrl({
      ...Object.fromEntries(names.map((name) => [name, undefined])),
      ...view.search,
      cursor: undefined,
      open: undefined,
    });
    setOpen(false);
  };
  const save = (event: FormEvent) => {
    event.preventDefault();
    const name = nameOf(text);
    if (!name) return;
    change(withView(views, { name, search: now }));
    setText('');
    setOpen(false);
  };
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger className={`btn ghost sm views-btn ${active ? 'on' : ''}`}>
        <Bookmark className="i s" aria-hidden="true" />
        <span className="cut lbl">{active ? active.name : 'Views'}</span>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content className="menu pop" align="end" sideOffset={4} collisionPadding={8} aria-label="Saved views">
          {views.length === 0 && <p className="pop-none">No saved views in this browser</p>}
          <ul className="views">
            {views.map((view) => (
              <li key={view.name}>
                <button type="button" className="menu-item" onClick={() => apply(view)}>
                  <span className="cut">{view.name}</span>
                  {view === active && <Check className="i s push" aria-hidden="true" />}
                </button>
                <button
                  type="button"
                  className="btn ghost icon sm"
                  aria-label={`Delete view ${view.name}`}
                  onClick={() => change(views.filter((one) => one !== view))}
                >
                  <X className="i xs" aria-hidden="true" />
                </button>
              </li>
            ))}
          </ul>
          {Object.keys(now).length > 0 && (
            <form className="pop-form" onSubmit={save}>
              <span className="inp">
                <input
                  value={text}
                  placeholder="Name of this view"
                  aria-label="Name of this view"
                  onChange={(event) => setText(event.target.value)}
                />
              </span>
              <Button size="sm" submit kind="primary" disabled={!nameOf(text)}>
                Save view
              </Button>
            </form>
          )}
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
