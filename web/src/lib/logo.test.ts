import { expect, it } from 'vitest';
import { isLogo } from './logo';

it('shows only images that are part of the settings', () => {
  expect(isLogo('data:image/png;base64,iVBORw0KGgo=')).toBe(true);
  expect(isLogo('data:image/svg+xml;base64,PHN2Zz4=')).toBe(true);
  for (const url of [
    undefined,
    '',
    'https://example.com/x.png',
    'data:text/html;base64,eA==',
    'data:image/png;base64,<script>',
    'javascript:alert(1)',
  ])
    expect(isLogo(url)).toBe(false);
});
