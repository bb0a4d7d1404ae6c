import { firstChars } from '@slipway/shared/text'
import { runProgram } from './run-program.ts'

const timeoutMs = 600_000

/** Removes files of any depth and with any permissions; does not enter mounts. */
export async function removeFiles(paths: readonly string[]): Promise<void> {
  if (paths.length === 0) return
  const options = process.platform === 'linux' ? ['-rf', '--one-file-system'] : ['-rf']
  const remove = () => runProgram('rm', [...options, '--', ...paths], timeoutMs)
  if ((await remove()).isOk) return
  await runProgram('chmod', ['-R', 'u+rwx', '--', ...paths], timeoutMs)
  await runProgram('chattr', ['-R', '-f', '-i', '-a', '--', ...paths], timeoutMs)
  const { isOk, output } = await remove()
  if (!isOk) throw new Error(`Its files cannot be removed: ${firstChars(output, 500)}`)
}
