import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const script = `
  import { registerHooks } from 'node:module'
  const urls = []
  registerHooks({
    resolve(specifier, context, next) {
      const resolved = next(specifier, context)
      urls.push(resolved.url)
      return resolved
    },
  })
  await import(${JSON.stringify(new URL('./text-store.ts', import.meta.url).href)})
  console.log(JSON.stringify(urls))
`

test('the thread of the text index loads no schemas and no library: they would cost more memory than its work', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  const urls: string[] = JSON.parse(stdout)
  expect(urls.some((url) => url.endsWith('/sqlite/database/database.ts'))).toBe(true)
  expect(urls.filter((url) => /node_modules|protocol\/src\/index|core\/schemas/.test(url))).toEqual([])
})
