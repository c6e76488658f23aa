// The list of alert rules with their states, and one rule with its latest pages.

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Bell, BellRing, Pencil, Power, Trash2 } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { messageOf, raw } from '../../api/client';
import { alertRulesQuery, useChange, usePoll } from '../../api/queries';
import { alertState, pageState, ruleText, valueText, type AlertPage, type AlertRule } from '../../lib/alerts';
import { delayLabel } from '../../lib/retry';
import { curl, plural } from '../../lib/text';
import { useMay } from '../../session';
import { Badge, Glyph, Id, StateText } from '../../ui/atoms';
import { Button } from '../../ui/controls';
import { Props } from '../../ui/figures';
import { Confirm } from '../../ui/overlay';
import { NamedList, type PanelProps } from '../../ui/named-list';
import { Panel } from '../../ui/panel';
import { Callout, Empty, Failure, Skeleton } from '../../ui/status';
import type { Column } from '../../ui/table';
import { FullTime, ListTime } from '../../ui/time';
import { toast, toastError } from '../../ui/toast';
import { useUrl } from '../../url';
import { alertEndpointsQuery } from './alert-endpoints';

const AlertDialog = lazy(() => import('./alert-form'));

const ruleQuery = (name: string) =>
  queryOptions({
    queryKey: ['alerts', 'one', name],
    queryFn: () => raw<AlertRule>('GET', path(name)),
    placeholderData: undefined,
  });

const pagesQuery = (name: string) =>
  queryOptions({
    queryKey: ['alerts', 'pages', name],
    queryFn: () => raw<{ data: AlertPage[] }>('GET', `${path(name)}/page`),
    placeholderData: undefined,
  });

const path = (name: string) => `/api/v1/alert/${encodeURIComponent(name)}`;

const columns: Column<AlertRule>[] = [
  {
    id: 'name',
    header: 'Alert',
    width: 300,
    className: 'two',
    narrow: 'a',
    cell: (row) => (
      <>
        <b>{row.name}</b>
        <small>{row.description || 'No description'}</small>
      </>
    ),
  },
  { id: 'state', header: 'State', width: 130, narrow: 'b', cell: (row) => <StateText {...alertState(row)} /> },
  { id: 'rule', header: 'Condition', narrow: 'c', cell: (row) => <span className="cut">{ruleText(row)}</span> },
  {
    id: 'since',
    header: 'Since',
    width: 120,
    wide: true,
    narrow: 'drop',
    cell: (row) => (row.since ? <ListTime at={row.since} /> : <span className="t3">–</span>),
  },
  {
    id: 'page',
    header: 'Last page',
    width: 190,
    wide: true,
    narrow: 'd',
    cell: (row) =>
      row.lastPage ? (
        <span className="row">
          <span className="hide-narrow">
            <StateText {...pageState(row.lastPage.kind)} plain />
          </span>{' '}
          <ListTime at={row.lastPage.at} />
        </span>
      ) : (
        <span className="t3">none yet</span>
      ),
  },
];

export function AlertRules({ onAdd }: { onAdd?: () => void }) {
  const [url] = useUrl();
  const query = useQuery({ ...alertRulesQuery(url.cursor), refetchInterval: usePoll(5000) });
  const empty = (
    <Empty
      icon={Bell}
      title="No alerts yet"
      command={curl({
        method: 'POST',
        url: `${location.origin}/api/v1/alert`,
        body: '{"name":"dead-letters","signal":"dead","threshold":100}',
      })}
      action={
        onAdd && (
          <Button icon={Bell} onClick={onAdd}>
            New alert
          </Button>
        )
      }
    >
      An alert watches one number, such as dead deliveries. It pages your alert endpoints when the number crosses a
      limit, and again when it is over.
    </Empty>
  );
  return (
    <NamedList
      label="Alerts"
      query={query}
      columns={columns}
      empty={empty}
      panel={(props) => <RulePanel key={props.name} {...props} />}
    />
  );
}

