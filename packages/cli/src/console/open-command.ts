import { CallError } from '@slipway/client'
import { print, printNote } from '../output/terminal.ts'
import { openBrowser } from './open-browser.ts'

/** Prints a link that signs in to the console once, and opens it. */
export async function openCommand(
  server: {
    readonly url: string
    createToken(): Promise<{ readonly token: string; readonly expires_at: string }>
    readonly isJson: boolean
  },
  options: { readonly data: string; readonly isOpened: boolean },
): Promise<void> {
  const token = await server.createToken().catch((error: unknown) => {
    // A server without keys needs no token.
    if (error instanceof CallError && error.status === 409) return undefined
    throw error
  })
  const url = `${server.url}/${token === undefined ? '' : `#token=${token.token}`}`
  await print(
    server.isJson ? `${JSON.stringify({ url, expires_at: token?.expires_at ?? null })}\n` : `${url}\n`,
  )
  if (!options.isOpened || server.isJson) return
  if (!(await openBrowser(url, options.data)))
    printNote('No browser could be started: open the link yourself.')
}
