import { aliases, environmentSchema } from './config.ts'

/** The variables that the sandbox server reads. */
export const sandboxServerSettings: readonly string[] = [
  ...Object.keys(environmentSchema.shape),
  ...Object.keys(aliases),
]
