/** The shape of a log function: one line, with members that may be shown. The writer is in `http`. */
export type LogFunction = (
  level: 'debug' | 'info' | 'warn' | 'error',
  message: string,
  members?: Record<string, unknown>,
) => void
