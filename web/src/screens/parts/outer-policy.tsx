// The delivery policies of an application and of the environment. They hold for endpoints without settings of their own.

import { useQuery } from '@tanstack/react-query';
import { raw } from '../../api/client';
import { useMay } from '../../session';
import { Loaded } from '../../ui/status';
import { environmentPolicyQuery } from './pause';
import { PolicyForm, type Effective, type Own } from './policy-form';

const nouns = ['apps', 'endpoints', 'environmentPolicy'];

export function ApplicationPolicy({ app, own }: { app: string; own: Own }) {
  const base = `/api/v1/app/${encodeURIComponent(app)}`;
  const may = useMay('PATCH /api/v1/app/{app_id}');
  const query = useQuery({ queryKey: ['apps', 'policy', app], queryFn: () => raw<Effective>('GET', `${base}/policy`) });
  return (
    <>
      <p className="t2">
        For every endpoint of this application, setting by setting, unless the endpoint has its own. Changes apply at
        once, also to waiting deliveries.
      </p>
      <Loaded query={query} what="The policy">
        {(effective) => (
          <PolicyForm
            key={JSON.stringify([effective, own])}
            level="application"
            effective={effective}
            own={own}
            may={may}
            read={async () => (await raw<{ policy?: Own }>('GET', base)).policy}
            write={(policy) => raw('PATCH', base, { body: { policy } })}
            nouns={nouns}
          />
        )}
      </Loaded>
    </>
  );
}

const ENVIRONMENT = '/api/v1/environment/policy';

export function EnvironmentPolicy() {
  const may = useMay(`PUT ${ENVIRONMENT}`);
  const own = useQuery(environmentPolicyQuery);
  const query = useQuery({
    queryKey: ['environmentPolicy', 'effective'],
    queryFn: () => raw<Effective>('GET', '/api/v1/environment/effective-policy'),
  });
  return (
    <>
      <p className="t2">
        For every endpoint of this environment, setting by setting, unless the endpoint or its application has its own.
        Every replica applies a change within 5 seconds.
      </p>
      <Loaded query={own} what="The policy of the environment">
        {(policy) => (
          <Loaded query={query} what="The policy">
            {(effective) => (
              <PolicyForm
                key={JSON.stringify([effective, policy])}
                level="environment"
                effective={effective}
                own={policy as Own}
                may={may}
                read={() => raw<Own>('GET', ENVIRONMENT)}
                write={(next) => raw('PUT', ENVIRONMENT, { body: next ?? {} })}
                nouns={nouns}
              />
            )}
          </Loaded>
        )}
      </Loaded>
    </>
  );
}
