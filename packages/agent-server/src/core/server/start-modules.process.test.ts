import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const serveUrl = JSON.stringify(new URL('../../serve.ts', import.meta.url).href)

const script = `
  await import(${serveUrl})
  console.log(JSON.stringify(process.moduleLoadList))
`

test('the server starts without the HTTP client of Node, which a namespace import of node:http would load', async () => {
  const args = ['--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 24 })
  const loaded: string[] = JSON.parse(stdout)
  expect(loaded).toContain('NativeModule http')
  expect(loaded.filter((name) => name.includes('undici/undici'))).toEqual([])
})

/** Serves once with this setting, and prints the files below compat/ that were loaded. */
const compatScript = (data: string, setting: string) => `
  import { registerHooks } from 'node:module'
  const files = []
  registerHooks({ load: (url, context, next) => (files.push(url), next(url, context)) })
  const { serve } = await import(${serveUrl})
  const stop = new AbortController()
  const env = { SLIPWAY_NO_KEY: '1', SLIPWAY_EDITOR_PORT: '9', SLIPWAY_COMPAT: '${setting}' }
  const place = { host: '127.0.0.1', port: 0, data: ${JSON.stringify(data)} }
  await serve({ ...place, env, signal: stop.signal, ready: () => stop.abort() })
  console.log(JSON.stringify(files.filter((url) => url.includes('/compat/'))))
`

test('where compat is off nothing of it is loaded, and its settings are named as without effect', async () => {
  const data = await mkdtemp(join(tmpdir(), 'slipway-compat-'))
  try {
    for (const [setting, isLoaded] of [
      ['off', false],
      ['on', true],
    ] as const) {
      const args = ['--input-type=module', '-e', compatScript(data, setting)]
      const { stdout, stderr } = await promisify(execFile)(process.execPath, args)
      const files: string[] = JSON.parse(stdout)
      expect(files.length > 10, setting).toBe(isLoaded)
      if (!isLoaded) expect(files).toEqual([])
      expect(
        stderr.includes('settings without effect, because SLIPWAY_COMPAT is off: SLIPWAY_EDITOR_PORT'),
      ).toBe(!isLoaded)
    }
  } finally {
    await rm(data, { recursive: true })
  }
})
