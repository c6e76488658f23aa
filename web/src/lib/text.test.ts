import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { bytes, clip, count, curl, initials, percent, plural, rate, shellQuote, shortId, urlParts } from './text';

describe('numbers', () => {
  it('groups, counts and measures', () => {
    expect(count(1188)).toBe('1,188');
    expect(plural(1, 'message')).toBe('1 message');
    expect(plural(2, 'delivery', 'deliveries')).toBe('2 deliveries');
    expect([612, 4100, 12_840, 999_960, 1_000_000].map(bytes)).toEqual([
      '612 B',
      '4.1 kB',
      '13 kB',
      '1.0 MB',
      '1.0 MB',
    ]);
  });
  it('does not round a failure away', () => {
    expect([1, 0.99999, 0.9991, 0.912, 0].map(percent)).toEqual(['100', '99.99', '99.91', '91.2', '0']);
    expect([0, 0.001, 0.5, 4.123, 41.26, 1036].map(rate)).toEqual(['0', '<0.01', '0.5', '4.12', '41.3', '1,036']);
  });
});

describe('names', () => {
  it('shortens ids at the left', () => {
    expect(shortId('msg_2yHbT1mSDzZqCBtLaB3vMCgW4zRf')).toBe('msg_…gW4zRf');
    expect(shortId('acme')).toBe('acme');
  });
  it('splits URLs', () => {
    expect(urlParts('https://hooks.example/a/b?c=1')).toEqual({
      insecure: false,
      host: 'hooks.example',
      path: '/a/b?c=1',
    });
    expect(urlParts('http://hooks.example/')).toEqual({ insecure: true, host: 'hooks.example', path: '' });
    expect(urlParts('javascript:alert(1)').host).toBe('javascript:alert(1)');
  });
  it('takes initials', () => {
    expect(initials('ops-maria')).toBe('OM');
    expect(initials('first')).toBe('FI');
    expect(initials('')).toBe('–');
  });
  it('clips to one line', () => expect(clip('a\n b   c', 4)).toBe('a b…'));
});

describe('commands', () => {
  it('survives a shell, whatever the value contains', () => {
    for (const value of [`it's $HOME \`id\` "x" \\ ; rm -rf / \n new`, "'", '$(id)', '']) {
      expect(execFileSync('sh', ['-c', `printf %s ${shellQuote(value)}`]).toString()).toBe(value);
    }
  });
  it('never holds a key', () => {
    const text = curl({ method: 'POST', url: 'http://h/api/v1/app/a/msg', body: `{"a":"it's"}` });
    expect(text).toContain('Bearer $KEY');
    expect(text).toContain(`-d '{"a":"it'\\''s"}'`);
    expect(text).not.toContain('-X');
    expect(curl({ method: 'DELETE', url: 'http://h/x' })).toContain('-X DELETE');
  });
});
