// Attempts: the timeline, one attempt in detail, and two attempts side by side. Replies are text, never markup.

import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { attemptQuery } from '../../api/queries';
import type { Attempt, Delivery } from '../../api/types';
import { toText } from '../../lib/json';
import { phasesOf, spanText, type Phase } from '../../lib/phases';
import { attemptLabel, failureText, statusPhrase } from '../../lib/state';
import { byteLength, bytes, isBinary } from '../../lib/text';
import { duration } from '../../lib/time';
import { Code, CopyButton, Glyph } from '../../ui/atoms';
import { Card, Strip } from '../../ui/figures';
import { RawText } from '../../ui/json-view';
import { Countdown, FullTime, ListTime } from '../../ui/time';
import { numberOf } from '../delivery';

const ok = (attempt: Attempt) => attempt.status === 0;
const partsOf = (attempt: Attempt) =>
  phasesOf(
    attempt.phases,
    attempt.responseDurationMs,
    attempt.responseStatusCode > 0 ? 'reply' : attempt.class === 'cancelled' ? 'cancelled' : 'no reply',
  );
const titleOf = (number: number | null) => (number === null ? 'Manual attempt' : `Attempt ${number}`);

export function AttemptList({
  delivery,
  attempts,
  chosen,
  compared,
  onChoose,
}: {
  delivery: Delivery;
  attempts: Attempt[];
  chosen?: string;
  compared?: string;
  onChoose: (id: string) => void;
}) {
  const slowest = Math.max(1, ...attempts.map((row) => row.responseDurationMs));
  return (
    <ol className="tl" aria-label="Attempts, newest first">
      {delivery.state === 'pending' && delivery.nextAttempt && (
        <li className="st-retrying">
          <span className="mk">
            <Glyph look="pending" />
          </span>
          <div className="grow">
            <div className="top">
              <b>Next attempt</b>
              <ListTime at={delivery.nextAttempt} />
            </div>
            <div className="btm">
              in <Countdown at={delivery.nextAttempt} />
            </div>
          </div>
        </li>
      )}
      {attempts.map((row) => {
        const phases = partsOf(row);
        const share = Math.pow(row.responseDurationMs / slowest, 0.25);
        return (
          <li
            key={row.id}
            className={ok(row) ? 'st-delivered' : 'st-dead'}
            aria-current={row.id === chosen || row.id === compared ? 'true' : undefined}
          >
            <span className="mk">
              <Glyph look={ok(row) ? 'delivered' : row.status === 4 ? 'cancelled' : 'dead'} />
            </span>
            <button type="button" className="grow tl-btn" onClick={() => onChoose(row.id)}>
              <span className="top">
                <b>{titleOf(numberOf(attempts, row))}</b>
                <Code bad={!ok(row)}>{attemptLabel(row)}</Code>
                <ListTime at={row.timestamp} />
              </span>
              <span className="btm">
                <span>
                  {ok(row)
                    ? statusPhrase(row.responseStatusCode) || 'Accepted by the receiver'
                    : failureText(row.class, row.responseStatusCode)}
                </span>
                <span className="push">
                  {row.triggerType === 1 ? (row.actor ? `by ${row.actor}` : 'manual') : 'schedule'}
                </span>
              </span>
              <span className="bar1" style={{ ['--t' as string]: `${Math.max(4, share * 100)}%` }} aria-hidden="true">
                {phases.map((phase) => (
                  <i
                    key={phase.name}
                    className={phase.failed ? 'fail' : phase.className}
                    style={{ ['--f' as string]: String(Math.max(0.1, phase.ms)) }}
                  />
                ))}
              </span>
            </button>
          </li>
        );
      })}
      <li className="st-accent">
        <span className="mk">
          <Glyph look="unmatched" />
        </span>
        <div className="grow">
          <div className="top">
            <b>Accepted</b>
            <ListTime at={delivery.timestamp} />
          </div>
        </div>
      </li>
    </ol>
  );
}

