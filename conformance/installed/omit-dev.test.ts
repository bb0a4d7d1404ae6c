import { globSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '../..')
// The console is bundled by a library of the tests; a clone without these has none.
const folders = ['examples', ...globSync('packages/*', { cwd: root })].filter(
  (folder) => folder !== 'packages/console',
)
/** Imported when a setting asks for it; without it the server says what to install. */
const onRequest = ['@kubernetes/client-node']
const packageName = (module: string) => module.split('/', module.startsWith('@') ? 2 : 1).join('/')

test.each(folders)(
  '%s runs after npm ci --omit=dev: it depends on each library that it imports',
  (folder) => {
    const manifest = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
    const declared = new Set([
      manifest.name,
      ...onRequest,
      ...Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }),
    ])
    const files = globSync(`${folder}/**/*.{ts,js}`, { cwd: root }).filter(
      (file) =>
        !/\/(node_modules|testing)\/|^examples\/(readme|client)\/|\.(test|contract|bench|d)\.ts$/.test(file),
    )
    expect(files.length).toBeGreaterThan(0)
    const missing = files.flatMap((file) => {
      // Types are blanked out before a module runs.
      const source = readFileSync(join(root, file), 'utf8').replaceAll(
        /^(import|export) type [\s\S]*?from '.*'$/gm,
        '',
      )
      const modules = [
        ...source.matchAll(/(?:^(?:import|export) [^;'`]*?from |^import |\bimport\()'([^'.][^']*)'/gm),
      ]
      return modules
        .map(([, module = '']) => packageName(module))
        .filter((name) => !isBuiltin(name) && !declared.has(name))
        .map((name) => `${file}: ${name}`)
    })
    expect(missing).toEqual([])
  },
)
