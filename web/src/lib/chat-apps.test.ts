import { describe, expect, it } from 'vitest';
import { appBody, appForm, formError, freeKinds, membersOf } from './chat-apps';

describe('chat apps', () => {
  it('offers the platforms with direct messages that have no app yet', () => {
    const names = freeKinds(['slack']).map(([kind]) => kind);
    expect(names).toEqual(['teams', 'feishu', 'lark', 'dingtalk', 'wecom']);
  });

  it('sends only the members of the platform', () => {
    const form = { ...appForm('slack'), clientId: 'left over', secret: ' xoxb-1 ', agentId: '7' };
    expect(appBody(form)).toEqual({ secret: 'xoxb-1' });
    expect(
      appBody({
        ...appForm('wecom'),
        clientId: 'ww1',
        agentId: '1000002',
        secret: 's',
        apiUrl: 'https://chat.internal',
      }),
    ).toEqual({ clientId: 'ww1', agentId: 1_000_002, secret: 's', apiUrl: 'https://chat.internal' });
  });

  it('requires each member, but the secret of a stored app', () => {
    expect(formError(appForm('teams'), false)?.text).toBe('Bot id is required');
    expect(formError({ ...appForm('wecom'), clientId: 'a', agentId: 'x' }, true)?.text).toBe(
      'Agent id must be a whole number',
    );
    expect(formError(appForm('slack'), true)).toBeNull();
    expect(formError(appForm('slack'), false)?.member).toBe('secret');
  });

  it('shows what is stored, never a secret', () => {
    expect(appForm('teams', { kind: 'teams', clientId: 'c', tenantId: 't' })).toEqual({
      kind: 'teams',
      clientId: 'c',
      tenantId: 't',
      agentId: '',
      secret: '',
      apiUrl: '',
    });
    expect(membersOf('discord')).toEqual([]);
  });
});
