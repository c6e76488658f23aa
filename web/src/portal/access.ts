// The token of the portal. It comes in the fragment of the address, which browsers do not send to servers, and leaves the
// address bar at once. It stays in the tab.

export type Access = { token: string; capabilities: ReadonlySet<string> | null; expiresAt: number | null };

const key = (app: string) => `everhook.portal.${app}`;

/** The payload of a token. The server checks its signature; the page only hides buttons that would fail. */
export function readToken(token: string): Access {
  try {
    const part = token.split('.')[1] ?? '';
    const claims = JSON.parse(atob(part.replaceAll('-', '+').replaceAll('_', '/'))) as {
      capabilities?: unknown;
      exp?: unknown;
    };
    const names = Array.isArray(claims.capabilities) ? new Set(claims.capabilities.map(String)) : null;
    return { token, capabilities: names, expiresAt: typeof claims.exp === 'number' ? claims.exp * 1000 : null };
  } catch {
    return { token, capabilities: null, expiresAt: null };
  }
}

export function takeAccess(app: string): Access | null {
  const given = new URLSearchParams(location.hash.slice(1)).get('token');
  if (given) {
    history.replaceState(history.state, '', location.pathname + location.search);
    try {
      sessionStorage.setItem(key(app), given);
    } catch {
      // An embedded page may have no storage: the token then lasts until a reload.
    }
    return readToken(given);
  }
  try {
    const kept = sessionStorage.getItem(key(app));
    return kept ? readToken(kept) : null;
  } catch {
    return null;
  }
}

export function dropAccess(app: string): void {
  try {
    sessionStorage.removeItem(key(app));
  } catch {
    // Nothing was stored.
  }
}

/** A token without a list has every capability. */
export const allows = (access: Access, capability: string): boolean =>
  access.capabilities === null || access.capabilities.has(capability);

/** Black or white, whichever is easier to read on a colour; null if the colour is not a hex colour. */
export function textOn(color: string): '#000000' | '#ffffff' | null {
  const match = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(color);
  if (!match) return null;
  const linear = (hex: string | undefined) => {
    const value = Number.parseInt(hex ?? '0', 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * linear(match[1]) + 0.7152 * linear(match[2]) + 0.0722 * linear(match[3]);
  return (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) ? '#000000' : '#ffffff';
}
