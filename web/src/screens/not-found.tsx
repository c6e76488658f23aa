import { Link } from '@tanstack/react-router';
import { home } from '../capabilities';
import { Empty } from '../ui/status';

export function NotFound() {
  return (
    <main className="lone">
      <Empty
        title="Not found"
        action={
          <Link className="btn" to={home}>
            Go to the start
          </Link>
        }
      >
        No screen has this address. Paste an id into the search to find an object.
      </Empty>
    </main>
  );
}
