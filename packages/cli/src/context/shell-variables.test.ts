import { expect, test } from 'vitest'
import type { ConfigFile } from './config-file.ts'
import { differingVariables, privateServerEnvironment, shownShellVariables } from './shell-variables.ts'

const file = (values: Readonly<Record<string, unknown>>): ConfigFile => ({
  ...{ path: '', text: '', problem: undefined },
  values: new Map(Object.entries(values)),
})

test('a private server has the network, the directories and the language of a shell, and no key or setting', () => {
  const taken = {
    ...{ PATH: '/bin', HOME: '/h', LC_ALL: 'C', XDG_CACHE_HOME: '/c', TMPDIR: '/t', GPG_AGENT_INFO: 'g' },
    ...{ https_proxy: 'http://p', NO_PROXY: '', NODE_EXTRA_CA_CERTS: '/ca', SSH_AUTH_SOCK: '/s' },
    NODE_COMPILE_CACHE: '/n',
  }
  const left = {
    ...{
      PORT: '1',
      NODE_OPTIONS: '--x',
      NODE_ENV: 'x',
      OPENAI_API_KEY: 'k',
      SESSION_API_KEY: 'k',
      OTEL_X: 'x',
    },
    ...{ SLIPWAY_CHECKPOINTS: '1', LLM_API_KEY: 'k', OH_SECRET_KEY: 'k', MY_PATH: '/x', SERVICE_TOKEN: 'k' },
  }
  expect(privateServerEnvironment({ env: { ...left, ...taken }, file: file({}) })).toEqual(taken)
})

test('its settings are those of the file, with the variables that they name', () => {
  const env = { SLIPWAY_LOG_LEVEL: 'debug', TEAM: 'a', TOKEN: 'b', OTHER: 'c' }
  const values = {
    'agent_server.log_level': 'warn',
    'agent_server.tool_environment': ['TEAM', 'ABSENT'],
    'agent_server.llm_api_key_refresh_headers': '{"authorization":"Bearer $TOKEN"}',
    'agent_server.session_api_key': 'a-key-of-another-server',
    'agent_server.data_directory': '/elsewhere',
  }
  expect(privateServerEnvironment({ env, file: file(values) })).toEqual({
    SLIPWAY_LOG_LEVEL: 'warn',
    SLIPWAY_TOOL_ENVIRONMENT: 'TEAM,ABSENT',
    SLIPWAY_LLM_API_KEY_REFRESH_HEADERS: '{"authorization":"Bearer $TOKEN"}',
    ...{ TEAM: 'a', TOKEN: 'b' },
  })
})

test('passwords of addresses are not shown, and only what matters is compared', () => {
  const env = { HTTP_PROXY: 'http://u:p@host:1', PATH: '/bin', LANG: 'C' }
  const shown = shownShellVariables(env)
  expect(shown).toEqual({ HTTP_PROXY: 'http://***@host:1', PATH: '/bin', LANG: 'C' })
  expect(differingVariables(shown, { ...env, PATH: '/other', LANG: 'de', SSL_CERT_FILE: '/c' })).toEqual([
    'SSL_CERT_FILE',
  ])
})
