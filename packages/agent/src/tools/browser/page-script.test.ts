import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { pageScript } from './page-script.ts'

test('every function of the file is sent to the page', async () => {
  const source = await readFile(new URL('page-script.ts', import.meta.url), 'utf8')
  const names = [...source.matchAll(/^function\*? (\w+)/gm)].map(([, name]) => name)
  expect(names.length).toBeGreaterThan(10)
  const sent = [...pageScript.matchAll(/\bfunction\*? (\w+)/g)].map(([, name]) => name)
  expect(sent.toSorted()).toEqual([...names, 'runSelector'].toSorted())
  expect(() => new Function(`return ${pageScript}`)).not.toThrow()
})
