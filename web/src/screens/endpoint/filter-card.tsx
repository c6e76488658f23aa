// Tries a filter expression on messages before it is saved.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { messageOf, raw } from '../../api/client';
import { messagesQuery, useChange } from '../../api/queries';
import type { Endpoint, FilterTest } from '../../api/types';
import { useMay } from '../../session';
import { StateText } from '../../ui/atoms';
import { AreaField, Button, Seg, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { ListTime } from '../../ui/time';
import { toast } from '../../ui/toast';

type Tried = { key: string; at?: string; eventType: string; result: FilterTest };

const LATEST = 8;

/** An expression against accepted messages, or against a message that is typed here. */
export function FilterCard({ app, endpoint, base }: { app: string; endpoint: Endpoint; base: string }) {
  const may = useMay('PATCH /api/v1/app/{app_id}/endpoint/{endpoint_id}');
  const own = endpoint.filter ?? '';
  const [filter, setFilter] = useState(own);
  const [on, setOn] = useState<'latest' | 'typed'>('latest');
  const [type, setType] = useState('');
  const [payload, setPayload] = useState('{\n  "amount": 120\n}');
  const recent = useQuery(messagesQuery(app, {})).data?.data.slice(0, LATEST) ?? [];
  const tested = filter.trim() ? { filter } : {};
  const ask = (body: object) => raw<FilterTest>('POST', `${base}/filter/test`, { body });
  const test = useChange(async (): Promise<Tried[]> => {
    if (on === 'typed') {
      const result = await ask({
        ...tested,
        eventType: type.trim() || 'example',
        payload: JSON.parse(payload) as unknown,
      });
      return [{ key: 'typed', eventType: type.trim() || 'example', result }];
    }
    return Promise.all(
      recent.map(async ({ id, timestamp, eventType }) => ({
        key: id,
        at: timestamp,
        eventType,
        result: await ask({ ...tested, msgId: id }),
      })),
    );
  }, []);
  const save = useChange(
    () => raw('PATCH', base, { body: { filter: filter.trim() || null } }),
    ['endpoints'],
    () => toast('Filter saved'),
  );
  const error = save.isError
    ? messageOf(save.error)
    : test.isError && !isSyntax(test.error)
      ? messageOf(test.error)
      : null;
  return (
    <Card
      title="Filter"
      sub="messages that do not match are not delivered to this endpoint"
      tools={
        <Seg
          small
          label="Try on"
          value={on}
          options={
            [
              ['latest', 'Latest messages'],
              ['typed', 'A payload'],
            ] as const
          }
          onChange={setOn}
        />
      }
    >
      <div className="in stack">
        <AreaField
          label="Expression"
          optional
          value={filter}
          onChange={setFilter}
          rows={2}
          placeholder="payload.amount > 100"
          error={error}
          readOnly={!may}
        />
        {on === 'typed' && (
          <div className="fgrid two-col">
            <TextField label="Event type" value={type} onChange={setType} mono placeholder="example" />
            <AreaField
              label="Payload"
              value={payload}
              onChange={setPayload}
              rows={4}
              error={test.isError && isSyntax(test.error) ? 'Must be a JSON object' : null}
            />
          </div>
        )}
        <span className="row wrap">
          <Button
            size="sm"
            busy={test.isPending}
            disabled={on === 'latest' && recent.length === 0}
            onClick={() => test.mutate(undefined)}
          >
            {on === 'typed'
              ? 'Try the payload'
              : recent.length === 0
                ? 'No messages to try'
                : `Try the latest ${recent.length}`}
          </Button>
          {may && filter !== own && (
            <Button size="sm" kind="primary" busy={save.isPending} onClick={() => save.mutate(undefined)}>
              Save filter
            </Button>
          )}
          {test.data && <Result tried={test.data} />}
        </span>
        {test.data && <Rows tried={test.data} />}
      </div>
    </Card>
  );
}

const isSyntax = (error: unknown) => error instanceof SyntaxError;

function Result({ tried }: { tried: Tried[] }) {
  const matching = tried.filter(({ result }) => result.matches).length;
  return (
    <span className="t2" role="status">
      <b>{matching} match</b>, {tried.length - matching} do not
    </span>
  );
}

function Rows({ tried }: { tried: Tried[] }) {
  return (
    <table className="tbl card-tbl compact">
      <tbody>
        {tried.map(({ key, at, eventType, result }) => (
          <tr key={key}>
            <td>
              {at && <ListTime at={at} />} {eventType}
            </td>
            <td className="t2">{result.checks.find((check) => !check.passes)?.reason ?? ''}</td>
            <td className="num">
              {result.matches ? (
                <StateText look="delivered" word="matches" />
              ) : (
                <StateText look="unmatched" word="no match" />
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
