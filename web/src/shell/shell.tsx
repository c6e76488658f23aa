// Navigation, tab bar, palette and shortcuts around the screens.

import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router';
import { ChevronsUpDown, LogOut, Menu as MenuIcon, Monitor, Moon, Search, Sun } from 'lucide-react';
import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { useLiveUpdates } from '../api/live';
import { useDead } from '../api/dead';
import { alertRulesQuery, queryClient, usePoll } from '../api/queries';
import { offers } from '../capabilities';
import { useKeys } from '../keys';
import { count, initials } from '../lib/text';
import { isDark, setPreference, usePreferences, type Theme } from '../preferences';
import { chooseEnvironment, currentEnvironment, mayCall, signOut, useSession } from '../session';
import { Kbd } from '../ui/atoms';
import { IconButton } from '../ui/controls';
import { Menu, type MenuItem } from '../ui/overlay';
import { exactly } from '../ui/page';
import { Skeleton } from '../ui/status';
import { Logo } from './logo';
import { entries, groups, narrowEntries, type Entry } from './nav';

const Palette = lazy(() => import('./palette'));
const Shortcuts = lazy(() => import('./shortcuts'));

const isMac = typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.platform);

export function Shell() {
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const main = useRef<HTMLElement>(null);
  useGoTo();
  useLiveUpdates();
  useKeys({ '?': () => setHelp(true) });

  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === 'k' && (event.metaKey || event.ctrlKey)) {
        event.preventDefault();
        setPalette(true);
      }
    };
    document.addEventListener('keydown', listen);
    return () => document.removeEventListener('keydown', listen);
  }, []);
  useEffect(() => setMenu(false), [path]);

  return (
    <div className={`app ${menu ? 'menu-open' : ''}`}>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <SideNav onSearch={() => setPalette(true)} />
      <main className="page" id="main" ref={main} tabIndex={-1}>
        <Suspense fallback={<Skeleton />}>
          <Outlet />
        </Suspense>
      </main>
      <nav className="tabbar" aria-label="Main, narrow">
        {narrowEntries.map(({ to, label, icon: Icon }) => (
          <Link key={to} to={to} activeOptions={exactly} aria-current={isAt(path, to) ? 'page' : undefined}>
            <Icon className="i l" aria-hidden="true" />
            {label === 'Dead letters' ? 'Dead' : label}
          </Link>
        ))}
        <button
          type="button"
          aria-expanded={menu}
          className={narrowEntries.some(({ to }) => isAt(path, to)) ? '' : 'here'}
          onClick={() => setMenu(!menu)}
        >
          <MenuIcon className="i l" aria-hidden="true" />
          More
        </button>
      </nav>
      <button
        type="button"
        className="btn ghost icon burger"
        aria-label="Open navigation"
        aria-expanded={menu}
        onClick={() => setMenu(!menu)}
      >
        <MenuIcon className="i" aria-hidden="true" />
      </button>
      {menu && (
        <button type="button" className="menu-scrim" aria-label="Close navigation" onClick={() => setMenu(false)} />
      )}
      <Suspense>
        {palette && <Palette onClose={() => setPalette(false)} />}
        {help && <Shortcuts onClose={() => setHelp(false)} />}
      </Suspense>
    </div>
  );
}

/** Whether a path belongs to an entry. Objects below /apps belong to the list that they come from. */
function isAt(path: string, to: string): boolean {
  if (/^\/apps\/[^/]+\/messages\//.test(path)) return to === '/messages';
  if (/^\/apps\/[^/]+\/endpoints\//.test(path)) return to === '/endpoints';
  if (to === '/apps') return path === to || /^\/apps\/[^/]+$/.test(path);
  return path === to || path.startsWith(`${to}/`);
}

/** `G`, then a letter. */
function useGoTo() {
  const navigate = useNavigate();
  const armed = useRef(0);
  const go: Record<string, () => void> = { g: () => (armed.current = Date.now()) };
  useKeys(go);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (Date.now() - armed.current > 1500 || event.key === 'g') return;
      armed.current = 0;
      const entry = entries.find(({ key }) => key === event.key);
      if (!entry) return;
      event.preventDefault();
      event.stopPropagation();
      void navigate({ to: entry.to });
    };
    document.addEventListener('keydown', listen, true);
    return () => document.removeEventListener('keydown', listen, true);
  }, [navigate]);
}

