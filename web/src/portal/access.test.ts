import { expect, it } from 'vitest';
import { allows, readToken, textOn } from './access';

const token = (claims: object) =>
  `h.${btoa(JSON.stringify(claims)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}.s`;

it('reads capabilities and the end of a token', () => {
  const some = readToken(token({ capabilities: ['ViewBase'], exp: 10 }));
  expect([allows(some, 'ViewBase'), allows(some, 'CreateAttempts'), some.expiresAt]).toEqual([true, false, 10_000]);
  expect(allows(readToken(token({})), 'ManageEndpoint')).toBe(true);
  expect(readToken('not a token').capabilities).toBeNull();
});

it('chooses a readable text colour', () => {
  expect([textOn('#6d3a9c'), textOn('#ffe066'), textOn('red'), textOn('#123456;x')]).toEqual([
    '#ffffff',
    '#000000',
    null,
    null,
  ]);
});