export function AttemptDetail({
  app,
  attempt,
  number,
  payload,
}: {
  app: string;
  attempt: Attempt;
  number: number | null;
  payload?: unknown;
}) {
  return (
    <Card
      title={titleOf(number)}
      className="clip"
      sub={
        <>
          <Code bad={!ok(attempt)}>
            {attemptLabel(attempt)} {statusPhrase(attempt.responseStatusCode)}
          </Code>{' '}
          {duration(attempt.responseDurationMs)}
        </>
      }
      tools={
        <CopyButton
          text={`${location.origin}${location.pathname}?attempt=${attempt.id}`}
          label="Copy link to this attempt"
        />
      }
    >
      <Strip
        flat
        items={[
          ['Started', <FullTime key="s" at={attempt.timestamp} age={false} exact />],
          ['Trigger', attempt.triggerType === 1 ? `Manual${attempt.actor ? `, ${attempt.actor}` : ''}` : 'Schedule'],
          ['Result', failureOrSuccess(attempt)],
          attempt.address
            ? [
                'Address',
                <span key="a" className="mono">
                  {attempt.address}
                </span>,
              ]
            : null,
          attempt.protocol ? ['Protocol', attempt.protocol] : null,
          attempt.nodeId ? ['Node', attempt.nodeId] : null,
        ]}
      />
      <div className="in phases-in">
        <Phases attempt={attempt} />
      </div>
      <div className="reqres cols">
        <div>
          <h3>{attempt.responseStatusCode > 0 ? 'Response' : 'Error'}</h3>
          <Headers headers={attempt.responseHeaders ?? []} hidden="not stored" />
          <Reply attempt={attempt} />
        </div>
        <Request app={app} attempt={attempt} payload={payload} />
      </div>
    </Card>
  );
}

/** The request: its headers follow from the message, the attempt and the endpoint, so that the server computes them. */
function Request({ app, attempt, payload }: { app: string; attempt: Attempt; payload?: unknown }) {
  const request = useQuery(attemptQuery(app, attempt.msgId, attempt.id)).data?.request;
  const sent = useMemo(
    () => request?.body ?? (payload === undefined ? undefined : toText(payload, 0)),
    [request?.body, payload],
  );
  const headers = request?.headers ?? [
    { name: 'webhook-id', value: attempt.msgId },
    { name: 'webhook-attempt-id', value: attempt.id },
  ];
  return (
    <div>
      <h3>Request</h3>
      <p className="mono s12 t2 wrap-any">POST {attempt.url}</p>
      <Headers headers={headers} hidden="hidden" />
      {request && !request.exact && (
        <p className="s12 t3">
          The endpoint or a policy has changed since, or an older server made the attempt: headers and signatures are
          those of the current settings.
        </p>
      )}
      {sent !== undefined ? (
        <>
          <RawText text={sent} label="Request body" />
          <p className="s12 t3">
            {bytes(byteLength(sent))},{' '}
            {request?.body ? 'the payload as a message of the chat platform' : 'the payload as it was accepted'}
          </p>
        </>
      ) : (
        <p className="s12 t3">The payload was removed.</p>
      )}
    </div>
  );
}

const failureOrSuccess = (attempt: Attempt) =>
  ok(attempt) ? 'Accepted by the receiver' : failureText(attempt.class, attempt.responseStatusCode);

function Reply({ attempt }: { attempt: Attempt }) {
  const text = attempt.response;
  if (!text) return <p className="s12 t3">Empty body</p>;
  if (isBinary(text)) return <p className="s12 t3">Binary, {bytes(Math.floor((text.length * 3) / 4))}</p>;
  return (
    <>
      <RawText text={text} label="Reply body" />
      <p className="s12 t3">{bytes(byteLength(text))}. Shown as text, never rendered.</p>
    </>
  );
}

type Header = { name: string; value?: string | null };

/** A longer list of headers is folded. */
const HEADERS_SHOWN = 8;

/** The value of a header that may carry a credential is absent. */
export function Headers({ headers, hidden }: { headers: Header[]; hidden: string }) {
  const [all, setAll] = useState(false);
  if (headers.length === 0) return null;
  const list = (
    <dl className="hdrs">
      {(all || headers.length <= HEADERS_SHOWN ? headers : headers.slice(0, HEADERS_SHOWN - 1)).map(
        ({ name, value }, index) => (
          <div key={index} className="prop">
            <dt title={name}>{name}</dt>
            {value == null ? (
              <dd className="t3" title={`The value is ${hidden}: it may be a credential`}>
                {hidden}
              </dd>
            ) : (
              <dd title={value}>{value}</dd>
            )}
          </div>
        ),
      )}
    </dl>
  );
  if (all || headers.length <= HEADERS_SHOWN) return list;
  return (
    <>
      {list}
      <button type="button" className="link s12 hdrs-more" onClick={() => setAll(true)}>
        Show all {headers.length} headers
      </button>
    </>
  );
}

