import { join, resolve } from 'node:path'
import { adoptDataDirectory, type DataKind } from '@slipway/shared/process'
import type { Config } from '../../context/config.ts'
import { findData, moveCommand } from '../../context/data-directory.ts'
import { printNote, printResult } from '../../output/terminal.ts'

/** Prints the data directory of servers that are started here. `isAdopting`: the local one becomes it. */
export async function dataCommand(
  { env, dataDirectory }: Pick<Config, 'env' | 'dataDirectory'>,
  { kind, isAdopting }: { readonly kind: DataKind; readonly isAdopting: boolean },
  isJson: boolean,
): Promise<void> {
  if (isAdopting) {
    const { path, target = path } = await adoptDataDirectory(kind, { env })
    printNote(
      `It is used from now on. To move it out of this directory instead: ${moveCommand(path, target)}`,
    )
  }
  const data = resolve(await findData(kind === 'agent' && !isAdopting ? dataDirectory : undefined, env, kind))
  const key = kind === 'agent' ? { session_key_file: join(data, 'session.key') } : {}
  await printResult(isJson, { data_directory: data, ...key }, data)
}
