import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const script = `
  await import(${JSON.stringify(new URL('../../serve.ts', import.meta.url).href)})
  console.log(JSON.stringify(process.moduleLoadList))
`

test('the server starts without the HTTP client of Node, which a namespace import of node:http would load', async () => {
  const args = ['--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 24 })
  const loaded: string[] = JSON.parse(stdout)
  expect(loaded).toContain('NativeModule http')
  expect(loaded.filter((name) => name.includes('undici/undici'))).toEqual([])
})
