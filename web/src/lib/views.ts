// Saved views: named sets of filters, kept in the browser. Pure.

export type View = { name: string; search: Record<string, string> };

export const VIEWS_MAX = 30;
const NAME_MAX = 60;

/** The filters of a URL that a view keeps. */
export function searchOf(url: Record<string, string | undefined>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (url[name] ? [[name, url[name]]] : [])));
}

export const nameOf = (text: string): string => text.trim().slice(0, NAME_MAX);

/** Adds a view, or replaces the one of the same name. */
export function withView(views: View[], view: View): View[] {
  const others = views.filter(({ name }) => name !== view.name);
  return [...others, view].toSorted((a, b) => a.name.localeCompare(b.name)).slice(0, VIEWS_MAX);
}

export const isSame = (a: Record<string, string>, b: Record<string, string>): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(a).every(([name, value]) => b[name] === value);

/** Reads stored views. Anything else in the storage is ignored. */
export function parseViews(text: string | null): View[] {
  try {
    const stored: unknown = JSON.parse(text ?? '[]');
    if (!Array.isArray(stored)) return [];
    return stored.flatMap((one: unknown) => {
      if (typeof one !== 'object' || one === null) return [];
      const { name, search } = one as Partial<View>;
      if (typeof name !== 'string' || !name || typeof search !== 'object' || search === null) return [];
      return [
        { name, search: Object.fromEntries(Object.entries(search).filter(([, value]) => typeof value === 'string')) },
      ];
    });
  } catch {
    return [];
  }
}
