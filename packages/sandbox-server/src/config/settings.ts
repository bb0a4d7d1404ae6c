import { errorText } from '@slipway/shared/text'
import { aliases, environmentSchema, readConfig } from './config.ts'

/** The variables that the sandbox server reads. */
export const sandboxServerSettings: readonly string[] = [
  ...Object.keys(environmentSchema.shape),
  ...Object.keys(aliases),
]

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
