// Time series on a canvas. Loaded with the first chart.

import { useEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clock, day, hourMinute } from '../lib/time';
import { usePreferences } from '../preferences';

export type Series = { label: string; color: string; values: (number | null)[]; fill?: number; width?: number };

type Props = {
  times: number[];
  series: Series[];
  height: number;
  label: string;
  format: (value: number) => string;
  /** A logarithmic axis, for latencies. */
  log?: boolean;
  stacked?: boolean;
  onRange?: (from: number, to: number) => void;
};

/** The value of a colour variable now; `light-dark()` is resolved by the browser. */
function resolve(color: string): string {
  const probe = document.createElement('span');
  probe.style.color = color;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function withAlpha(color: string, alpha: number): string {
  const parts = /rgba?\(([^)]+)\)/
    .exec(color)?.[1]
    ?.split(/[,\s/]+/)
    .slice(0, 3);
  return parts ? `rgb(${parts.join(' ')} / ${alpha})` : color;
}

/** Sums the series below each series. */
function stack(series: Series[]): (number | null)[][] {
  const totals: number[] = [];
  return series.map(({ values }) =>
    values.map((value, index) => (totals[index] = (totals[index] ?? 0) + (value ?? 0))),
  );
}

export default function Chart({ times, series, height, label, format, log, stacked }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [tip, setTip] = useState<{ index: number; left: number; width: number } | null>(null);
  const [asTable, setAsTable] = useState(false);
  const { zone, theme } = usePreferences();
  const data = useMemo(() => {
    const values = stacked ? stack(series) : series.map((one) => one.values);
    // A stack is drawn from the top, so that lower series cover higher ones.
    return [times, ...(stacked ? values.toReversed() : values)] as uPlot.AlignedData;
  }, [times, series, stacked]);
  const shape = series.map(({ label: name, color, fill, width }) => `${name}|${color}|${fill}|${width}`).join(';');

  useEffect(() => {
    const element = host.current;
    if (!element) return undefined;
    const axis = resolve('var(--chart-axis)');
    const grid = resolve('var(--chart-grid)');
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const drawn = stacked ? series.toReversed() : series;
    const options: uPlot.Options = {
      width: element.clientWidth,
      height,
      padding: [10, 16, 0, 0],
      legend: { show: false },
      tzDate: (seconds) =>
        zone === 'utc' ? uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') : new Date(seconds * 1000),
      cursor: { points: { size: 6 }, drag: { x: false, y: false }, y: false },
      scales: {
        x: { time: true },
        y: log
          ? { distr: 3, log: 10, range: (_, low, high) => decades(low, high) }
          : { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] },
      },
      axes: [
        {
          stroke: axis,
          font,
          size: 28,
          gap: 6,
          grid: { show: false },
          ticks: { show: false },
          space: 90,
          values: (_, splits) => splits.map((at) => axisTime(at * 1000, times, zone)),
        },
        {
          stroke: axis,
          font,
          size: 50,
          gap: 6,
          grid: { stroke: grid, width: 1 },
          ticks: { show: false },
          space: 34,
          values: (_, splits) => splits.map((value) => (value === null ? '' : format(value))),
          // A logarithmic axis has lines at powers of ten only.
          ...(log ? { splits: (_: uPlot, __: number, low: number, high: number) => powersOfTen(low, high) } : {}),
        },
      ],
      series: [
        {},
        ...drawn.map(({ label: name, color, fill, width = 1.5 }) => {
          const stroke = resolve(color);
          return {
            label: name,
            stroke,
            width,
            points: { show: (self: uPlot, at: number) => isSparse(self.data[at]), size: 5 },
            spanGaps: log === true,
            fill: fill ? withAlpha(stroke, fill) : undefined,
          };
        }),
      ],
      hooks: {
        setCursor: [
          (self) => {
            const { idx, left } = self.cursor;
            setTip(
              idx === null || idx === undefined || left === undefined || left < 0
                ? null
                : { index: idx, left: left + 50, width: element.clientWidth },
            );
          },
        ],
      },
    };
    const made = new uPlot(options, data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
    // Data changes are applied below without a new canvas.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [shape, height, log, stacked, zone, theme, format]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  return (
    <figure className="uchart">
      <div ref={host} role="img" aria-label={label} className={asTable ? 'sr' : ''} />
      {tip && !asTable && times[tip.index] !== undefined && (
        <div
          className="tip"
          style={
            tip.left > tip.width / 2 ? { right: tip.width - tip.left + 14, top: 18 } : { left: tip.left + 14, top: 18 }
          }
        >
          <h4>
            {clock((times[tip.index] ?? 0) * 1000, zone)}
            {zone === 'utc' ? ' UTC' : ''}
          </h4>
          {series.map((one) => {
            const value = one.values[tip.index];
            return (
              <div key={one.label} style={{ ['--c' as string]: one.color }}>
                {one.label}
                <b>{value === null || value === undefined ? '–' : format(value)}</b>
              </div>
            );
          })}
        </div>
      )}
      {asTable && <ChartTable times={times} series={series} format={format} />}
      <button type="button" className="chart-as" onClick={() => setAsTable(!asTable)}>
        {asTable ? 'Show as chart' : 'Show as table'}
      </button>
    </figure>
  );
}

/** Few values make no visible line: they are drawn as points. */
function isSparse(values: ArrayLike<unknown> | undefined): boolean {
  return Array.from(values ?? []).filter((value) => value !== null && value !== undefined).length <= 3;
}

/** Whole powers of ten around the values; one decade at least. */
function decades(low: number | null, high: number | null): [number, number] {
  const first = Math.floor(Math.log10(Math.max(low ?? 1, 1e-3)));
  const last = Math.ceil(Math.log10(Math.max(high ?? 1, 1e-3)));
  return [10 ** first, 10 ** Math.max(last, first + 1)];
}

function powersOfTen(low: number, high: number): number[] {
  const first = Math.ceil(Math.log10(Math.max(low, 1e-3)) - 1e-9);
  const last = Math.floor(Math.log10(Math.max(high, 1e-3)) + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => 10 ** (first + index));
}

function axisTime(at: number, times: number[], zone: 'utc' | 'local'): string {
  const span = ((times.at(-1) ?? 0) - (times[0] ?? 0)) * 1000;
  return span > 2 * 86_400_000 ? day(at, Date.now(), zone) : hourMinute(at, zone);
}

function ChartTable({ times, series, format }: Pick<Props, 'times' | 'series' | 'format'>) {
  const { zone } = usePreferences();
  return (
    <div className="chart-table" tabIndex={0} role="group" aria-label="Values of the chart">
      <table className="tbl card-tbl compact">
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map((one) => (
              <th key={one.label} scope="col" className="num">
                {one.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {times.map((at, index) => (
            <tr key={at}>
              <td>{clock(at * 1000, zone)}</td>
              {series.map((one) => {
                const value = one.values[index];
                return (
                  <td key={one.label} className="num">
                    {value === null || value === undefined ? '–' : format(value)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
