import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { FileTreeWriter, InvalidTreeError } from './file-tree.ts'

const bytes = Buffer.from('x')

test.for<[string, (tree: FileTreeWriter) => Promise<void>]>([
  ['a file at the place of a file', (tree) => tree.file('a', bytes, false)],
  ['a file below a file', (tree) => tree.file('a/b', bytes, false)],
  ['a file at the place of a folder', (tree) => tree.file('folder', bytes, false)],
  [
    'a link at the place of a file',
    (tree) => {
      tree.link('a', 'folder/b')
      return tree.finish()
    },
  ],
  [
    'a link at the place of a folder',
    (tree) => {
      tree.link('folder', 'a')
      return tree.finish()
    },
  ],
])('%s is refused', async ([, add]) => {
  const base = await mkdtemp(join(tmpdir(), 'slipway-tree-'))
  onTestFinished(() => rm(base, { recursive: true }))
  const tree = await FileTreeWriter.start(join(base, 'tree'))
  await tree.file('a', bytes, false)
  await tree.file('folder/b', bytes, false)
  const adding = add(tree)
  await expect(adding).rejects.toThrow(InvalidTreeError)
  await expect(adding).rejects.toThrow('two entries in one place')
})
