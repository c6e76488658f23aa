// Alerts: rules about the numbers of the environment, and the endpoints that get their pages.

import { Plus } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { offers } from '../capabilities';
import { useMay } from '../session';
import { Button } from '../ui/controls';
import { LiveButton, Page, Tabs } from '../ui/page';
import { useUrl } from '../url';
import { AlertEndpoints } from './parts/alert-endpoints';
import { AlertRules } from './parts/alert-rules';

const AlertDialog = lazy(() => import('./parts/alert-form'));

export default function Alerts() {
  const [url] = useUrl();
  const tab = url.tab === 'endpoints' || !offers.alertRules ? 'endpoints' : 'rules';
  const mayRule = useMay('POST /api/v1/alert');
  const mayEndpoint = useMay('PUT /api/v1/operational-webhook/endpoint/{endpoint_id}');
  const [adding, setAdding] = useState(false);
  const may = tab === 'rules' ? mayRule : mayEndpoint;
  return (
    <Page
      title="Alerts"
      tools={
        <>
          {tab === 'rules' && <LiveButton />}
          {may && (
            <Button kind="primary" icon={Plus} onClick={() => setAdding(true)}>
              {tab === 'rules' ? 'New alert' : 'New alert endpoint'}
            </Button>
          )}
        </>
      }
    >
      {offers.alertRules && (
        <Tabs
          label="Alerts"
          tabs={[
            { to: '/alerts', label: 'Rules', active: tab === 'rules' },
            { to: '/alerts', search: { tab: 'endpoints' }, label: 'Endpoints', active: tab === 'endpoints' },
          ]}
        />
      )}
      {tab === 'rules' ? (
        <AlertRules onAdd={may ? () => setAdding(true) : undefined} />
      ) : (
        <AlertEndpoints adding={adding} onAdded={() => setAdding(false)} />
      )}
      {tab === 'rules' && adding && (
        <Suspense>
          <AlertDialog rule={null} onClose={() => setAdding(false)} />
        </Suspense>
      )}
    </Page>
  );
}
