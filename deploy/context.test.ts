import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { images, isReleased } from './context.ts'

const packages = resolve(import.meta.dirname, '../packages')

test.each(Object.entries(images))('the image %s has the packages that its sources import', (_, image) => {
  const imported = image.packages.flatMap((name) =>
    globSync(join(packages, name, 'src/**/*.{ts,js}'))
      .filter((path) => isReleased(path) && !path.includes('/testing/'))
      .flatMap((path) => [...readFileSync(path, 'utf8').matchAll(/(?:from|import\() ?'@slipway\/([\w-]+)/g)])
      .map(([, name]) => name),
  )
  expect([...new Set(imported)].filter((name) => !image.packages.includes(String(name)))).toEqual([])
  expect(imported).toContain('protocol')
})