function RulePanel({ name, onClose, onStep }: PanelProps) {
  const may = useMay('PATCH /api/v1/alert/{alert}');
  const mayDelete = useMay('DELETE /api/v1/alert/{alert}');
  const mayTest = useMay('POST /api/v1/alert/{alert}/test');
  const [dialog, setDialog] = useState<'edit' | 'delete' | null>(null);
  const poll = usePoll(5000);
  const query = useQuery({ ...ruleQuery(name), refetchInterval: poll });
  const pages = useQuery({ ...pagesQuery(name), refetchInterval: poll });
  const rule = query.data;
  const test = useChange(
    () => raw<{ messages: unknown[] }>('POST', `${path(name)}/test`),
    ['alerts'],
    (answer) => toast('Test page sent', { text: `To ${plural(answer.messages.length, 'endpoint')}.` }),
  );
  const set = useChange(
    (disabled: boolean) => raw('PATCH', path(name), { body: { disabled } }),
    ['alerts'],
    (_, disabled) => toast(disabled ? `Alert ${name} is disabled` : `Alert ${name} is enabled`),
  );
  const remove = useChange(
    () => raw('DELETE', path(name)),
    ['alerts'],
    () => {
      toast(`Alert ${name} deleted`);
      onClose();
    },
  );
  const footer = rule && (
    <>
      {mayTest && (
        <Button kind="primary" icon={BellRing} busy={test.isPending} onClick={() => test.mutate(undefined)}>
          Send test page
        </Button>
      )}
      {may && (
        <Button
          icon={Power}
          busy={set.isPending}
          onClick={() => set.mutate(!rule.disabled, { onError: (error) => toastError('The change failed', error) })}
        >
          {rule.disabled ? 'Enable' : 'Disable'}
        </Button>
      )}
      {mayDelete && (
        <Button kind="danger" icon={Trash2} className="push" onClick={() => setDialog('delete')}>
          Delete
        </Button>
      )}
    </>
  );
  return (
    <Panel
      title={
        <span className="row">
          {name} {rule && <Badge {...alertState(rule)} />}
        </span>
      }
      label="Alert"
      onClose={onClose}
      onStep={onStep}
      footer={footer}
      full={
        may &&
        rule && (
          <Button kind="ghost" size="sm" icon={Pencil} onClick={() => setDialog('edit')}>
            Edit
          </Button>
        )
      }
      sub={rule && <span>{ruleText(rule)}</span>}
    >
      {query.isError && <Failure error={query.error} what={`Alert ${name}`} />}
      {!rule && !query.isError && <Skeleton rows={6} />}
      {rule && (
        <>
          {test.isError && <Callout look="dead" title={messageOf(test.error)} />}
          <section>
            <h3>Rule</h3>
            {rule.description && <p className="t2 wrap-any">{rule.description}</p>}
            <Props
              items={[
                [
                  'State',
                  rule.since ? (
                    <>
                      {alertState(rule).word}, since <FullTime at={rule.since} age={false} />
                    </>
                  ) : (
                    alertState(rule).word
                  ),
                ],
                ['Pages', `again every ${delayLabel(rule.cooldownSeconds)} while it lasts`],
                [
                  'Resolved',
                  rule.resolveAfterSeconds === 0
                    ? 'as soon as the condition is gone'
                    : `${delayLabel(rule.resolveAfterSeconds)} after the condition is gone`,
                ],
                [
                  'To',
                  rule.destinations ? <Destinations key="d" names={rule.destinations} /> : 'all that want the event',
                ],
                [
                  'Escalation',
                  rule.escalation ? (
                    <>
                      {rule.escalation.afterSeconds
                        ? `after ${delayLabel(rule.escalation.afterSeconds)}`
                        : `with page ${String((rule.escalation.afterOngoing ?? 0) + 1)}`}
                      , also to <Destinations names={rule.escalation.destinations} />
                      {rule.escalated && ' (now)'}
                    </>
                  ) : (
                    'none'
                  ),
                ],
              ]}
            />
          </section>
          <section>
            <h3>Latest pages</h3>
            {pages.isError && <Failure error={pages.error} what="The pages" />}
            {pages.data?.data.length === 0 && <p className="t3">No page yet.</p>}
            <ul className="list">
              {pages.data?.data.map((page) => (
                <li key={`${page.at}-${page.kind}`}>
                  <Glyph look={pageState(page.kind).look} />
                  <ListTime at={page.at} />
                  <span className="t2">
                    {pageState(page.kind).word}, {valueText(rule.signal, page.value)}
                  </span>
                  <span className={`push s12 ${page.messages.length === 0 ? '' : 't3'}`}>
                    {page.messages.length === 0
                      ? 'reached no endpoint'
                      : `to ${plural(page.messages.length, 'endpoint')}${page.escalated ? ', escalated' : ''}`}
                  </span>
                </li>
              ))}
            </ul>
          </section>
        </>
      )}
      {dialog === 'edit' && rule && (
        <Suspense>
          <AlertDialog rule={rule} onClose={() => setDialog(null)} />
        </Suspense>
      )}
      <Confirm
        open={dialog === 'delete'}
        onClose={() => setDialog(null)}
        danger
        title={`Delete alert ${name}`}
        verb="Delete alert"
        run={() => remove.mutateAsync(undefined)}
      >
        The rule and its history are deleted for good. A triggered alert sends no further page.
      </Confirm>
    </Panel>
  );
}

/** Names of alert endpoints: their description or URL, if it is known. */
function Destinations({ names }: { names: string[] }) {
  const { data } = useQuery(alertEndpointsQuery());
  return (
    <span className="names">
      {names.map((name) => {
        const found = data?.data.find((endpoint) => endpoint.id === name || endpoint.uid === name);
        return (
          <span key={name} className="cut">
            {found ? found.description || found.url : <Id id={name} copy={false} />}
          </span>
        );
      })}
    </span>
  );
}
