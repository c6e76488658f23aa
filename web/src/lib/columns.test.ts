import { describe, expect, it } from 'vitest';
import { fitColumns, type Sized } from './columns';

const columns: Sized[] = [
  { id: 'time', width: 128, narrow: 'b' },
  { id: 'type', narrow: 'a' },
  { id: 'app', width: 180, narrow: 'c' },
  { id: 'deliveries', width: 300, tight: 220, narrow: 'd' },
  { id: 'size', width: 100, narrow: 'drop' },
  { id: 'tags', width: 150, wide: true, narrow: 'drop' },
  { id: 'id', width: 150, wide: true, narrow: 'c' },
];
const ids = (space: number) => fitColumns(columns, space).map(({ id }) => id);

describe('fitColumns', () => {
  it('keeps every column where there is room', () => {
    expect(fitColumns(columns, 1168)).toEqual(columns.map(({ id, width }) => ({ id, width })));
  });

  it('narrows columns before it drops one', () => {
    expect(fitColumns(columns, 1100).find(({ id }) => id === 'deliveries')?.width).toBe(220);
    expect(ids(1100)).toHaveLength(7);
  });

  it('drops the details first, from the right', () => {
    expect(ids(1000)).toEqual(['time', 'type', 'app', 'deliveries', 'size', 'tags']);
    expect(ids(800)).toEqual(['time', 'type', 'app', 'deliveries', 'size']);
    expect(ids(700)).toEqual(['time', 'type', 'app', 'deliveries']);
  });

  it('never drops the name, the time and the state', () => {
    expect(ids(100)).toEqual(['time', 'type', 'deliveries']);
  });
});
