// Lists of objects: keyboard rows, selection with ranges, an open row, and pages by keyset.

import {
  rowSelectionFeature,
  tableFeatures,
  useTable,
  type ColumnDef,
  type RowSelectionState,
} from '@tanstack/react-table';
import { ChevronLeft, ChevronRight } from 'lucide-react';
import { useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode, type RefObject } from 'react';
import { useKeys } from '../keys';
import { fitColumns, type Sized } from '../lib/columns';
import { Button } from './controls';
import { Kbd } from './atoms';

const features = tableFeatures({ rowSelectionFeature });

/** `narrow` is the place in the two-line card of narrow screens: above left, above right, below left, below right, or none. */
export type Column<T> = Sized & {
  header: ReactNode;
  cell: (row: T) => ReactNode;
  /** Numbers are right-aligned. */
  num?: boolean;
  className?: string;
  /** Names a number on narrow screens, where the head is hidden. */
  unit?: string;
};

export type Selection = { ids: RowSelectionState; set: (ids: RowSelectionState) => void };

type Props<T extends object> = {
  columns: Column<T>[];
  rows: T[];
  rowId: (row: T) => string;
  label: string;
  selection?: Selection;
  openId?: string;
  onOpen?: (row: T) => void;
  fresh?: ReadonlySet<string>;
  /** Lists have a keyboard row; tables in cards do not. */
  keyboard?: boolean;
  card?: boolean;
};

