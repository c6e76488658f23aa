// A retry schedule, drawn: points on a fourth-root time axis, a band for the jitter, and the end.

import { delayLabel, points, position } from '../lib/retry';
import { Glyph } from './atoms';

const marks: [number, string][] = [
  [60, '1 minute'],
  [3600, '1 hour'],
  [86_400, '1 day'],
  [172_800, '2 days'],
];

export function RetrySchedule({ delays, jitter }: { delays: number[]; jitter: number }) {
  const list = points(delays);
  const total = list.at(-1)?.after ?? 0;
  if (total === 0) return <p className="t3 quiet">One attempt, without a retry.</p>;
  const x = (after: number) => `${(position(after, total) * 100).toFixed(2)}%`;
  const dense = list.length > 16;
  return (
    <div className="rsched hscroll" tabIndex={0} role="group" aria-label="Retry schedule">
      <div className="rs-in" role="img" aria-label={`${list.length} attempts over ${delayLabel(total)}`}>
        <span className="rs-line" />
        {marks
          .filter(([after]) => after < total)
          .map(([after, text]) => (
            <span key={text} className="rs-day" style={{ ['--x' as string]: x(after) }}>
              {text}
            </span>
          ))}
        {list.map((point) => {
          const spread = point.delay * jitter;
          const from = position(Math.max(0, point.after - spread), total);
          const to = position(Math.min(total, point.after + spread), total);
          return (
            <span
              key={point.attempt}
              className="rt"
              style={{
                ['--x' as string]: x(point.after),
                ['--a' as string]: `${from * 100}%`,
                ['--b' as string]: `${(to - from) * 100}%`,
              }}
            >
              <b>{dense ? '' : point.attempt}</b>
            </span>
          );
        })}
        <span className="rs-dead">
          <Glyph look="dead" />
        </span>
        <span className="rs-lab">
          {(dense ? list.filter((_, index) => index % 4 === 0) : list).map((point) => (
            <span key={point.attempt} style={{ ['--x' as string]: x(point.after) }}>
              <b>{delayLabel(point.delay)}</b>
              {point.after === 0 ? '0' : delayLabel(point.after)}
            </span>
          ))}
        </span>
      </div>
    </div>
  );
}
