import { join } from 'node:path'
import { makeDirectory, mkdtemp, rm } from '@slipway/shared/tool-files'

/** Names the workspace to programs that start elsewhere. */
export const workspaceVariable = 'SLIPWAY_WORKSPACE'

/**
 * An empty folder (0700) to start a program of the user in. In the workspace it would pick up what the author
 * of a repository has put there: `npx` a `node_modules/.bin` and an `.npmrc`, Python a module of the name.
 */
export class ProgramFolder implements AsyncDisposable {
  readonly path: string

  private constructor(path: string) {
    this.path = path
  }

  /** `parent` is made if needed. */
  static async create(parent: string): Promise<ProgramFolder> {
    await makeDirectory(parent, 0o700)
    return new ProgramFolder(await mkdtemp(join(parent, 'run-')))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true }).catch(() => undefined)
  }
}
