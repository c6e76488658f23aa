// Buttons, segments, switches and fields.

import { CircleAlert } from 'lucide-react';
import { Switch as RadixSwitch } from 'radix-ui';
import {
  useId,
  type ButtonHTMLAttributes,
  type ComponentType,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
} from 'react';
import { Kbd } from './atoms';

type IconType = ComponentType<{ className?: string; 'aria-hidden'?: 'true' }>;

export type ButtonProps = Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'type'> & {
  kind?: 'primary' | 'danger' | 'danger-solid' | 'ghost';
  size?: 'sm';
  icon?: IconType;
  hint?: string;
  busy?: boolean;
  submit?: boolean;
};

export function Button({
  kind,
  size,
  icon: Icon,
  hint,
  busy,
  submit,
  className,
  children,
  disabled,
  ...rest
}: ButtonProps) {
  const names = ['btn', kind, size, className].filter(Boolean).join(' ');
  return (
    <button
      type={submit ? 'submit' : 'button'}
      className={names}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      {...rest}
    >
      {busy ? <span className="spin" aria-hidden="true" /> : Icon && <Icon className="i" aria-hidden="true" />}
      <span className="lbl">{children}</span>
      {hint && <Kbd>{hint}</Kbd>}
    </button>
  );
}

export function IconButton({
  icon: Icon,
  label,
  size,
  kind = 'ghost',
  className,
  ...rest
}: ButtonProps & { icon: IconType; label: string }) {
  return (
    <button
      type="button"
      className={['btn icon', kind, size, className].filter(Boolean).join(' ')}
      aria-label={label}
      title={label}
      {...rest}
    >
      <Icon className="i" aria-hidden="true" />
    </button>
  );
}

/** A choice of one, as buttons in a row. */
export function Seg<T extends string>({
  value,
  options,
  onChange,
  label,
  small,
}: {
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  label: string;
  small?: boolean;
}) {
  return (
    <div className={`seg ${small ? 'sm' : ''}`} role="group" aria-label={label}>
      {options.map(([key, text]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onChange(key)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export function Switch({
  checked,
  onChange,
  label,
  disabled,
}: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  label: string;
  disabled?: boolean;
}) {
  return (
    <RadixSwitch.Root
      className={`switch ${checked ? 'on' : ''}`}
      checked={checked}
      onCheckedChange={onChange}
      aria-label={label}
      disabled={disabled}
    />
  );
}

export type FieldProps = {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | null;
  origin?: ReactNode;
  optional?: boolean;
};

/** Label, control, hint and error. The control gets the ids from the render function. */
export function Field({
  label,
  hint,
  error,
  origin,
  optional,
  children,
}: FieldProps & { children: (ids: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: true }) => ReactNode }) {
  const id = useId();
  const note = `${id}-note`;
  const described = error || hint ? note : undefined;
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {optional && <span className="origin">optional</span>}
        {origin && <span className="origin push">{origin}</span>}
      </label>
      {children({ id, 'aria-describedby': described, 'aria-invalid': error ? true : undefined })}
      {error ? (
        <span className="err" id={note}>
          <CircleAlert className="i xs" aria-hidden="true" />
          {error}
        </span>
      ) : (
        hint && (
          <span className="hint" id={note}>
            {hint}
          </span>
        )
      )}
    </div>
  );
}

type Wrapped<T> = FieldProps & Omit<T, 'onChange' | 'value'> & { value: string; onChange: (value: string) => void };

export function TextField({
  label,
  hint,
  error,
  origin,
  optional,
  value,
  onChange,
  unit,
  mono,
  ...rest
}: Wrapped<InputHTMLAttributes<HTMLInputElement>> & { unit?: string; mono?: boolean }) {
  return (
    <Field label={label} hint={hint} error={error} origin={origin} optional={optional}>
      {(ids) => (
        <span className={`inp ${error ? 'bad' : ''}`}>
          <input
            {...ids}
            className={mono ? 'mono' : undefined}
            value={value}
            onChange={(event) => onChange(event.target.value)}
            autoComplete="off"
            spellCheck={false}
            {...rest}
          />
          {unit && <span className="unit">{unit}</span>}
        </span>
      )}
    </Field>
  );
}

export function AreaField({
  label,
  hint,
  error,
  origin,
  optional,
  value,
  onChange,
  mono = true,
  ...rest
}: Wrapped<TextareaHTMLAttributes<HTMLTextAreaElement>> & { mono?: boolean }) {
  return (
    <Field label={label} hint={hint} error={error} origin={origin} optional={optional}>
      {(ids) => (
        <textarea
          {...ids}
          className={`inp area ${mono ? 'mono' : ''} ${error ? 'bad' : ''}`}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          rows={6}
          spellCheck={false}
          {...rest}
        />
      )}
    </Field>
  );
}

export function SelectField({
  label,
  hint,
  error,
  origin,
  optional,
  value,
  onChange,
  options,
  ...rest
}: Wrapped<SelectHTMLAttributes<HTMLSelectElement>> & { options: readonly (readonly [string, string])[] }) {
  return (
    <Field label={label} hint={hint} error={error} origin={origin} optional={optional}>
      {(ids) => (
        <select
          {...ids}
          className={`inp ${error ? 'bad' : ''}`}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          {...rest}
        >
          {options.map(([key, text]) => (
            <option key={key} value={key}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function CheckRow({
  label,
  checked,
  onChange,
  hint,
}: {
  label: ReactNode;
  checked: boolean;
  onChange: (checked: boolean) => void;
  hint?: ReactNode;
}) {
  return (
    <label className="checkrow">
      <input type="checkbox" className="cb" checked={checked} onChange={(event) => onChange(event.target.checked)} />
      <span>
        {label}
        {hint && <small>{hint}</small>}
      </span>
    </label>
  );
}
