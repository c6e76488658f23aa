// Names of objects that rows know only by id.

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { endpointQuery, useAppName } from '../../api/queries';
import { shortId } from '../../lib/text';
import { Url } from '../../ui/atoms';

export function AppName({ app, link }: { app: string; link?: boolean }) {
  const name = useAppName(app);
  const text = name === app ? shortId(app) : name;
  if (!link) return <span className="t2">{text}</span>;
  return (
    <Link className="link" to="/apps/$app" params={{ app }}>
      {text}
    </Link>
  );
}

/** The URL of an endpoint; its id while it loads and after it was deleted. */
export function EndpointUrl({ app, ep }: { app: string; ep: string }) {
  const { data, isError } = useQuery({ ...endpointQuery(app, ep), retry: false });
  if (data) return <Url url={data.url} />;
  return isError ? <s className="mono t3">{shortId(ep)}</s> : <span className="mono t3">{shortId(ep)}</span>;
}
