import { acceptsHtml, type Reply, Site } from '@slipway/http'

const keyRequiredScript = 'window.__AGENT_CANVAS_AUTH_REQUIRED__=true'
/** Makes the client open the server without asking for a key. */
const noKeyScript = "window.__AGENT_CANVAS_SESSION_API_KEY__='none'"
/** Telemetry of the client is off on a self-hosted server. */
const doNotTrackScript = 'window.__AGENT_CANVAS_DO_NOT_TRACK__=true'

/** The page of a web client that this server shows at its own address, and its files. */
interface WebClient {
  readonly site: Site
  /** For `GET /`: the page when a browser asks, else undefined. */
  root(header: (name: string) => string | undefined): Promise<Reply> | undefined
}

/**
 * Opens an unpacked web client: the directory of its page, or of its package. Its page learns whether a key
 * is needed, never a key. Rejects when there is no page.
 */
export async function openWebClient(directory: string, isKeyNeeded: () => boolean): Promise<WebClient> {
  const head = () => `<script>${isKeyNeeded() ? keyRequiredScript : noKeyScript};${doNotTrackScript}</script>`
  const site = await Site.open(directory, { head })
  return { site, root: (header) => (acceptsHtml(header) ? site.page(header) : undefined) }
}
