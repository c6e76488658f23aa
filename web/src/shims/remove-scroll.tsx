// Stands in for the package `react-remove-scroll` (see vite.config.ts): it renders its child without a scroll lock.
import { Slot } from 'radix-ui';
import { forwardRef, type HTMLAttributes } from 'react';

type Props = HTMLAttributes<HTMLElement> & {
  as?: unknown;
  allowPinchZoom?: boolean;
  shards?: unknown;
  forwardProps?: boolean;
  enabled?: boolean;
  removeScrollBar?: boolean;
};

export const RemoveScroll = forwardRef<HTMLElement, Props>(function RemoveScroll(
  {
    as: _as,
    allowPinchZoom: _pinch,
    shards: _shards,
    forwardProps: _forward,
    enabled: _enabled,
    removeScrollBar: _bar,
    ...props
  },
  ref,
) {
  return <Slot.Root ref={ref} {...props} />;
});
