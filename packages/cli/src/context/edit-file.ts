import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Problem } from '@slipway/protocol/client'
import { exists, makeDirectory, writeFileAtomic } from '@slipway/shared/fs'

interface EditOptions {
  /** A command line of the shell, such as `code --wait`. */
  readonly editor: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly signal: AbortSignal
}

/**
 * Opens a file in an editor and returns its text afterwards. A file that is missing begins with `text`,
 * mode 0600. A Problem when the editor fails.
 */
export async function editFile(path: string, text: string, options: EditOptions): Promise<string> {
  const { editor, env, signal } = options
  await makeDirectory(dirname(path), 0o700)
  if (!(await exists(path))) await writeFileAtomic(path, text)
  const child =
    process.platform === 'win32'
      ? spawn(`${editor} "${path}"`, { shell: true, stdio: 'inherit', env: { ...env }, signal })
      : spawn('sh', ['-c', `${editor} "$@"`, 'sh', path], { stdio: 'inherit', env: { ...env }, signal })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Problem('bad_request', `The editor ${JSON.stringify(editor)} failed.`)
  return await readFile(path, 'utf8')
}
