// The frame of every screen: bar, title, tools and body.

import { useConnected } from '../api/live';
import { Link } from '@tanstack/react-router';
import { ChevronLeft, ChevronRight, Globe } from 'lucide-react';
import { Fragment, useEffect, useRef, type ReactNode } from 'react';
import { useIsFetching } from '@tanstack/react-query';
import { useKeys } from '../keys';
import { ranges, type Range } from '../lib/time';
import { setPreference, usePreferences } from '../preferences';
import { useUrl } from '../url';
import { Button, Seg } from './controls';

export type Crumb = {
  to: string;
  label: string;
  params?: Record<string, string>;
  search?: Record<string, string | undefined>;
};

type Props = { title: string; heading?: ReactNode; crumbs?: Crumb[]; tools?: ReactNode; children: ReactNode };

/** Bar and body. The body is a flex column; lists fill it, pages scroll in it. */
export function Page({ title, heading, crumbs = [], tools, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Everhook`;
  }, [title]);
  const busy = useIsFetching() > 0;
  const back = crumbs.at(-1);
  return (
    <>
      <header className="bar">
        {crumbs.length > 0 ? (
          <nav className="crumbs" aria-label="Breadcrumb">
            {back && (
              <Link
                className="btn ghost icon only-narrow"
                to={back.to}
                params={back.params ?? {}}
                search={back.search ?? {}}
                aria-label={`Back to ${back.label}`}
              >
                <ChevronLeft className="i" aria-hidden="true" />
              </Link>
            )}
            {crumbs.map((crumb) => (
              <Fragment key={crumb.to + crumb.label}>
                <Link to={crumb.to} params={crumb.params ?? {}} search={crumb.search ?? {}}>
                  {crumb.label}
                </Link>
                <ChevronRight className="i xs" aria-hidden="true" />
              </Fragment>
            ))}
            <span className="cut crumb-here" aria-current="page">
              {title}
            </span>
          </nav>
        ) : (
          <h1>{title}</h1>
        )}
        {heading}
        <div className="tools">{tools}</div>
        <span className={`refresh ${busy ? 'on' : ''}`} aria-hidden="true" />
      </header>
      {children}
    </>
  );
}

/** The scrolling part of a page that is not a list. */
export function Body({ children, head, tabs }: { children: ReactNode; head?: ReactNode; tabs?: ReactNode }) {
  return (
    <div className="body">
      {head}
      {tabs}
      <div className={`pad stack ${head && !tabs ? 'after-head' : ''}`}>{children}</div>
    </div>
  );
}

/** Title, state and actions of an object. */
export function ObjectHead({
  title,
  badges,
  sub,
  tools,
}: {
  title: ReactNode;
  badges?: ReactNode;
  sub?: ReactNode;
  tools?: ReactNode;
}) {
  return (
    <div className="hd">
      <div className="grow">
        <div className="title">
          <h1>{title}</h1>
          {badges}
        </div>
        {sub && <div className="subtitle">{sub}</div>}
      </div>
      {tools && <div className="tools">{tools}</div>}
    </div>
  );
}

/** The router marks links by prefix; tabs and entries decide themselves. */
export const exactly = { exact: true, includeSearch: true } as const;

export type Tab = {
  to: string;
  params?: Record<string, string>;
  search?: Record<string, string | undefined>;
  label: string;
  number?: ReactNode;
  active: boolean;
};

export function Tabs({ tabs, label }: { tabs: Tab[]; label: string }) {
  const row = useRef<HTMLElement>(null);
  const active = tabs.findIndex((tab) => tab.active);
  // On narrow screens the tabs scroll: the active one is in view.
  useEffect(() => {
    const tab = row.current?.children[active] as HTMLElement | undefined;
    if (row.current && tab)
      row.current.scrollLeft =
        tab.offsetLeft - row.current.offsetLeft - (row.current.clientWidth - tab.offsetWidth) / 2;
  }, [active]);
  return (
    <nav className="tabs" aria-label={label} ref={row}>
      {tabs.map((tab) => (
        <Link
          key={tab.label}
          to={tab.to}
          params={tab.params ?? {}}
          search={tab.search ?? {}}
          aria-current={tab.active ? 'page' : undefined}
          activeOptions={exactly}
        >
          {tab.label}
          {tab.number !== undefined && <span className="n">{tab.number}</span>}
        </Link>
      ))}
    </nav>
  );
}

/** Live updates on or off. */
export function LiveButton() {
  const { live } = usePreferences();
  const connected = useConnected();
  useKeys({ '.': () => setPreference('live', !live) });
  return (
    <Button
      className={`livebtn ${live ? 'live' : ''}`}
      aria-pressed={live}
      title={live && connected ? 'Live: changes appear at once (.)' : 'Live updates (.)'}
      onClick={() => setPreference('live', !live)}
    >
      <span className="live-in">
        <span className="dot" aria-hidden="true" />
        {live ? 'Live' : 'Paused'}
      </span>
    </Button>
  );
}

export function ZoneButton() {
  const { zone } = usePreferences();
  return (
    <Button
      kind="ghost"
      icon={Globe}
      className="hide-narrow"
      title="Time zone"
      onClick={() => setPreference('zone', zone === 'utc' ? 'local' : 'utc')}
    >
      {zone === 'utc' ? 'UTC' : 'Local'}
    </Button>
  );
}

const names = Object.keys(ranges) as Range[];

export function RangePicker({ range }: { range: Range }) {
  const [, setUrl] = useUrl();
  const choose = (value: Range) => setUrl({ range: value === '1h' ? undefined : value }, { replace: true });
  return (
    <>
      <span className="hide-narrow">
        <Seg label="Time range" value={range} options={names.map((name) => [name, name] as const)} onChange={choose} />
      </span>
      <select
        className="inp only-narrow range-narrow"
        aria-label="Time range"
        value={range}
        onChange={(event) => choose(event.target.value as Range)}
      >
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </>
  );
}
