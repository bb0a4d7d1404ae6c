import { settingRows } from '@slipway/protocol'
import { errorText } from '@slipway/shared/text'
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
  try {
    readConfig(env)
    return undefined
  } catch (error) {
    return errorText(error)
  }
}
