import { expect, it } from 'vitest';
import { isSame, nameOf, parseViews, searchOf, VIEWS_MAX, withView } from './views';

it('keeps the filters of a view and leaves the rest of the URL out', () => {
  expect(searchOf({ type: 'a.b', tag: undefined, cursor: 'msg_1', status: '' }, ['type', 'tag', 'status'])).toEqual({
    type: 'a.b',
  });
  expect(nameOf(`  ${'x'.repeat(100)} `)).toHaveLength(60);
});

it('replaces a view of the same name and bounds their number', () => {
  const views = withView(withView([{ name: 'b', search: {} }], { name: 'a', search: { tag: '1' } }), {
    name: 'a',
    search: { tag: '2' },
  });
  expect(views).toEqual([
    { name: 'a', search: { tag: '2' } },
    { name: 'b', search: {} },
  ]);
  const many = Array.from({ length: 100 }, (_, n) => ({ name: String(n), search: {} })).reduce(withView, []);
  expect(many).toHaveLength(VIEWS_MAX);
});

it('compares filters', () => {
  expect(isSame({ a: '1', b: '2' }, { b: '2', a: '1' })).toBe(true);
  expect(isSame({ a: '1' }, { a: '1', b: '2' })).toBe(false);
});

it('ignores a storage that holds something else', () => {
  expect(parseViews(null)).toEqual([]);
  expect(parseViews('{')).toEqual([]);
  expect(parseViews('[1, null, {"name": ""}, {"name": "x", "search": {"a": 1, "b": "2"}}]')).toEqual([
    { name: 'x', search: { b: '2' } },
  ]);
});
