import { Problem } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { checkProviderHost, checkRepository, resolveRepository } from './git-repository.ts'

const token = (text: string, host?: string) => ({
  token: new Secret(text),
  ...(host === undefined ? {} : { host }),
})

test.each([
  ['o/n', undefined, undefined, 'https://github.com/o/n.git', 'n', undefined],
  ['o/n', 'gitlab', token('t'), 'https://gitlab.com/o/n.git', 'n', 'oauth2:t'],
  ['g/s/n', 'gitlab', token('t', 'git.example:8443'), 'https://git.example:8443/g/s/n.git', 'n', 'oauth2:t'],
  ['o/n', 'github', token('t', 'http://127.0.0.1:3/'), 'http://127.0.0.1:3/o/n.git', 'n', 'x-access-token:t'],
  ['o/n', 'bitbucket', token('me:app'), 'https://bitbucket.org/o/n.git', 'n', 'me:app'],
  ['o/p/n', 'azure_devops', token('t'), 'https://dev.azure.com/o/p/_git/n', 'n', 'oauth2:t'],
  [
    'P/n',
    'bitbucket_data_center',
    token('t', 'b.example'),
    'https://b.example/scm/P/n.git',
    'n',
    'x-token-auth:t',
  ],
  ['https://h.example/a/b.git', undefined, token('t'), 'https://h.example/a/b.git', 'b', undefined],
  ['file:///srv/.hidden', undefined, undefined, 'file:///srv/.hidden', 'hidden', undefined],
  ['o/.', undefined, undefined, 'https://github.com/o/..git', 'project', undefined],
] as const)('%s at %s', (selected, provider, given, url, name, login) => {
  const found = resolveRepository(selected, provider, given)
  expect(found).toMatchObject({ url, name })
  const asked = found?.login
  expect(asked && `${asked.user}:${asked.password.reveal()}`).toBe(login)
})

test('a provider without a default host needs one', () => {
  expect(resolveRepository('o/n', 'bitbucket_data_center', token('t'))).toBeUndefined()
})

test.each([
  ['https://u:p@h/x', true],
  ['https://token@h/x', true],
  ['ssh://git:p@h/x', true],
  ['https://h/x?access_token=p', true],
  ['https://h/x?depth=1', false],
  ['ssh://git@h/x', false],
  ['https://h/x@y', false],
  ['o/n', false],
  [undefined, false],
])('%s holds a password: %s', (address, isRefused) => {
  if (isRefused) expect(() => checkRepository(address)).toThrow(Problem)
  else checkRepository(address)
})

test.each([
  ['https://u:p@h', true],
  ['u:p@h', true],
  ['https://h?token=p', true],
  ['h#p', true],
  ['h', false],
  ['h:8443', false],
  ['http://127.0.0.1:3/git/', false],
  [undefined, false],
])('%s is no host of a provider: %s', (host, isRefused) => {
  if (isRefused) expect(() => checkProviderHost('gitlab', host)).toThrow(Problem)
  else checkProviderHost('gitlab', host)
})
