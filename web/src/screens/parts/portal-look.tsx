// The look of the consumer portal: name, logo, accent and the way back.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, messageOf, raw } from '../../api/client';
import { useChange } from '../../api/queries';
import type { PortalSettings } from '../../api/types';
import { isLogo } from '../../lib/logo';
import { textOn } from '../../portal/access';
import { useMay } from '../../session';
import { Button, Field, TextField } from '../../ui/controls';
import { Card } from '../../ui/figures';
import { Callout, Loaded } from '../../ui/status';
import { toast } from '../../ui/toast';

const PATH = '/api/v1/portal-settings';
/** The server takes 64 KB with the encoding. */
const LOGO_BYTES_MAX = 48_000;
const LOGO_TYPES = 'image/png,image/jpeg,image/webp,image/svg+xml';

export function PortalLookCard() {
  const query = useQuery({ queryKey: ['portalSettings'], queryFn: () => raw<PortalSettings>('GET', PATH) });
  return (
    <Card title="Consumer portal" sub="what customers of all applications see">
      <div className="in">
        <Loaded query={query} what="The look of the portal" rows={4}>
          {(stored) => <Form key={JSON.stringify(stored)} stored={stored} />}
        </Loaded>
      </div>
    </Card>
  );
}

function Form({ stored }: { stored: PortalSettings }) {
  const may = useMay('PUT /api/v1/portal-settings');
  const [name, setName] = useState(stored.name ?? '');
  const [accent, setAccent] = useState(stored.accent ?? '');
  const [back, setBack] = useState(stored.backUrl ?? '');
  const [logo, setLogo] = useState(stored.logoUrl ?? '');
  const [logoError, setLogoError] = useState<string | null>(null);
  const look: PortalSettings = {
    name: name.trim() || undefined,
    accent: accent.trim() || undefined,
    backUrl: back.trim() || undefined,
    logoUrl: logo || undefined,
  };
  const save = useChange(
    () => raw<PortalSettings>('PUT', PATH, { body: look }),
    ['portalSettings'],
    () => toast('Portal saved', { text: 'Open portals show it after a reload.' }),
  );
  const fields =
    save.error instanceof ApiFailure
      ? Object.fromEntries(save.error.fields.map(({ field, message }) => [field, message]))
      : {};
  const changed =
    name !== (stored.name ?? '') ||
    accent !== (stored.accent ?? '') ||
    back !== (stored.backUrl ?? '') ||
    logo !== (stored.logoUrl ?? '');
  const choose = async (file: File | undefined) => {
    if (!file) return;
    if (!LOGO_TYPES.split(',').includes(file.type)) return setLogoError('Choose a PNG, JPEG, WebP or SVG image');
    if (file.size > LOGO_BYTES_MAX) return setLogoError('The image must have at most 48 KB');
    setLogoError(null);
    setLogo(await dataUrl(file));
  };
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate(undefined);
      }}
    >
      <Preview look={look} />
      <div className="fgrid two-col">
        <TextField
          label="Name"
          optional
          value={name}
          onChange={setName}
          placeholder="Webhooks"
          error={fields.name}
          readOnly={!may}
        />
        <TextField
          label="Accent"
          optional
          value={accent}
          onChange={setAccent}
          mono
          placeholder="#5b5bd6"
          error={fields.accent}
          readOnly={!may}
        />
        <TextField
          label="Link back"
          optional
          value={back}
          onChange={setBack}
          mono
          placeholder="https://app.example.com"
          error={fields.backUrl}
          readOnly={!may}
        />
        <Field label="Logo" optional hint="PNG, JPEG, WebP or SVG, at most 48 KB" error={logoError ?? fields.logoUrl}>
          {(ids) => (
            <span className="row">
              <input
                {...ids}
                type="file"
                className="file"
                accept={LOGO_TYPES}
                disabled={!may}
                onChange={(event) => void choose(event.target.files?.[0])}
              />
              {logo && may && (
                <Button size="sm" kind="ghost" onClick={() => setLogo('')}>
                  Remove
                </Button>
              )}
            </span>
          )}
        </Field>
      </div>
      {save.isError && Object.keys(fields).length === 0 && <Callout look="dead" title={messageOf(save.error)} />}
      {may && (
        <span>
          <Button submit busy={save.isPending} disabled={!changed}>
            Save portal
          </Button>
        </span>
      )}
    </form>
  );
}

/** The head of the portal with these settings. */
function Preview({ look }: { look: PortalSettings }) {
  const name = look.name ?? 'Webhooks';
  const on = look.accent ? textOn(look.accent) : null;
  const style = on ? { ['--brand' as string]: look.accent, ['--brand-on' as string]: on } : undefined;
  return (
    <div className="look" style={style} role="img" aria-label={`The head of the portal: ${name}`}>
      {isLogo(look.logoUrl) ? (
        <img className="look-logo" src={look.logoUrl} alt="" />
      ) : (
        <span className="look-logo">{name.slice(0, 1)}</span>
      )}
      <b className="cut">{name}</b>
      <span className="look-button push">Add endpoint</span>
    </div>
  );
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error('The file cannot be read.'));
    reader.readAsDataURL(file);
  });
}
