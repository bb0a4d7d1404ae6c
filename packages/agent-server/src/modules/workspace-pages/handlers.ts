import { fileReply, type Handlers, type Reply, type Request } from '@slipway/http'
import { Problem, type workspaceRoutes } from '@slipway/protocol'
import { openReal } from '@slipway/shared/tool-files'
import { isBrowserLoopback } from '@slipway/shared/url'
import type { ConversationInfoReader } from '../../core/conversations/conversation-info.ts'
import { cookieName, sessionSeconds, ticketSegment, type WorkspaceTickets } from './tickets.ts'
import { pathSegments, type WorkspaceFile, type WorkspaceFiles } from './workspace-files.ts'

type FileRequest = Pick<Request<typeof workspaceRoutes.workspaceRoot>, 'params' | 'header' | 'peer' | 'url'>
type GetHeader = FileRequest['header']

/**
 * A workspace document has no origin, so it cannot call the server as the page of the user. It may run
 * scripts, but not navigate the window that shows it.
 */
const sandboxPolicy = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads'

/** Workspace files for pages, and the tickets and sessions that admit to them. */
export function workspaceHandlers(options: {
  readonly infoReader: ConversationInfoReader
  readonly files: WorkspaceFiles
  readonly tickets: WorkspaceTickets
  /** The path below which a proxy shows this server. */
  readonly basePath?: string
}): Handlers<typeof workspaceRoutes> {
  const { infoReader, files, tickets, basePath = '' } = options
  const cookiePath = `${basePath}/api/conversations`
  const serve = async ({ params, header, peer, url }: FileRequest, path: string): Promise<Reply> => {
    const presented = tickets.findToken(url, header, peer)
    if (presented instanceof Problem) throw presented
    const record = await infoReader.getRecord(params.conversation_id)
    const file = await files.find(record, path.replace(ticketSegment, ''), presented?.token.grant)
    if (isPageNavigation(file, header) && !ticketSegment.test(path)) {
      const page = { conversation: record.id, path: file.name.replace(/\/?[^/]*$/, '') }
      const ticket = tickets.createPageToken(presented, header('x-session-api-key'), page)
      return {
        status: 307,
        bytes: Buffer.alloc(0),
        headers: { location: pageRedirectUrl(url, ticket, file.name), vary },
      }
    }
    return await fileReply(file, {
      header,
      ...(file.contentType === undefined ? {} : { contentType: file.contentType }),
      headers: fileHeaders(file),
      open: openReal,
    })
  }
  return {
    workspaceRoot: (request) => serve(request, ''),
    workspaceFile: (request) => serve(request, request.params.path),
    async createWorkspaceTicket({ params, body, header }) {
      const { id } = await infoReader.getRecord(params.conversation_id)
      const segments = pathSegments(body.path)
      const ticket = tickets.createTicket(header('x-session-api-key'), {
        conversation: id,
        path: segments.join('/'),
        seconds: body.expires_in_seconds,
      })
      const path = ['', 'api', 'conversations', id, 'workspace', ...segments.map(encodeURIComponent)].join(
        '/',
      )
      return {
        json: {
          url: `${path}?ticket=${ticket.text}`,
          expires_at: new Date(ticket.expiresAtMs).toISOString(),
        },
      }
    },
    startWorkspaceSession({ header, peer }) {
      const value = tickets.createSessionToken(header('x-session-api-key'), header('origin'), peer())
      return cookieReply(`${cookieName}=${value}; Max-Age=${sessionSeconds}; Path=${cookiePath}`, header)
    },
    endWorkspaceSession: ({ header }) => cookieReply(`${cookieName}=; Max-Age=0; Path=${cookiePath}`, header),
  }
}

const vary = 'Origin, Cookie, Sec-Fetch-Dest'

function fileHeaders({ contentType }: WorkspaceFile): Record<string, string> {
  return {
    'cache-control': 'private, no-cache',
    // An address may have a ticket in it.
    'referrer-policy': 'no-referrer',
    vary,
    // A browser shows no PDF in a sandbox, and nothing in one acts.
    ...(contentType === 'application/pdf' ? {} : { 'content-security-policy': sandboxPolicy }),
  }
}

/** Whether a browser opens it as a page, whose files need access too. */
function isPageNavigation({ contentType = '' }: WorkspaceFile, header: GetHeader): boolean {
  const isPage = /^(text\/html|application\/xhtml)/.test(contentType)
  return isPage && /^(document|i?frame|embed|object)$/.test(header('sec-fetch-dest') ?? '')
}

/** The URL of a page with a ticket segment, relative to the requested URL. */
function pageRedirectUrl(url: string, ticket: string, name: string): string {
  const [path = ''] = url.split('?', 1)
  const rest = /^(?:\/+[^/]+){4}(.*)$/s.exec(path)?.[1] ?? ''
  const slashes = rest.split('/').length - 1
  const up = slashes === 0 ? 'workspace/' : '../'.repeat(slashes - 1)
  return `${up}~${ticket}/${name.split('/').map(encodeURIComponent).join('/')}`
}

/** Browsers store third-party cookies only when secure, which loopback allows too. */
function cookieReply(cookie: string, header: GetHeader): Reply {
  const host = URL.parse(`http://${header('host') ?? ''}`)?.hostname ?? ''
  const isEncrypted = header('x-forwarded-proto') === 'https' || /^https:/i.test(header('origin') ?? '')
  const sameSite =
    isEncrypted || isBrowserLoopback(host) ? 'SameSite=None; Secure; Partitioned' : 'SameSite=Lax'
  const headers = { 'set-cookie': `${cookie}; HttpOnly; ${sameSite}` }
  return { status: 204, bytes: Buffer.alloc(0), headers }
}
