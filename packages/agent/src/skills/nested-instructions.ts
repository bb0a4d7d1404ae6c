import { dirname, relative, resolve } from 'node:path'
import type { TextContent } from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import { isWithin } from '@slipway/shared/fs'
import { stat } from '@slipway/shared/tool-files'
import { textBlock } from '../tools/core/tool.ts'
import { type Instructions, readInstructions } from './instruction-files.ts'

/** Of all files together. */
const maxTotalChars = 128 * 1024

/**
 * The AGENTS.md and CLAUDE.md files below the root of a workspace, each shown once: those on the way from the
 * root to a file, when it is touched.
 */
export class NestedInstructions {
  readonly #root: string
  readonly #shown = new Set<string>()
  /** Calls that only read run at the same time. */
  readonly #mutex = new Mutex()
  #chars = 0

  /** `root`: the real path of the workspace. */
  constructor(root: string) {
    this.#root = root
  }

  /**
   * The instructions for a path (absolute, or relative to the root) that were not shown yet, those of the
   * outermost folder first.
   */
  async forPath(path: string): Promise<readonly TextContent[]> {
    return await this.#mutex.runExclusive(async () => {
      const target = resolve(this.#root, path)
      const isFolder = (await stat(target).catch(() => undefined))?.isDirectory() === true
      const blocks: TextContent[] = []
      for (
        let folder = isFolder ? target : dirname(target);
        folder !== this.#root && isWithin(this.#root, folder);
        folder = dirname(folder)
      ) {
        const found = await readInstructions(folder, this.#root)
        blocks.unshift(...found.flatMap((instructions) => this.#show(instructions)))
      }
      return blocks
    })
  }

  /** Shows all files again. */
  reset(): void {
    this.#shown.clear()
    this.#chars = 0
  }

  #show(instructions: Instructions): TextContent[] {
    const { file, text } = instructions
    if (this.#shown.has(file)) return []
    this.#shown.add(file)
    this.#chars += text.length
    return this.#chars > maxTotalChars
      ? []
      : [textBlock(instructionsText(relative(this.#root, file), instructions))]
  }
}

function instructionsText(file: string, { text, isTruncated }: Instructions): string {
  const rest = isTruncated ? '\n[The rest does not fit here; read the file when you need it.]' : ''
  return `Instructions of the project for files in ${dirname(file)}. Where they differ from those of a folder above, they go first.\n\n<instructions source="${file}">\n${text}${rest}\n</instructions>`
}
