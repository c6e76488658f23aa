// A panel beside a list: J and K walk the list behind it, Esc closes it.

import { ChevronDown, ChevronUp, Maximize2, X } from 'lucide-react';
import { useEffect, useRef, type ReactNode } from 'react';
import { useKeys } from '../keys';
import { IconButton } from './controls';

export function Split({ list, panel }: { list: ReactNode; panel?: ReactNode }) {
  if (!panel) return <div className="col grow">{list}</div>;
  return (
    <div className="split">
      <div className="col">{list}</div>
      {panel}
    </div>
  );
}

type Props = {
  title: ReactNode;
  label: string;
  onClose: () => void;
  onStep?: (step: 1 | -1) => void;
  full?: ReactNode;
  sub?: ReactNode;
  footer?: ReactNode;
  children: ReactNode;
};

export function Panel({ title, label, onClose, onStep, full, sub, footer, children }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useKeys({ Escape: onClose });
  useEffect(() => {
    const before = document.activeElement;
    heading.current?.focus({ preventScroll: true });
    return () => {
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <aside className="panel" aria-label={label}>
      <header>
        <div className="ptools">
          {onStep && (
            <>
              <IconButton icon={ChevronUp} label="Previous (K)" size="sm" onClick={() => onStep(-1)} />
              <IconButton icon={ChevronDown} label="Next (J)" size="sm" onClick={() => onStep(1)} />
            </>
          )}
          <span className="push row">
            {full}
            <IconButton icon={X} label="Close (Esc)" size="sm" onClick={onClose} />
          </span>
        </div>
        <h2 ref={heading} tabIndex={-1}>
          {title}
        </h2>
        {sub && <div className="subtitle">{sub}</div>}
      </header>
      <div className="scroll" tabIndex={-1}>
        {children}
      </div>
      {footer && <footer>{footer}</footer>}
    </aside>
  );
}

export const OpenIcon = Maximize2;

/** Steps through the rows behind a panel. */
export function stepper<T>(rows: T[], id: (row: T) => string, openId: string | undefined, open: (row: T) => void) {
  return (step: 1 | -1) => {
    const at = rows.findIndex((row) => id(row) === openId);
    const next = rows[at + step];
    if (next) open(next);
  };
}
