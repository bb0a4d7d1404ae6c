import { printNote } from '../output/terminal.ts'
import { prepareConsole, whyNoConsole } from './console-build.ts'

/** The console of a server that starts: built behind it, so that no start waits. */
interface StartedConsole {
  /** The directory; undefined when there is none, or it could not be built. */
  readonly directory: Promise<string | undefined>
  /** Begins; call it when the server answers. */
  begin(): void
}

/**
 * Undefined where there can be no console. Progress and failures are notes to people; the server continues
 * without a console.
 */
export function startConsole(options: {
  readonly isJson: boolean
  readonly signal: AbortSignal
}): StartedConsole | undefined {
  const { isJson, signal } = options
  const note = isJson ? () => {} : printNote
  const reason = whyNoConsole()
  if (reason !== undefined) {
    note(`There is no console: ${reason}.`)
    return undefined
  }
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const onBuild = () => note('Building the console; this takes some seconds, once.')
  return {
    directory: promise,
    begin() {
      prepareConsole({ onBuild, signal }).then(resolve, (error: Error) => {
        if (!signal.aborted) note(`The console could not be built: ${error.message}`)
        resolve(undefined)
      })
    },
  }
}
