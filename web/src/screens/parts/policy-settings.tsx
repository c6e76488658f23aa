// The settings of a policy beside the retries: the value in force, its origin, and a form for the own value of a level.

import { originText, type Level, type Setting } from '../../lib/policy';
import { draftError, INHERIT, OFF, OWN, settingText, type Draft, type Rule } from '../../lib/settings';
import { SelectField, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';

type Props = {
  level: Level;
  list: readonly Rule[];
  effective: Record<string, Setting<unknown>>;
  drafts: Record<string, Draft>;
  set: (key: string, draft: Draft) => void;
  errors: Record<string, string>;
  readOnly: boolean;
};

export function PolicySettings({ level, list, effective, drafts, set, errors, readOnly }: Props) {
  return (
    <Card title="Limits, order and holds" sub="empty settings are inherited">
      <div className="in settings">
        {list.map((rule) => (
          <Row
            key={rule.key}
            level={level}
            rule={rule}
            setting={effective[rule.key]}
            draft={drafts[rule.key] ?? { mode: INHERIT, parts: {} }}
            set={(draft) => set(rule.key, draft)}
            error={errors[rule.key]}
            errors={errors}
            readOnly={readOnly}
          />
        ))}
      </div>
    </Card>
  );
}

type RowProps = {
  level: Level;
  rule: Rule;
  setting?: Setting<unknown>;
  draft: Draft;
  set: (draft: Draft) => void;
  error?: string;
  errors: Record<string, string>;
  readOnly: boolean;
};

function Row({ level, rule, setting, draft, set, error, errors, readOnly }: RowProps) {
  const options: [string, string][] = [
    [INHERIT, `Inherited${setting && setting.from !== level ? `: ${settingText(rule.key, setting.value)}` : ''}`],
    ...(rule.off ? [[OFF, rule.off] as [string, string]] : []),
    ...(rule.choices ?? []).map(([name, label]) => [name, label] as [string, string]),
    ...(rule.own ? [[OWN, rule.own] as [string, string]] : []),
  ];
  const origin = setting && (
    <>
      {settingText(rule.key, setting.value)} · {originText(setting.from, level)}
      {setting.forEventType && ', this event type'}
    </>
  );
  const wrong = draftError(rule, draft);
  return (
    <div className="setting">
      <SelectField
        label={rule.label}
        hint={rule.hint}
        origin={origin}
        value={draft.mode}
        options={options}
        onChange={(mode) => set({ ...draft, mode })}
        error={error ?? (draft.mode === OWN ? wrong : null)}
        disabled={readOnly}
      />
      {draft.mode === OWN && (
        <div className="fgrid parts">
          {(rule.parts ?? []).map((part) => (
            <TextField
              key={part.name}
              label={part.label}
              unit={part.unit}
              mono={part.text}
              placeholder={part.placeholder}
              inputMode={part.text ? undefined : 'numeric'}
              value={draft.parts[part.name] ?? ''}
              onChange={(text) => set({ ...draft, parts: { ...draft.parts, [part.name]: text } })}
              error={part.name ? errors[`${rule.key}.${part.name}`] : undefined}
              readOnly={readOnly}
            />
          ))}
        </div>
      )}
    </div>
  );
}