function Phases({ attempt }: { attempt: Attempt }) {
  return <Steps phases={partsOf(attempt)} reused={attempt.phases?.reused} />;
}

/** The steps of a request on a time axis. */
export function Steps({ phases, reused }: { phases: Phase[]; reused?: boolean }) {
  const sum = phases.reduce((all, phase) => all + phase.ms, 0);
  const total = Math.max(0.001, sum);
  let from = 0;
  return (
    <>
      <div
        className="phases"
        role="img"
        aria-label={phases.map((phase) => `${phase.name} ${spanText(phase.ms)}`).join(', ')}
      >
        {phases.flatMap((phase) => {
          const style = {
            ['--x' as string]: `${(from / total) * 100}%`,
            ['--w' as string]: `${(phase.ms / total) * 100}%`,
          };
          from += phase.ms;
          const className = phase.failed ? `${phase.className} fail` : phase.className;
          return [
            <span key={`${phase.name}-n`} className={`n ${className}`}>
              {phase.name}
            </span>,
            <span key={`${phase.name}-t`} className={`tr ${className}`} style={style} />,
            <span key={`${phase.name}-m`} className="ms">
              {spanText(phase.ms)}
            </span>,
          ];
        })}
        {phases.length > 1 && (
          <>
            <span />
            <span className="ax">
              {[0, 0.25, 0.5, 0.75].map((part) => (
                <i key={part}>{part === 0 ? '0' : spanText(total * part)}</i>
              ))}
            </span>
            <span className="ms t2">{spanText(total)}</span>
          </>
        )}
      </div>
      {reused && <p className="s12 t3">Reused connection: no DNS look-up, connection or TLS handshake</p>}
    </>
  );
}

type Difference = { text: string; side: 'both' | 'a' | 'b' };

const DIFF_LINES_MAX = 400;

/** Lines that only one of two texts has, in order. */
export function lineDiff(a: string, b: string): Difference[] {
  const [left, right] = [a.split('\n').slice(0, DIFF_LINES_MAX), b.split('\n').slice(0, DIFF_LINES_MAX)];
  const width = right.length + 1;
  const table = new Uint16Array((left.length + 1) * width);
  const cell = (i: number, j: number) => table[i * width + j] ?? 0;
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      table[i * width + j] = left[i] === right[j] ? cell(i + 1, j + 1) + 1 : Math.max(cell(i + 1, j), cell(i, j + 1));
    }
  }
  const out: Difference[] = [];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      out.push({ text: left[i] ?? '', side: 'both' });
      i += 1;
      j += 1;
    } else if (j >= right.length || (i < left.length && cell(i + 1, j) >= cell(i, j + 1))) {
      out.push({ text: left[i] ?? '', side: 'a' });
      i += 1;
    } else {
      out.push({ text: right[j] ?? '', side: 'b' });
      j += 1;
    }
  }
  return out;
}

export function AttemptDiff({ a, b }: { a: Attempt; b: Attempt }) {
  const text = (attempt: Attempt) =>
    [
      `result ${attemptLabel(attempt)}`,
      `duration ${duration(attempt.responseDurationMs)}`,
      `url ${attempt.url}`,
      ...(attempt.responseHeaders ?? []).map(({ name, value }) => `${name}: ${value ?? '(not stored)'}`),
      '',
      ...attempt.response.split('\n'),
    ].join('\n');
  const lines = lineDiff(text(a), text(b));
  return (
    <Card title="Compared" className="clip" sub="what differs between two attempts">
      <div className="in">
        <div className="diff" role="group" aria-label="Differences" tabIndex={0}>
          {lines.map((line, index) => (
            <div key={index} className={`d-${line.side}`}>
              <span aria-hidden="true">{line.side === 'a' ? '−' : line.side === 'b' ? '+' : ' '}</span>
              {line.text}
            </div>
          ))}
        </div>
      </div>
    </Card>
  );
}
