/** A controller that Ctrl-C and SIGTERM abort. */
export function abortAtStopSignals(): AbortController {
  const controller = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => controller.abort(new DOMException(signal, 'AbortError')))
  return controller
}

/** Whether SIGTERM aborted a signal of `abortAtStopSignals`. */
export function isTerminated({ reason }: AbortSignal): boolean {
  return reason instanceof DOMException && reason.message === 'SIGTERM'
}
