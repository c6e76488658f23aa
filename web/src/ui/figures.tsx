// Key figures, sparklines, legends, bars and cards.

import { lazy, Suspense, type ReactNode } from 'react';
import type { Series } from './chart';

const Chart = lazy(() => import('./chart'));

export function LazyChart(props: React.ComponentProps<typeof Chart>) {
  return (
    <Suspense fallback={<div style={{ height: props.height }} />}>
      <Chart {...props} />
    </Suspense>
  );
}

export function Card({
  title,
  sub,
  tools,
  children,
  className = '',
  line,
}: {
  title: ReactNode;
  sub?: ReactNode;
  tools?: ReactNode;
  children: ReactNode;
  className?: string;
  line?: boolean;
}) {
  return (
    <section className={`card ${line ? 'line' : ''} ${className}`}>
      <header>
        <h2>{title}</h2>
        {sub && <span className="sub">{sub}</span>}
        {tools && <span className="push row">{tools}</span>}
      </header>
      {children}
    </section>
  );
}

export function Kpi({
  label,
  value,
  unit,
  note,
  bad,
  spark,
}: {
  label: string;
  value: ReactNode;
  unit?: string;
  note?: ReactNode;
  bad?: boolean;
  spark?: ReactNode;
}) {
  return (
    <div className="kpi">
      <div className="kl">{label}</div>
      <div className="kv">
        {value}
        {unit && <small>{unit}</small>}
      </div>
      {spark}
      <span className={`delta ${bad ? 'bad' : ''}`}>{note ?? '\u00a0'}</span>
    </div>
  );
}

/** A line without axes. Decoration: the value stands beside it. */
export function Spark({
  values,
  color,
  width = 62,
  height = 24,
  fill = true,
}: {
  values: (number | null)[];
  color: string;
  width?: number;
  height?: number;
  fill?: boolean;
}) {
  const numbers = values.map((value) => value ?? 0);
  if (numbers.length < 2) return null;
  const low = Math.min(...numbers);
  const span = Math.max(...numbers) - low || 1;
  const points = numbers.map(
    (value, index) =>
      `${((index / (numbers.length - 1)) * width).toFixed(1)},${(height - 2 - ((value - low) / span) * (height - 4)).toFixed(1)}`,
  );
  return (
    <svg
      className="spark"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      style={{ color }}
    >
      {fill && (
        <polygon points={`0,${height} ${points.join(' ')} ${width},${height}`} fill="currentColor" opacity="0.14" />
      )}
      <polyline className="ln" points={points.join(' ')} stroke="currentColor" />
    </svg>
  );
}

export function Legend({
  series,
  line,
}: {
  series: (Pick<Series, 'label' | 'color'> & { value?: ReactNode })[];
  line?: boolean;
}) {
  return (
    <span className="legend">
      {series.map((one) => (
        <span key={one.label} className={line ? 'l' : ''} style={{ ['--c' as string]: one.color }}>
          {one.label}
          {one.value !== undefined && <b>{one.value}</b>}
        </span>
      ))}
    </span>
  );
}

export function Meter({ share, color, label }: { share: number; color?: string; label: string }) {
  const width = `${Math.round(Math.min(1, Math.max(0, share)) * 100)}%`;
  return (
    <span className="meter" role="img" aria-label={label}>
      <i style={{ ['--w' as string]: width, ...(color ? { ['--c' as string]: color } : {}) }} />
    </span>
  );
}

/** Deaths in each of the last 24 hours, oldest first. */
export function Hourly({ counts }: { counts: number[] }) {
  const most = Math.max(1, ...counts);
  return (
    <span className="ticks" role="img" aria-label={`${counts.reduce((sum, number) => sum + number, 0)} in 24 hours`}>
      {counts.map((number, hour) =>
        number === 0 ? (
          <i key={hour} className="none" />
        ) : (
          <i key={hour} className="st-dead" style={{ height: `${Math.max(20, (number / most) * 100)}%` }} />
        ),
      )}
    </span>
  );
}

export function Props({ items }: { items: (readonly [ReactNode, ReactNode] | null | false)[] }) {
  return (
    <dl className="props">
      {items.map((item, index) =>
        item ? (
          <div key={index} className="prop">
            <dt>{item[0]}</dt>
            <dd>{item[1] ?? '–'}</dd>
          </div>
        ) : null,
      )}
    </dl>
  );
}

export function Strip({ items, flat }: { items: (readonly [ReactNode, ReactNode] | null | false)[]; flat?: boolean }) {
  return (
    <dl className={`strip ${flat ? 'flat' : ''}`}>
      {items.map((item, index) =>
        item ? (
          <div key={index}>
            <dt>{item[0]}</dt>
            <dd>{item[1] ?? '–'}</dd>
          </div>
        ) : null,
      )}
    </dl>
  );
}
