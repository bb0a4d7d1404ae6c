import { dirname, join, relative, resolve } from 'node:path'
import type { TextContent } from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { stat } from '@slipway/shared/tool-files'
import { textBlock } from '../tools/core/tool.ts'
import { readSmallFile } from './small-file.ts'

/** Of one file, and of all files together. */
const maxFileBytes = 32 * 1024
const maxTotalChars = 128 * 1024

/**
 * The AGENTS.md files below the root of a workspace, each shown once: the nearest to a file, when it is
 * touched.
 */
export class NestedInstructions {
  readonly #root: string
  readonly #shown = new Set<string>()
  #chars = 0

  /** `root`: the real path of the workspace. */
  constructor(root: string) {
    this.#root = root
  }

  /** The instructions nearest to a path (absolute, or relative to the root) if they were not shown yet. */
  async forPath(path: string): Promise<readonly TextContent[]> {
    const target = resolve(this.#root, path)
    const isFolder = (await stat(target).catch(() => undefined))?.isDirectory() === true
    for (
      let folder = isFolder ? target : dirname(target);
      folder !== this.#root && isWithin(this.#root, folder);
      folder = dirname(folder)
    ) {
      const file = join(folder, 'AGENTS.md')
      if (this.#shown.has(file)) return []
      const read = await readSmallFile(file, { maxBytes: maxFileBytes, within: this.#root })
      if (read === undefined || 'issue' in read || read.text.trim() === '') continue
      this.#shown.add(file)
      this.#chars += read.text.length
      if (this.#chars > maxTotalChars) return []
      return [textBlock(instructionsText(relative(this.#root, file), read))]
    }
    return []
  }

  /** Shows all files again. */
  reset(): void {
    this.#shown.clear()
    this.#chars = 0
  }
}

function instructionsText(
  file: string,
  { text, isTruncated }: { text: string; isTruncated: boolean },
): string {
  const rest = isTruncated ? '\n[The rest does not fit here; read the file when you need it.]' : ''
  return `Instructions of the project for files in ${dirname(file)}. Where they differ from those of a folder above, they go first.\n\n<instructions source="${file}">\n${text.trim()}${rest}\n</instructions>`
}
