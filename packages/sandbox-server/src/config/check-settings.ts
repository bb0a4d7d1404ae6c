import { findSettingsFault, settingRows } from '@slipway/protocol'
import { readConfig } from './config.ts'
import { settings } from './settings.ts'

/** The variables that the sandbox server reads. */
export const sandboxServerSettings: readonly string[] = settingRows(settings).flatMap(
  ({ name, aliases = [] }) => [name, ...aliases],
)

/** What is wrong with the values of these variables; never shows a value. */
export function checkSandboxServerSettings(
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  return findSettingsFault(readConfig, env)
}
