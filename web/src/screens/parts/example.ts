// The example payload of an event type: one of its schema, else one that is made from its properties.

import type { EventType } from '../../api/types';

type Schema = {
  examples?: unknown[];
  example?: unknown;
  type?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  default?: unknown;
  enum?: unknown[];
};

export function exampleOf(type: Pick<EventType, 'schemas'> | undefined): string | undefined {
  const schemas = type?.schemas as Record<string, Schema> | null | undefined;
  const newest = Object.keys(schemas ?? {}).sort((a, b) => Number(b) - Number(a))[0];
  const schema = newest === undefined ? undefined : schemas?.[newest];
  if (!schema) return undefined;
  return JSON.stringify(valueOf(schema, 0), null, 2);
}

const DEPTH_MAX = 6;

function valueOf(schema: Schema, depth: number): unknown {
  if (schema.examples?.length) return schema.examples[0];
  if (schema.example !== undefined) return schema.example;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum?.length) return schema.enum[0];
  if (depth > DEPTH_MAX) return null;
  switch (schema.type) {
    case 'string':
      return 'text';
    case 'integer':
    case 'number':
      return 1;
    case 'boolean':
      return true;
    case 'array':
      return schema.items ? [valueOf(schema.items, depth + 1)] : [];
    case 'null':
      return null;
    default:
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, child]) => [name, valueOf(child, depth + 1)]),
      );
  }
}