export function DataTable<T extends object>(props: Props<T>) {
  const { columns, rows, rowId, label, selection, openId, onOpen, fresh, keyboard, card } = props;
  const [active, setActive] = useState(-1);
  const body = useRef<HTMLTableSectionElement>(null);
  const frame = useRef<HTMLTableElement>(null);
  const fit = useFit(frame, columns, selection ? CHECK_BOX : 0);
  const visible = useMemo(() => columns.filter(({ id }) => fit.has(id)), [columns, fit]);
  const definitions = useMemo(
    () =>
      visible.map((column): ColumnDef<typeof features, T> => ({
        id: column.id,
        cell: ({ row }) => column.cell(row.original),
      })),
    [visible],
  );
  const table = useTable({
    features,
    columns: definitions,
    data: rows,
    getRowId: rowId,
    enableRowSelection: selection !== undefined,
    state: { rowSelection: selection?.ids ?? none },
    onRowSelectionChange: (change) => selection?.set(typeof change === 'function' ? change(selection.ids) : change),
  });
  const model = table.getRowModel().rows;

  useEffect(() => {
    const at = openId === undefined ? -1 : rows.findIndex((row) => rowId(row) === openId);
    if (at >= 0) setActive(at);
  }, [openId, rows, rowId]);

  const move = (step: number) => {
    const next = Math.min(rows.length - 1, Math.max(0, active + step));
    setActive(next);
    body.current?.children[next]?.scrollIntoView({ block: 'nearest' });
    const row = rows[next];
    if (openId !== undefined && row !== undefined) onOpen?.(row);
  };
  const current = () => (active >= 0 ? model[active] : undefined);
  useKeys(
    {
      j: () => move(1),
      k: () => move(-1),
      o: () => current() && onOpen?.(rows[active] as T),
      Enter: () => current() && onOpen?.(rows[active] as T),
      x: () => current()?.toggleSelected(),
      a: () => selection && table.toggleAllRowsSelected(),
    },
    keyboard === true,
  );

  const all = selection && table.getIsAllRowsSelected() && rows.length > 0;
  const some = selection && !all && table.getIsSomeRowsSelected();
  return (
    <table className={`tbl rows ${card ? 'card-tbl' : ''}`} aria-label={label} ref={frame}>
      <colgroup>
        {selection && <col className="c-cb" />}
        {visible.map((column) => (
          <col key={column.id} style={fit.get(column.id) === undefined ? undefined : { width: fit.get(column.id) }} />
        ))}
      </colgroup>
      <thead>
        <tr>
          {selection && (
            <th className="c-cb" scope="col">
              <input
                type="checkbox"
                className={`cb ${some ? 'mixed' : ''}`}
                aria-label="Select all rows of this page"
                checked={all === true}
                onChange={() => table.toggleAllRowsSelected()}
              />
            </th>
          )}
          {visible.map((column) => (
            <th key={column.id} scope="col" className={[column.num ? 'num' : '', column.className ?? ''].join(' ')}>
              {column.header}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {model.map((row, index) => (
          <tr
            key={row.id}
            aria-selected={row.id === openId || (selection && row.getIsSelected()) || undefined}
            data-active={keyboard && index === active ? '' : undefined}
            className={[fresh?.has(row.id) ? 'fresh' : '', onOpen ? 'can-open' : ''].join(' ')}
            onClick={(event) => {
              if (!onOpen || (event.target as Element).closest('a, button, input, label')) return;
              if (window.getSelection()?.toString()) return;
              setActive(index);
              onOpen(row.original);
            }}
          >
            {selection && (
              <td className="c-cb">
                <input
                  type="checkbox"
                  className="cb"
                  aria-label={`Select ${row.id}`}
                  checked={row.getIsSelected()}
                  onChange={row.getToggleSelectedHandler()}
                  onClick={(event) => event.stopPropagation()}
                />
              </td>
            )}
            {visible.map((column) => (
              <td
                key={column.id}
                className={[column.num ? 'num' : '', column.className ?? '', narrowClass(column.narrow)].join(' ')}
              >
                {column.cell(row.original)}
                {column.unit && <span className="n-unit"> {column.unit}</span>}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The width of the column of check boxes. */
const CHECK_BOX = 44;
/** Up to this width rows are cards, and their style hides what has no place in them. */
const CARDS_MAX = 640;

/** The columns that fit into the place of the table, with their widths. */
function useFit<T>(
  frame: RefObject<HTMLTableElement | null>,
  columns: Column<T>[],
  taken: number,
): Map<string, number | undefined> {
  const [space, setSpace] = useState(Infinity);
  useLayoutEffect(() => {
    const place = frame.current?.parentElement;
    if (!place) return undefined;
    const measure = () => setSpace(window.innerWidth <= CARDS_MAX ? Infinity : place.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(place);
    return () => observer.disconnect();
  }, [frame]);
  return useMemo(
    () => new Map(fitColumns(columns, space - taken).map(({ id, width }) => [id, width])),
    [columns, space, taken],
  );
}

const none: RowSelectionState = {};

const narrowClass = (place: Column<unknown>['narrow']) =>
  place === undefined ? '' : place === 'drop' ? 'drop' : `n-${place}`;

export function useSelection(): Selection & { list: string[]; clear: () => void } {
  const [ids, set] = useState<RowSelectionState>({});
  const list = Object.keys(ids).filter((id) => ids[id]);
  return { ids, set, list, clear: () => set({}) };
}

/** What can be done with the selected rows. */
export function BulkBar({
  count,
  noun,
  onClear,
  children,
}: {
  count: number;
  noun: string;
  onClear: () => void;
  children: ReactNode;
}) {
  if (count === 0) return null;
  return (
    <div className="bulk" role="region" aria-label="Selected rows">
      <span>
        {count} {noun} selected
      </span>
      <span className="sep" />
      {children}
      <Button kind="ghost" size="sm" onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}

type PagerProps = {
  note: ReactNode;
  page?: { iterator: string | null; prevIterator?: string | null; done: boolean };
  cursor?: string;
  go: (cursor: string | undefined) => void;
  keys?: [string, string][];
};

/** Pages by keyset: the API's iterators, newest first. */
export function Pager({ note, page, cursor, go, keys = [] }: PagerProps) {
  const older = page && !page.done ? page.iterator : null;
  return (
    <footer className="foot">
      <span>{note}</span>
      {keys.map(([key, text]) => (
        <span key={key} className="keys">
          {key.split(' ').map((one) => (
            <Kbd key={one}>{one}</Kbd>
          ))}
          {text}
        </span>
      ))}
      <span className="push row">
        <Button kind="ghost" size="sm" disabled={!cursor} onClick={() => go(undefined)}>
          First
        </Button>
        <Button
          kind="ghost"
          size="sm"
          icon={ChevronLeft}
          disabled={!cursor || !page?.prevIterator}
          onClick={() => go(page?.prevIterator ?? undefined)}
        >
          Newer
        </Button>
        <Button kind="ghost" size="sm" disabled={!older} onClick={() => go(older ?? undefined)}>
          Older
          <ChevronRight className="i s" aria-hidden="true" />
        </Button>
      </span>
    </footer>
  );
}
