// Routes. Each screen is its own chunk; search parameters are texts that screens read by name.

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
  Outlet,
  redirect,
} from '@tanstack/react-router';
import { home, screens } from './capabilities';
import { NotFound } from './screens/not-found';
import { loadSession } from './session';
import { Shell } from './shell/shell';
import { parseSearch, stringifySearch, type Search } from './url';
import { Failure } from './ui/status';
import { Toasts } from './ui/toast';

const validateSearch = (search: Record<string, unknown>): Search =>
  Object.fromEntries(Object.entries(search).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));

const root = createRootRoute({
  component: () => (
    <>
      <Outlet />
      <Toasts />
    </>
  ),
  notFoundComponent: NotFound,
  errorComponent: ({ error }) => (
    <main className="lone">
      <Failure error={error} retry={() => location.reload()} what="The dashboard" />
    </main>
  ),
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch,
  component: lazyRouteComponent(() => import('./screens/sign-in')),
});

const shell = createRoute({
  getParentRoute: () => root,
  id: 'shell',
  component: Shell,
  beforeLoad: async ({ location }) => {
    const session = await loadSession();
    if (session) return;
    const next = location.href === '/' ? undefined : location.href;
    throw redirect({ to: '/sign-in', search: next ? { next } : {} });
  },
});

const start = createRoute({ getParentRoute: () => shell, path: '/', component: () => <Navigate to={home} replace /> });

type Loader = () => Promise<{ default: React.ComponentType }>;

function screen<Path extends string>(path: Path, load: Loader) {
  return createRoute({ getParentRoute: () => shell, path, validateSearch, component: lazyRouteComponent(load) });
}

const pages = [
  screen('/overview', () => import('./screens/overview')),
  screen('/messages', () => import('./screens/messages')),
  screen('/apps/$app/messages/$msg', () => import('./screens/message')),
  screen('/apps/$app/messages/$msg/endpoints/$ep', () => import('./screens/delivery')),
  screen('/endpoints', () => import('./screens/endpoints')),
  screen('/apps/$app/endpoints/$ep/$tab', () => import('./screens/endpoint')),
  screen('/dead', () => import('./screens/dead')),
  screen('/apps', () => import('./screens/apps')),
  screen('/apps/$app', () => import('./screens/app')),
  screen('/event-types', () => import('./screens/event-types')),
  screen('/once', () => import('./screens/once')),
  screen('/outboxes', () => import('./screens/outboxes')),
  screen('/outboxes/$name', () => import('./screens/outboxes')),
  screen('/jobs', () => import('./screens/jobs')),
  screen('/jobs/$job', () => import('./screens/job')),
  screen('/queues', () => import('./screens/queues')),
  screen('/queues/$name', () => import('./screens/queue')),
  screen('/schedules', () => import('./screens/schedules')),
  screen('/batches', () => import('./screens/batches')),
  screen('/batches/$id', () => import('./screens/batch')),
  screen('/alerts', () => import('./screens/alerts')),
  screen('/bulk', () => import('./screens/bulk')),
  screen('/nodes', () => import('./screens/nodes')),
  screen('/keys', () => (screens.keys ? import('./screens/keys') : import('./screens/missing'))),
  screen('/audit', () => (screens.audit ? import('./screens/audit') : import('./screens/missing'))),
  screen('/settings', () => import('./screens/settings')),
] as const;

const portal = createRoute({
  getParentRoute: () => root,
  path: '/portal/$app',
  validateSearch,
  component: lazyRouteComponent(() => import('./portal/portal')),
});

const portalPage = createRoute({
  getParentRoute: () => root,
  path: '/portal/$app/$',
  validateSearch,
  component: lazyRouteComponent(() => import('./portal/portal')),
});

const routeTree = root.addChildren([signIn, portal, portalPage, shell.addChildren([start, ...pages])]);

export const router = createRouter({
  routeTree,
  parseSearch,
  stringifySearch,
  defaultPreload: 'intent',
  defaultPreloadStaleTime: 0,
  scrollRestoration: true,
});

// Links are built from data (navigation, crumbs, tabs), so routes are not registered as literal types: paths are checked
// by the browser tests, which open every one of them.
