// Which columns of a list fit into its width. Pure.

export type Sized = {
  id: string;
  /** Pixels. Columns without a width share the rest. */
  width?: number;
  /** The width where space is scarce. */
  tight?: number;
  /** The place in the card of narrow screens. */
  narrow?: 'a' | 'b' | 'c' | 'd' | 'drop';
  /** Among the first columns that are dropped. */
  wide?: boolean;
};

export type Fit = { id: string; width?: number };

/** The least width of a column that shares the rest, such as a name. */
const SHARED_MIN = 160;

/** The columns that fit into `space` pixels: all of them, or with tight widths, or without the less important ones. */
export function fitColumns(columns: readonly Sized[], space: number): Fit[] {
  const needs = (list: readonly Sized[], tight: boolean) =>
    list.reduce((sum, column) => sum + (widthOf(column, tight) ?? SHARED_MIN), 0);
  if (needs(columns, false) <= space) return columns.map(({ id, width }) => ({ id, width }));
  let left = [...columns];
  for (const dropped of order(columns)) {
    if (needs(left, true) <= space) break;
    left = left.filter((column) => column !== dropped);
  }
  return left.map((column) => ({ id: column.id, width: widthOf(column, true) }));
}

const widthOf = (column: Sized, tight: boolean) => (tight ? (column.tight ?? column.width) : column.width);

/** The order of dropping, from the right: first the details, then the columns that cards drop, then their third line. */
function order(columns: readonly Sized[]): Sized[] {
  const right = columns.filter(({ width, tight }) => width !== undefined || tight !== undefined).toReversed();
  const details = right.filter(({ wide }) => wide);
  const drops = right.filter(({ wide, narrow }) => !wide && narrow === 'drop');
  return [...details, ...drops, ...right.filter(({ wide, narrow }) => !wide && narrow === 'c')];
}