function SideNav({ onSearch }: { onSearch: () => void }) {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const session = useSession();
  const isShown = ({ admin, reads }: Entry) =>
    session !== null && (!admin || session.role === 'admin') && (!reads || mayCall(session, reads));
  const poll = usePoll(15_000);
  const dead = useDead();
  const seesAlerts = offers.alertRules && session !== null && mayCall(session, 'GET /api/v1/alert');
  const alerts =
    useQuery({ ...alertRulesQuery(), enabled: seesAlerts, refetchInterval: poll, staleTime: 10_000 }).data?.data.filter(
      ({ state }) => state === 'triggered',
    ).length ?? 0;
  return (
    <nav className="nav" aria-label="Main">
      <Environment />
      <button type="button" className="find" onClick={onSearch}>
        <Search className="i s" aria-hidden="true" />
        Search or paste an id
        <Kbd>{isMac ? '⌘K' : 'Ctrl K'}</Kbd>
      </button>
      <div className="nav-scroll">
        {groups.map(({ title, entries: list }) => (
          <div key={title}>
            {title && <h2>{title}</h2>}
            <ul>
              {list.filter(isShown).map(({ to, label, icon: Icon, screen }) => (
                <li key={to}>
                  <Link to={to} activeOptions={exactly} aria-current={isAt(path, to) ? 'page' : undefined}>
                    <Icon className="i" aria-hidden="true" />
                    {label}
                    {screen === 'dead' && dead.deliveries && <span className="count hot">{dead.deliveries}</span>}
                    {screen === 'jobs' && dead.jobs && <span className="count hot">{dead.jobs}</span>}
                    {screen === 'alerts' && alerts > 0 && <span className="count warm">{count(alerts)}</span>}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </div>
      <Account />
    </nav>
  );
}

function Environment() {
  const session = useSession();
  if (!session) return null;
  const name = currentEnvironment(session);
  const others = session.environments ?? [];
  const face = (
    <>
      <Logo />
      <span className="grow cut">
        <b className="cut">Everhook</b>
        <small>{name}</small>
      </span>
    </>
  );
  if (others.length < 2) return <div className="env">{face}</div>;
  const items = others.map(({ id, name: label }): MenuItem => ({ label, run: () => chooseEnvironment(id) }));
  const trigger = (
    <button type="button" className="env">
      {face}
      <ChevronsUpDown className="i s t3" aria-hidden="true" />
    </button>
  );
  return <Menu align="start" trigger={trigger} items={items} />;
}

const nextTheme: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };
const themeIcon = { system: Monitor, light: Sun, dark: Moon };

function Account() {
  const session = useSession();
  const navigate = useNavigate();
  const { theme } = usePreferences();
  if (!session) return null;
  const name = session.keyName ?? 'API key';
  const leave = () => {
    void signOut().then(() => {
      queryClient.clear();
      return navigate({ to: '/sign-in' });
    });
  };
  // The first press leaves "system" for the theme that is not shown now.
  const press = () => setPreference('theme', theme === 'system' && !isDark() ? 'dark' : nextTheme[theme]);
  return (
    <div className="nav-foot">
      <span className="avatar" aria-hidden="true">
        {initials(name)}
      </span>
      <span className="grow cut">
        <b className="cut">{name}</b>
        <small className="cut">{session.role === 'read' ? 'read only' : session.role}</small>
      </span>
      <IconButton icon={themeIcon[theme]} label={`Theme: ${theme}`} size="sm" onClick={press} />
      <IconButton icon={LogOut} label="Sign out" size="sm" onClick={leave} />
    </div>
  );
}
